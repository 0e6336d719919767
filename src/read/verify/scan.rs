//! Verifies a range of records: reads, hashes in batches, compares, and skips what cannot be read.

use super::against::SourceEntries;
use super::job::VerifyJob;
use crate::error::{Error, Result};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::hash::fingerprint::fingerprint;
use crate::hash::{BATCH, Checker, Claim, FailureKind, problem_of};
use crate::parallel;
use crate::progress::Phase;
use crate::read::keys::each_failure;
use crate::read::visited::Visited;
use crate::report::ProblemKind;
use crate::rocks::key_ranges::{KeyRange, Window};
use crate::rocks::{Scan, ScanMemory};

/// Bytes of records per batch: fits a second-level cache.
const BATCH_BYTES: usize = 1 << 20;

/// Memory of a batch that is reused, in bytes.
const KEPT_BYTES: usize = 8 << 20;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub content: Content,
    pub payload: u64,
    /// Distinct blocks of the source.
    pub source: Content,
    pub same: u64,
    pub extra: u64,
    pub unreadable: u64,
    /// Records that are known not to be the import's.
    pub since: Content,
}

impl Totals {
    pub fn merge(&mut self, other: &Self) {
        self.content.merge(other.content);
        self.payload += other.payload;
        self.source.merge(other.source);
        self.same += other.same;
        self.extra += other.extra;
        self.unreadable += other.unreadable;
        self.since.merge(other.since);
    }
}

pub(super) enum Seen<'a> {
    /// Key and value of a record.
    Record(&'a [u8], &'a [u8]),
    /// Unreadable records before this key, or up to the end of the range.
    Gap(Option<&'a [u8]>),
}

/// Reads a range and reports what cannot be read.
pub(super) fn read_range(
    job: &VerifyJob<'_>,
    family: &str,
    range: &KeyRange,
    mut see: impl FnMut(Seen<'_>),
) -> Result<()> {
    let mut last = range.from.clone().unwrap_or_default();
    let mut scan = job.reader.scan(family, range.from.as_deref(), range.to.as_deref())?;
    loop {
        while let Some((key, value)) = scan.item() {
            see(Seen::Record(key, value));
            last.clear();
            last.extend_from_slice(key);
            job.options.resources.stop.check(Error::interrupted_reading)?;
            scan.next();
        }
        let Err(error) = scan.status() else { return Ok(()) };
        if matches!(error, Error::State { .. }) {
            return Err(error);
        }
        job.problems.add_unreadable(family, &last, error.to_string());
        let Some(readable) = step_over(job, family, &last, range.to.as_deref())? else {
            see(Seen::Gap(None));
            return Ok(());
        };
        scan = readable;
        see(Seen::Gap(scan.item().map(|(key, _)| key)));
    }
}

/// A thread's share of the work.
pub(super) struct ScanWorker<'a> {
    job: &'a VerifyJob<'a>,
    checker: Checker,
    batch: RecordBatch,
    entries: Option<SourceEntries>,
    totals: Totals,
}

/// Concatenated records, key and value side by side.
#[derive(Default)]
struct RecordBatch {
    bytes: Vec<u8>,
    /// Start, length of the key, end.
    records: Vec<(usize, usize, usize)>,
}

impl<'a> ScanWorker<'a> {
    fn new(job: &'a VerifyJob<'a>) -> Self {
        let (checker, batch) = (Checker::new(), RecordBatch::default());
        Self { job, checker, batch, entries: None, totals: Totals::default() }
    }

    /// Reads all blocks of a range and, of the family that holds the blocks, checks all records.
    pub fn scan_range(&mut self, family: &str, range: &KeyRange, entries: Option<SourceEntries>) -> Result<()> {
        let job = self.job;
        if let Some(entries) = &entries {
            self.totals.source.merge(entries.content);
            for key in &entries.conflicts {
                let message = || "the source has two different blocks under this key".to_owned();
                job.problems.add_key(ProblemKind::Differs, family, key, message);
            }
        }
        self.entries = entries;
        read_range(job, family, range, |seen| match seen {
            Seen::Record(key, value) if family == job.family => self.add(key, value),
            Seen::Record(..) => {}
            Seen::Gap(next) => {
                self.check_batch();
                // Entries of unreadable records cannot be compared.
                if let Some(entries) = &mut self.entries {
                    entries.skip_before(next, |_| self.totals.unreadable += 1);
                }
            }
        })?;
        self.check_batch();
        self.entries.take().unwrap_or_default().skip_before(None, |key| job.add_missing(key));
        Ok(())
    }

    /// Checks one record for each of `keys`, which ascend: the first at or after the key and before `to` that is not in `picked`.
    pub fn pick(&mut self, keys: &[Vec<u8>], to: Option<&[u8]>, picked: &Visited) -> Result<()> {
        let job = self.job;
        let mut scan = job.reader.pick(job.family)?;
        let mut last: Option<Vec<u8>> = None;
        for key in keys {
            job.options.resources.stop.check(Error::interrupted_reading)?;
            if last.as_ref().is_none_or(|last| last < key) {
                scan.seek(key);
            }
            while let Some((found, _)) = scan.item()
                && to.is_none_or(|to| found < to)
                && !picked.insert(fingerprint(found))?
            {
                scan.next();
            }
            match scan.item() {
                Some((found, _)) if to.is_some_and(|to| found >= to) => break,
                Some((found, value)) => {
                    self.add(found, value);
                    last = Some(found.to_vec());
                }
                None => match scan.status() {
                    Ok(()) => break,
                    Err(error) => {
                        job.problems.add_unreadable(job.family, key, error.to_string());
                        self.totals.unreadable += 1;
                        last = None;
                    }
                },
            }
        }
        self.check_batch();
        Ok(())
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        let RecordBatch { bytes, records } = &mut self.batch;
        let start = bytes.len();
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        records.push((start, key.len(), bytes.len()));
        if records.len() >= BATCH || bytes.len() >= BATCH_BYTES {
            self.check_batch();
        }
    }

    /// Hashes the batch and compares it with the source's entries.
    fn check_batch(&mut self) {
        let job = self.job;
        let RecordBatch { mut bytes, mut records } = std::mem::take(&mut self.batch);
        let mut claims: Vec<Claim<'_>> = Vec::with_capacity(records.len());
        let mut keys: Vec<&[u8]> = Vec::with_capacity(records.len());
        let mut payload = 0;
        for &(start, key_len, end) in &records {
            let Some(record) = bytes.get(start..end) else { continue };
            let Some((key, value)) = record.split_at_checked(key_len) else { continue };
            payload += value.len() as u64;
            let digest = ContentDigest::of_section(record, key_len);
            self.totals.content.add(digest);
            match job.keys.claim(key, value) {
                Ok(claim) => {
                    claims.push(claim);
                    keys.push(key);
                }
                Err(reason) => job.problems.add_key(ProblemKind::Key, job.family, key, || reason),
            }
            if let Some(entries) = &mut self.entries {
                compare(entries, job, &mut self.totals, key, digest.value());
            }
        }
        each_failure(&mut self.checker, &claims, |index, failure| {
            let (Some(claim), Some(key)) = (claims.get(index), keys.get(index)) else { return };
            let kind = match failure.kind {
                FailureKind::UnknownFunction => ProblemKind::Function,
                FailureKind::DigestLength { .. } => ProblemKind::Key,
                FailureKind::Mismatch { .. } => ProblemKind::Hash,
            };
            if !job.keys.matches_another_function(claim) {
                job.problems.add_key(kind, job.family, key, || problem_of(key, claim, failure).to_string());
            }
        });
        self.totals.payload += payload;
        job.progress.add(payload, records.len() as u64);
        records.clear();
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        self.batch = RecordBatch { bytes, records };
    }
}

fn compare(entries: &mut SourceEntries, job: &VerifyJob<'_>, totals: &mut Totals, key: &[u8], hash: u128) {
    entries.skip_before(Some(key), |known| job.add_missing(known));
    let add = |kind, message: &str| job.problems.add_key(kind, job.family, key, || message.to_owned());
    match entries.take(key) {
        Some(known) if known == hash => totals.same += 1,
        Some(_) => add(ProblemKind::Differs, "the source has a different block under this key"),
        None => {
            totals.extra += 1;
            if !job.options.allow_extra {
                add(ProblemKind::Extra, "the source does not have this block");
            }
        }
    }
}

/// Returns a scan at the first readable record after the damage that follows `last`: by doubling steps, then by halving the last
/// step. `None` if nothing up to `end` can be read. A scan that found damage is unreliable, so each attempt is a new one.
fn step_over<'r>(job: &VerifyJob<'r>, family: &str, last: &[u8], to: Option<&[u8]>) -> Result<Option<Scan<'r>>> {
    let largest = || job.files_of(family).iter().map(|file| file.largest.clone()).max();
    let end = to.map(<[u8]>::to_vec).or_else(largest).unwrap_or_default();
    let Some(window) = Window::between(last, &end) else { return Ok(None) };
    let scan_from = |number: u64| -> Result<Option<Scan<'r>>> {
        let scan = job.reader.scan(family, Some(&window.key(number)), to)?;
        Ok((scan.item().is_some() || scan.status().is_ok()).then_some(scan))
    };
    let (mut bad, mut step) = (window.low, 1u64);
    let (mut good, mut found) = loop {
        let next = bad.saturating_add(step).min(window.high);
        if let Some(scan) = scan_from(next)? {
            break (next, scan);
        }
        if next == window.high {
            return Ok(None);
        }
        (bad, step) = (next, step.saturating_mul(2));
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        match scan_from(middle)? {
            Some(scan) => (good, found) = (middle, scan),
            None => bad = middle,
        }
    }
    Ok(Some(found))
}

/// Reads all records of all column families, and the blocks of the files that no scan reads. `own` takes each of `ranges`, those of
/// the family of the blocks; families not in `known` are only read.
pub(super) fn read_all(
    job: &VerifyJob<'_>,
    ranges: &[KeyRange],
    known: &[&str],
    total: u64,
    own: impl Fn(&mut ScanWorker<'_>, usize, &KeyRange) -> Result<()> + Sync,
) -> Result<Totals> {
    let others = job.reader.families.iter().map(String::as_str).filter(|family| !known.contains(family));
    let others = others.flat_map(|family| job.ranges_of(family).into_iter().map(move |range| (family, range)));
    let others: Vec<_> = others.collect();
    job.progress.begin(Phase::Verify, Some(total));
    for_each(job, 1 + ranges.len() + others.len(), |worker, item| {
        let Some(item) = item.checked_sub(1) else { return job.check_tables() };
        match (ranges.get(item), others.get(item.saturating_sub(ranges.len()))) {
            (Some(range), _) => own(worker, item, range),
            (None, Some((family, range))) => worker.scan_range(family, range, None),
            (None, None) => Ok(()),
        }
    })
}

pub(super) fn for_each(
    job: &VerifyJob<'_>,
    items: usize,
    work: impl Fn(&mut ScanWorker<'_>, usize) -> Result<()> + Sync,
) -> Result<Totals> {
    let workers = parallel::for_each(job.threads(ScanMemory::default())?, items, || ScanWorker::new(job), work)?;
    let mut totals = Totals::default();
    workers.iter().for_each(|worker| totals.merge(&worker.totals));
    Ok(totals)
}
