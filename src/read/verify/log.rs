//! Verifies a database that was made from a block log: each block follows the previous one, its transactions match the merkle
//! root in its header, and the families of ids match the blocks, by content digests that do not depend on order.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use parking_lot::Mutex;

use super::job::VerifyJob;
use super::log_transactions;
use super::recorded::compare_content;
use super::scan::{Seen, Totals, read_all, read_range};
use crate::blocks::chain::{self, Header, TransactionOptions};
use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::report::{ImportReport, LogVerified, ProblemKind, VerifiedLog};
use crate::rocks::key_ranges::KeyRange;
use crate::schema::{BLOCK_IDS, TRANSACTIONS};
use crate::source::block_log::TransactionLookup;

/// The problem of a family of transactions that has others than the blocks.
const OTHER_TRANSACTIONS: &str = "transactions does not have the ids of the blocks' transactions";

/// Expected content of a family of ids.
#[derive(Default)]
struct Ids {
    all: Content,
    /// Records of blocks that were written since the import.
    since: Content,
}

impl Ids {
    fn add(&mut self, key: &[u8], value: &[u8], is_new: bool) {
        self.all.add_record(key, value);
        if is_new {
            self.since.add_record(key, value);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.all.merge(other.all);
        self.since.merge(other.since);
    }
}

/// Result for consecutive records.
#[derive(Default)]
struct Findings {
    first: Option<Header>,
    last: Option<Header>,
    totals: Totals,
    blocks: Ids,
    /// Incomplete if a block has an unknown operation, where the ids of that block end.
    transactions: Ids,
    /// Blocks whose merkle root was compared, and those whose root cannot be computed.
    roots: u64,
    unknown_operations: u64,
    /// True if the records that follow could not be read.
    is_broken: bool,
}

pub(super) fn everything(job: &VerifyJob<'_>, record: &ImportReport) -> Result<(Totals, Option<VerifiedLog>)> {
    let lookup = lookup(record);
    // Blocks of a log follow each other: what is not between the first and the last of the import was written since.
    let own = record.log.as_ref().map_or(0..=u32::MAX, |log| log.first.number..=log.last.number);
    let recorded = record.log.iter().flat_map(|log| &log.families).map(|family| family.name.as_str());
    let known: Vec<&str> = recorded.chain([job.family]).collect();
    let found: Mutex<BTreeMap<usize, Vec<Findings>>> = Mutex::default();
    read_all(job, &job.ranges_of(job.family), &known, record.payload_bytes, |_, item, range| {
        let findings = verify_range(job, range, &lookup, &own)?;
        found.lock().insert(item, findings);
        Ok(())
    })?;
    let (mut all, mut before) = (Findings::default(), None);
    for findings in found.into_inner().into_values().flatten() {
        if let (Some(before), Some(first)) = (&before, &findings.first) {
            check_link(job, before, first);
        }
        before = if findings.is_broken { None } else { findings.last.or(before) };
        all.totals.merge(&findings.totals);
        all.blocks.merge(&findings.blocks);
        all.transactions.merge(&findings.transactions);
        all.roots += findings.roots;
        all.unknown_operations += findings.unknown_operations;
    }
    check_families(job, record, &lookup, &all)?;
    let log = record.log.as_ref().map(|log| VerifiedLog {
        import_verified: log.verified,
        not_covered: log.not_covered.clone(),
        roots: all.roots,
        unknown_operations: all.unknown_operations,
    });
    Ok((all.totals, log))
}

fn check_link(job: &VerifyJob<'_>, before: &Header, header: &Header) {
    let Header { number, previous, .. } = header;
    let message = if before.number.checked_add(1) != Some(*number) {
        format!("block {number} follows block {}", before.number)
    } else if before.id != *previous {
        let (id, before) = (before.id, before.number);
        format!("block {number} names {previous} as its parent, but block {before} has the id {id}")
    } else {
        return;
    };
    job.problems.add_key(ProblemKind::Link, job.family, &number.to_be_bytes(), || message);
}

/// Verifies a range of numbers. Each unreadable part ends one of the findings.
fn verify_range(
    job: &VerifyJob<'_>,
    range: &KeyRange,
    lookup: &TransactionLookup,
    own: &RangeInclusive<u32>,
) -> Result<Vec<Findings>> {
    let (mut all, mut findings) = (Vec::new(), Findings::default());
    read_range(job, job.family, range, |seen| match seen {
        Seen::Record(key, block) => {
            job.progress.add(block.len() as u64, 1);
            findings.add(job, (key, block), lookup, own);
        }
        Seen::Gap(_) => {
            findings.is_broken = true;
            all.push(std::mem::take(&mut findings));
        }
    })?;
    all.push(findings);
    Ok(all)
}

impl Findings {
    fn add(
        &mut self,
        job: &VerifyJob<'_>,
        (key, block): (&[u8], &[u8]),
        lookup: &TransactionLookup,
        own: &RangeInclusive<u32>,
    ) {
        let problem = |kind, message| job.problems.add_key(kind, job.family, key, || message);
        self.totals.content.add_record(key, block);
        self.totals.payload += block.len() as u64;
        let header = match chain::header(lookup.family, lookup.version, block) {
            Ok(header) if header.number.to_be_bytes() == key => header,
            Ok(header) => return problem(ProblemKind::Key, format!("it is block {}", header.number)),
            Err(error) => return problem(ProblemKind::Hash, error.to_string()),
        };
        if let Some(before) = &self.last {
            check_link(job, before, &header);
        }
        if header.number == 1 && !header.previous.is_zero() {
            problem(ProblemKind::Link, format!("block 1 names {} as its parent", header.previous));
        }
        let is_new = !own.contains(&header.number);
        match lookup.of_block(block, &header, false) {
            Ok(found) => {
                let unknown = found.unknown_operations > 0;
                *(if unknown { &mut self.unknown_operations } else { &mut self.roots }) += 1;
                for (position, id) in (0u32..).zip(&found.ids) {
                    let place = [header.number.to_be_bytes(), position.to_be_bytes()].concat();
                    self.transactions.add(id.as_bytes(), &place, is_new);
                }
            }
            Err(error) => problem(ProblemKind::Root, error.to_string()),
        }
        self.blocks.add(header.id.as_bytes(), key, is_new);
        if is_new {
            self.totals.since.add_record(key, block);
        }
        self.first.get_or_insert(header);
        self.last = Some(header);
    }
}

fn check_families(
    job: &VerifyJob<'_>,
    record: &ImportReport,
    lookup: &TransactionLookup,
    found: &Findings,
) -> Result<()> {
    let all_known = found.unknown_operations == 0;
    let index_problem = |message: String| job.problems.add(ProblemKind::Index, None, message);
    for known in record.log.iter().flat_map(|log| &log.families).filter(|known| known.name != job.family) {
        let name = known.name.as_str();
        if !job.reader.families.contains(&known.name) {
            job.problems.add(ProblemKind::Count, None, format!("the column family {name} is missing"));
            continue;
        }
        let content = match job.scan_of(name).content() {
            Ok((content, _)) => content,
            Err(error @ Error::Interrupted { .. }) => return Err(error),
            Err(error) => {
                job.problems.add(ProblemKind::Checksum, None, format!("{name} cannot be read: {error}"));
                continue;
            }
        };
        let mut expected = Content { records: known.records, digest: known.digest };
        expected.merge(if name == BLOCK_IDS { found.blocks.since } else { found.transactions.since });
        let added = name == TRANSACTIONS && all_known && found.transactions.since.records > 0;
        if added && content != expected {
            // A block that was added may name a transaction again, which keeps one of its places.
            if !log_transactions::agree(job, lookup)? {
                index_problem(OTHER_TRANSACTIONS.into());
            }
            continue;
        }
        compare_content(&format!(" of {name}"), content, expected, job.problems);
        if name == BLOCK_IDS && content.digest != found.blocks.all.digest && content == expected {
            index_problem(format!("{name} does not have the ids of the blocks"));
        }
        // What was read is what was written and what was left out.
        expected.merge(Content { records: known.duplicates, digest: known.duplicate_digest });
        if name == TRANSACTIONS && all_known && found.transactions.all != expected {
            index_problem(OTHER_TRANSACTIONS.into());
        }
    }
    Ok(())
}

/// Returns how to read transactions. After an import that checked them all, an operation of an unknown kind is damage.
fn lookup(record: &ImportReport) -> TransactionLookup {
    let (family, version) = record.chain();
    let checked_all =
        record.log.as_ref().is_some_and(|log| log.verified == LogVerified::Hash && log.unknown_operations == 0);
    let ids = record.log.iter().flat_map(|log| &log.families).any(|family| family.name == TRANSACTIONS);
    TransactionLookup { options: TransactionOptions { ids, merkle: true, skip_unknown: !checked_all }, family, version }
}
