//! Verifies a range of records: reads, hashes in batches, compares, and skips what cannot be read.

use super::against::{SourceEntries, record_hash};
use super::job::VerifyJob;
use super::problems::Collector;
use crate::error::{Error, Result};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::hash::{BATCH, Checker, Claim, FailureKind, problem_of};
use crate::parallel;
use crate::report::ProblemKind;
use crate::rocks::Scan;
use crate::rocks::key_ranges::{KeyRange, Window};

/// Bytes of records per batch: fits a second-level cache.
const BATCH_BYTES: usize = 1 << 20;

/// Memory of a batch that is reused, in bytes.
const KEPT_BYTES: usize = 8 << 20;

/// Result of one thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub records: u64,
    pub payload: u64,
    pub digest: ContentDigest,
    /// Distinct blocks of the source.
    pub distinct: u64,
    /// Content digest of those blocks.
    pub source: ContentDigest,
    pub same: u64,
    pub extra: u64,
    pub unreadable: u64,
    /// Records that are known not to be the import's.
    pub since: Content,
}

impl Totals {
    pub fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.payload += other.payload;
        self.digest.merge(other.digest);
        self.distinct += other.distinct;
        self.source.merge(other.source);
        self.same += other.same;
        self.extra += other.extra;
        self.unreadable += other.unreadable;
        self.since.merge(other.since);
    }
}

/// A thread's share of the work.
pub(super) struct ScanWorker<'a> {
    job: &'a VerifyJob<'a>,
    checker: Checker,
    batch: Batch,
    last: Vec<u8>,
    entries: Option<SourceEntries>,
    pub totals: Totals,
}

/// Concatenated records, key and value side by side.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Start, length of the key, end.
    records: Vec<(usize, usize, usize)>,
}

impl Batch {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.records.push((start, key.len(), self.bytes.len()));
    }

    fn is_full(&self) -> bool {
        self.records.len() >= BATCH || self.bytes.len() >= BATCH_BYTES
    }

    fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

impl<'a> ScanWorker<'a> {
    pub fn new(job: &'a VerifyJob<'a>) -> Self {
        Self {
            job,
            checker: Checker::new(),
            batch: Batch::default(),
            last: Vec::new(),
            entries: None,
            totals: Totals::default(),
        }
    }

    /// Reads all blocks of a range and, of the family that holds the blocks, checks all records.
    pub fn go_through(&mut self, family: &str, range: &KeyRange, entries: Option<SourceEntries>) -> Result<()> {
        let records = family == self.job.family;
        self.start(entries);
        self.last = range.from.clone().unwrap_or_default();
        let mut scan = self.job.reader.scan(family, range.from.as_deref(), range.to.as_deref())?;
        loop {
            while let Some((key, value)) = scan.item() {
                if records {
                    self.batch.push(key, value);
                } else {
                    self.last.clear();
                    self.last.extend_from_slice(key);
                }
                if self.batch.is_full() {
                    self.check_batch();
                }
                if self.job.options.resources.stop.is_cancelled() {
                    return Err(Error::interrupted_reading());
                }
                scan.next();
            }
            self.check_batch();
            let Err(error) = scan.status() else { break };
            self.job.problems.add_unreadable(family, &self.last, error.to_string());
            let Some(readable) = step_over(self.job, family, &self.last, range.to.as_deref())? else {
                self.pass_unreadable(None);
                break;
            };
            scan = readable;
            self.pass_unreadable(scan.item().map(|(key, _)| key));
        }
        self.finish_entries();
        Ok(())
    }

    /// Checks the first record at or after each of `keys`, which ascend.
    pub fn pick(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        let job = self.job;
        let mut scan = job.reader.pick(job.family)?;
        for key in keys {
            if job.options.resources.stop.is_cancelled() {
                return Err(Error::interrupted_reading());
            }
            scan.seek(key);
            match scan.item() {
                Some((key, value)) => self.batch.push(key, value),
                None => {
                    if let Err(error) = scan.status() {
                        job.problems.add_unreadable(job.family, key, error.to_string());
                    }
                }
            }
            if self.batch.is_full() {
                self.check_batch();
            }
        }
        self.check_batch();
        Ok(())
    }

    /// Hashes the batch and compares it with the source's entries.
    fn check_batch(&mut self) {
        let Some(&(start, key_len, _)) = self.batch.records.last() else { return };
        let batch = std::mem::take(&mut self.batch);
        self.last.clear();
        self.last.extend_from_slice(batch.bytes.get(start..start + key_len).unwrap_or_default());
        let job = self.job;
        let mut claims: Vec<Claim<'_>> = Vec::with_capacity(batch.records.len());
        let mut keys: Vec<&[u8]> = Vec::with_capacity(batch.records.len());
        let mut payload = 0;
        for &(start, key_len, end) in &batch.records {
            let Some(record) = batch.bytes.get(start..end) else { continue };
            let Some((key, value)) = record.split_at_checked(key_len) else { continue };
            payload += value.len() as u64;
            self.totals.digest.add_section(record, key_len);
            match job.keys.claim(key, value) {
                Ok(claim) => {
                    claims.push(claim);
                    keys.push(key);
                }
                Err(reason) => job.problems.add_key(ProblemKind::Key, job.family, key, || reason),
            }
            if let Some(entries) = &mut self.entries {
                compare(entries, job, &mut self.totals, key, record_hash(record, key_len));
            }
        }
        check_claims(&mut self.checker, job, &claims, &keys);
        self.totals.records += batch.records.len() as u64;
        self.totals.payload += payload;
        job.progress.add(payload, batch.records.len() as u64);
        self.batch = batch;
        self.batch.clear();
    }

    fn start(&mut self, entries: Option<SourceEntries>) {
        if let Some(entries) = &entries {
            self.totals.distinct += entries.len() as u64;
            self.totals.source.merge(entries.digest);
            for key in &entries.conflicts {
                let message = || "the source has two different blocks under this key".to_owned();
                self.job.problems.add_key(ProblemKind::Differs, self.job.family, key, message);
            }
        }
        self.entries = entries;
    }

    /// Counts the source's entries before `next` (the next readable record or the end of the range): they cannot be compared.
    fn pass_unreadable(&mut self, next: Option<&[u8]>) {
        let Some(entries) = &mut self.entries else { return };
        while let Some((key, _)) = entries.peek() {
            if next.is_some_and(|next| key >= next) {
                break;
            }
            self.totals.unreadable += 1;
            entries.next();
        }
    }

    /// Reports the remaining entries of the source as missing.
    fn finish_entries(&mut self) {
        let Some(mut entries) = self.entries.take() else { return };
        while let Some((key, _)) = entries.peek() {
            missing(self.job.problems, self.job.family, key);
            entries.next();
        }
    }
}

fn compare(entries: &mut SourceEntries, job: &VerifyJob<'_>, totals: &mut Totals, key: &[u8], hash: u128) {
    while let Some((known, known_hash)) = entries.peek() {
        match known.cmp(key) {
            std::cmp::Ordering::Less => missing(job.problems, job.family, known),
            std::cmp::Ordering::Equal => {
                if known_hash == hash {
                    totals.same += 1;
                } else {
                    let message = || "the source has another block under this key".to_owned();
                    job.problems.add_key(ProblemKind::Differs, job.family, key, message);
                }
                entries.next();
                return;
            }
            std::cmp::Ordering::Greater => break,
        }
        entries.next();
    }
    totals.extra += 1;
    if !job.options.allow_extra {
        job.problems.add_key(ProblemKind::Extra, job.family, key, || "the source does not have this block".to_owned());
    }
}

fn missing(problems: &Collector<'_>, family: &str, key: &[u8]) {
    let message = || "the source has this block, the database does not".to_owned();
    problems.add_key(ProblemKind::Missing, family, key, message);
}

/// Checks all claims and reports every failed one.
fn check_claims(checker: &mut Checker, job: &VerifyJob<'_>, claims: &[Claim<'_>], keys: &[&[u8]]) {
    let (mut claims, mut keys) = (claims, keys);
    while let Err(failure) = checker.check(claims) {
        let (Some(claim), Some(key)) = (claims.get(failure.index), keys.get(failure.index)) else { return };
        let kind = match failure.kind {
            FailureKind::UnknownFunction => ProblemKind::Function,
            FailureKind::DigestLength { .. } => ProblemKind::Key,
            FailureKind::Mismatch { .. } => ProblemKind::Hash,
        };
        if !job.keys.holds_otherwise(claim) {
            job.problems.add_key(kind, job.family, key, || problem_of(key, claim, &failure).to_string());
        }
        claims = claims.get(failure.index + 1..).unwrap_or_default();
        keys = keys.get(failure.index + 1..).unwrap_or_default();
    }
}

/// Returns a scan at the first readable record after the damage that follows `last`: by doubling steps, then by halving the last
/// step. `None` if nothing up to `end` can be read.
///
/// Each attempt is a new scan, because a scan that found damage may give different results.
fn step_over<'r>(job: &VerifyJob<'r>, family: &str, last: &[u8], to: Option<&[u8]>) -> Result<Option<Scan<'r>>> {
    let end = to.map(<[u8]>::to_vec).or_else(|| job.largest_key(family)).unwrap_or_default();
    let Some(window) = Window::between(last, &end) else { return Ok(None) };
    let lands = |number: u64| -> Result<Option<Scan<'r>>> {
        let scan = job.reader.scan(family, Some(&window.key(number)), to)?;
        Ok((scan.item().is_some() || scan.status().is_ok()).then_some(scan))
    };
    let (mut bad, mut step) = (window.low, 1u64);
    let (mut good, mut found) = loop {
        let next = bad.saturating_add(step).min(window.high);
        if let Some(scan) = lands(next)? {
            break (next, scan);
        }
        if next == window.high {
            return Ok(None);
        }
        (bad, step) = (next, step.saturating_mul(2));
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        match lands(middle)? {
            Some(scan) => (good, found) = (middle, scan),
            None => bad = middle,
        }
    }
    Ok(Some(found))
}

/// Distributes `items` among the threads and adds up their results.
pub(super) fn for_each(
    job: &VerifyJob<'_>,
    items: usize,
    work: impl Fn(&mut ScanWorker<'_>, usize) -> Result<()> + Sync,
) -> Result<Totals> {
    let workers = parallel::for_each(job.options.resources.thread_count(), items, || ScanWorker::new(job), work)?;
    Ok(workers.iter().fold(Totals::default(), |mut totals, worker| {
        totals.merge(&worker.totals);
        totals
    }))
}
