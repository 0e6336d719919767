//! Verifies a database that was made from a block log: each block follows the previous one, its transactions match the merkle
//! root in its header, and the families of ids match the blocks.
//!
//! Threads share ranges of numbers. Ids and merkle roots are computed from the stored bytes. `block_ids` is compared by the
//! content digest of the expected records, which does not depend on order.

use std::ops::RangeInclusive;

use super::job::{VerifyJob, compare, ranges_of};
use super::log_transactions;
use super::scan::{Totals, for_each};
use crate::blocks::chain::{self, Header, TransactionOptions};
use crate::error::{Error, Result};
use crate::hash::content_digest::Content;
use crate::progress::Phase;
use crate::report::{ImportReport, LogVerified, ProblemKind, VerifiedLog};
use crate::rocks::key_ranges::KeyRange;
use crate::rocks::{DataFile, FamilyScan};
use crate::schema::{BLOCK_IDS, TRANSACTIONS};
use crate::source::block_log::Lookup;
use parking_lot::Mutex;

/// Records between two updates of the progress.
const BATCH: u64 = 1024;

/// The problem of a family of transactions that has others than the blocks.
const OTHER_TRANSACTIONS: &str = "transactions does not hold the ids of the blocks' transactions";

/// Expected content of the families of ids.
#[derive(Default)]
struct Ids {
    blocks: Content,
    /// Transactions; no use where an operation is not known, for there the ids of a block end.
    transactions: Content,
    /// Those of both that were written since the import.
    blocks_since: Content,
    transactions_since: Content,
}

impl Ids {
    fn merge(&mut self, other: &Self) {
        self.blocks.merge(other.blocks);
        self.transactions.merge(other.transactions);
        self.blocks_since.merge(other.blocks_since);
        self.transactions_since.merge(other.transactions_since);
    }
}

/// Result for a range of numbers.
#[derive(Default)]
struct RangeFindings {
    first: Option<Header>,
    last: Option<Header>,
    totals: Totals,
    ids: Ids,
    /// Blocks whose merkle root was compared, and those whose root cannot be computed.
    roots: u64,
    unknown_operations: u64,
    /// True if something in the range could not be read.
    broken: bool,
}

/// Verifies all column families of a database made from a log.
pub(super) fn everything(
    job: &VerifyJob<'_>,
    files: &[DataFile],
    record: &ImportReport,
) -> Result<(Totals, Option<VerifiedLog>)> {
    let lookup = lookup(record);
    // Blocks of a log follow each other: what is not between the first and the last of the import was written since.
    let own = record.log.as_ref().map_or(0..=u32::MAX, |log| log.first.number..=log.last.number);
    let work = ranges_of(files, job.family);
    let recorded = record.log.iter().flat_map(|log| &log.families).map(|family| family.name.as_str());
    let others = job.others(files, &recorded.chain([job.family]).collect::<Vec<_>>());
    job.progress.begin(Phase::Verify, Some(record.payload_bytes));
    let found: Mutex<Vec<RangeFindings>> = Mutex::default();
    for_each(job, work.len() + others.len() + 1, |worker, item| {
        let Some(item) = item.checked_sub(1) else { return job.check_tables(files) };
        if let Some(range) = work.get(item) {
            let findings = verify_range(job, range, &lookup, &own)?;
            found.lock().push(findings);
        } else if let Some((family, range)) = others.get(item - work.len()) {
            worker.go_through(family, range, None)?;
        }
        Ok(())
    })?;
    let mut found = found.into_inner();
    found.sort_by_key(|findings| findings.first.map(|first| first.number));
    let (mut totals, mut before, mut broken) = (Totals::default(), None, false);
    let (mut ids, mut roots, mut unknown_operations) = (Ids::default(), 0, 0);
    for findings in &found {
        totals.merge(&findings.totals);
        ids.merge(&findings.ids);
        roots += findings.roots;
        unknown_operations += findings.unknown_operations;
        if let (Some(before), Some(first)) = (before.filter(|_| !broken), &findings.first) {
            check_link(job, before, first);
        }
        (before, broken) = (findings.last.as_ref().or(before), findings.broken);
    }
    check_families(job, record, &lookup, &ids, unknown_operations == 0)?;
    let log = record.log.as_ref().map(|log| VerifiedLog {
        import_verified: log.verified,
        not_covered: log.not_covered.clone(),
        roots,
        unknown_operations,
    });
    Ok((totals, log))
}

fn check_link(job: &VerifyJob<'_>, before: &Header, header: &Header) {
    let key = header.number.to_be_bytes();
    if before.number.checked_add(1) != Some(header.number) {
        job.problems.add_key(ProblemKind::Link, job.family, &key, || {
            format!("block {} follows block {}", header.number, before.number)
        });
    } else if before.id != header.previous {
        job.problems.add_key(ProblemKind::Link, job.family, &key, || {
            format!(
                "block {} says that it follows {}, but block {} has the id {}",
                header.number, header.previous, before.number, before.id
            )
        });
    }
}

fn verify_range(
    job: &VerifyJob<'_>,
    range: &KeyRange,
    lookup: &Lookup,
    own: &RangeInclusive<u32>,
) -> Result<RangeFindings> {
    let mut findings = RangeFindings::default();
    let mut pending = (0, 0);
    let mut last_key = range.from.clone().unwrap_or_default();
    let mut scan = job.reader.scan(job.family, range.from.as_deref(), range.to.as_deref())?;
    while let Some((key, value)) = scan.item() {
        findings.totals.records += 1;
        findings.totals.payload += value.len() as u64;
        findings.totals.digest.add_record(key, value);
        last_key.clear();
        last_key.extend_from_slice(key);
        match chain::header(lookup.family, lookup.version, value) {
            Ok(header) if header.number.to_be_bytes() == key => {
                if let Some(before) = &findings.last {
                    check_link(job, before, &header);
                }
                if header.number == 1 && !header.previous.is_zero() {
                    let message = || format!("block 1 says that it follows {}", header.previous);
                    job.problems.add_key(ProblemKind::Link, job.family, key, message);
                }
                match lookup.of_block(value, &header, false) {
                    Ok(found) => {
                        let unknown = found.unknown_operations > 0;
                        *(if unknown { &mut findings.unknown_operations } else { &mut findings.roots }) += 1;
                        for (position, id) in (0u32..).zip(&found.ids) {
                            let place = [header.number.to_be_bytes(), position.to_be_bytes()].concat();
                            findings.ids.transactions.add_record(id.as_bytes(), &place);
                            if !own.contains(&header.number) {
                                findings.ids.transactions_since.add_record(id.as_bytes(), &place);
                            }
                        }
                    }
                    Err(problem) => {
                        job.problems.add_key(ProblemKind::Root, job.family, key, || problem.to_string());
                    }
                }
                findings.ids.blocks.add_record(header.id.as_bytes(), key);
                if !own.contains(&header.number) {
                    findings.ids.blocks_since.add_record(header.id.as_bytes(), key);
                    findings.totals.since.add_record(key, value);
                }
                findings.first.get_or_insert(header);
                findings.last = Some(header);
            }
            Ok(header) => {
                let message = || format!("it is block {}", header.number);
                job.problems.add_key(ProblemKind::Key, job.family, key, message);
            }
            Err(problem) => {
                job.problems.add_key(ProblemKind::Hash, job.family, key, || problem.to_string());
            }
        }
        pending = (pending.0 + value.len() as u64, pending.1 + 1);
        if pending.1 == BATCH {
            job.progress.add(pending.0, pending.1);
            pending = (0, 0);
            if job.options.resources.stop.is_cancelled() {
                return Err(Error::interrupted_reading());
            }
        }
        scan.next();
    }
    job.progress.add(pending.0, pending.1);
    if let Err(error) = scan.status() {
        findings.broken = true;
        job.problems.add_unreadable(job.family, &last_key, error.to_string());
    }
    Ok(findings)
}

/// Checks that the other families match the record and the blocks.
fn check_families(
    job: &VerifyJob<'_>,
    record: &ImportReport,
    lookup: &Lookup,
    ids: &Ids,
    all_known: bool,
) -> Result<()> {
    for known in record.log.iter().flat_map(|log| &log.families).filter(|known| known.name != job.family) {
        let name = known.name.as_str();
        if !job.reader.families().iter().any(|family| family == name) {
            job.problems.add(ProblemKind::Count, None, format!("there is no column family {name}"));
            continue;
        }
        let (reader, resources) = (job.reader, &job.options.resources);
        let (threads, stop, progress) = (resources.thread_count(), &resources.stop, job.progress);
        let files = reader.files()?;
        let content = match (FamilyScan { reader, files: &files, family: name, threads, progress, stop }).content() {
            Ok((content, _)) => content,
            Err(error @ crate::error::Error::Interrupted { .. }) => return Err(error),
            Err(error) => {
                job.problems.add(ProblemKind::Checksum, None, format!("{name} cannot be read: {error}"));
                continue;
            }
        };
        let mut expected = Content { records: known.records, digest: known.digest };
        expected.merge(if name == BLOCK_IDS { ids.blocks_since } else { ids.transactions_since });
        let added = name == TRANSACTIONS && all_known && ids.transactions_since.records > 0;
        if added && content != expected {
            // A block that was added may name a transaction again, which keeps one of its places.
            if !log_transactions::agree(job, &files, lookup)? {
                job.problems.add(ProblemKind::Index, None, OTHER_TRANSACTIONS.into());
            }
            continue;
        }
        compare(name, (content.records, content.digest), (expected.records, expected.digest), job.problems);
        if name == BLOCK_IDS && content.digest != ids.blocks.digest && content == expected {
            let message = format!("{name} does not hold the ids of the blocks");
            job.problems.add(ProblemKind::Index, None, message);
        }
        // What was read is what was written and what was left out.
        expected.merge(Content { records: known.duplicates, digest: known.duplicate_digest });
        if name == TRANSACTIONS && all_known && ids.transactions != expected {
            job.problems.add(ProblemKind::Index, None, OTHER_TRANSACTIONS.into());
        }
    }
    Ok(())
}

/// How the transactions of the database are read. After an import that checked them all, an operation of an unknown
/// kind is damage.
fn lookup(record: &ImportReport) -> Lookup {
    let (family, version) = record.chain();
    let checked_all =
        record.log.as_ref().is_some_and(|log| log.verified == LogVerified::Hash && log.unknown_operations == 0);
    let ids = record.log.iter().flat_map(|log| &log.families).any(|family| family.name == TRANSACTIONS);
    Lookup { options: TransactionOptions { ids, merkle: true, skip_unknown: !checked_all }, family, version }
}
