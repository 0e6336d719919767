//! Reading a log: every thread takes the next range, or the next batch of a pipe, checks its blocks and builds their SST
//! files.
//!
//! The first fault in the order of the log is the one that is told, however the threads were scheduled: ranges are given
//! out in order, and those before a fault are finished.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::super::job::Job;
use super::super::journal::{Entry, Tally};
use super::super::publish::sync_dir;
use super::super::{interrupted, lock, points};
use super::families::{BLOCK_IDS, Families};
use super::input::check_bounds;
use super::output::{Output, RangeDone};
use super::transactions::{Finder, Found, Transactions};
use crate::chain::{Header, Id};
use crate::error::{Error, Result};
use crate::progress::Phase;
use crate::report::BlockRef;
use crate::rocks::SstOptions;
use crate::source::block_log::{
    Batch, Forward, Log, LogBody, LogFiles, LogProblem, Packing, Range, RangeReader, Unpacker, begins_later,
};
use crate::verify::{Chain, Checked, Expectations, KEY};

/// Bytes of an id's number in `block_ids`.
const NUMBER: usize = 4;

/// The longest record of `block_ids`.
const ID_RECORD: usize = 32 + NUMBER;

/// Bytes of a log that are read at once.
const WINDOW: usize = 1 << 20;

/// Blocks of a pipe between two looks at what others do.
const STEP: usize = 1024;

/// What the threads share.
pub(super) struct Reading<'a> {
    job: &'a Job<'a>,
    input: &'a Log,
    blocks_sst: SstOptions,
    ids_sst: Option<SstOptions>,
    pub transactions: Option<Transactions<'a>>,
    expectations: Expectations,
    numbers: AtomicU32,
    range_bytes: u64,
    /// The range of the first fault so far.
    failed_at: AtomicUsize,
    failed: Mutex<Option<(usize, Error)>>,
    done: Mutex<Vec<RangeDone>>,
    /// What a pipe brings again of the ranges of an earlier run, by their first block.
    again: Mutex<BTreeMap<u32, Tally>>,
}

/// A block log that has been read and built.
#[derive(Debug, Default)]
pub(super) struct LogDone {
    /// In the order of the chain.
    pub ranges: Vec<RangeDone>,
    pub transactions: super::output::FamilyDone,
    pub consumed: u64,
}

/// A range in the making.
struct Making<'a> {
    chain: Chain<'a>,
    out: Output<'a>,
    ids: Output<'a>,
    finder: Option<Finder<'a>>,
    first: Option<Header>,
    last: Option<Header>,
    payload: u64,
}

impl<'a> Reading<'a> {
    pub fn new(job: &'a Job<'a>, families: &Families, input: &'a Log) -> Result<Self> {
        let taken = job.before.files.iter().filter_map(|file| file.name.strip_suffix(".sst")?.parse::<u32>().ok());
        let first = taken.max().map_or(0, |last| last + 1);
        Ok(Self {
            job,
            input,
            blocks_sst: SstOptions::new(&job.loading, &job.target.sst)?,
            ids_sst: families.sst(job, BLOCK_IDS)?,
            transactions: Transactions::new(job, families, input)?,
            expectations: Expectations {
                links: job.options.verify,
                checkpoints: job.options.log.checkpoints.iter().copied().collect(),
            },
            numbers: AtomicU32::new(first),
            range_bytes: job.plan.log.as_ref().map_or(u64::MAX, |log| log.range_bytes),
            failed_at: AtomicUsize::new(usize::MAX),
            failed: Mutex::default(),
            done: Mutex::default(),
            again: Mutex::default(),
        })
    }

    /// Reads and builds everything that an earlier run has not built.
    pub fn run(self) -> Result<LogDone> {
        let (job, input) = (self.job, self.input);
        *lock(&self.done) = job.before.ranges.clone();
        let mut consumed = input.size.unwrap_or_default();
        match &input.body {
            LogBody::Files(files) => self.read_files(files)?,
            LogBody::Stream(forward) => {
                self.read_stream(forward)?;
                consumed = lock(forward).consumed();
            }
        }
        if job.options.stop.asked() {
            return Err(interrupted());
        }
        let mut ranges = std::mem::take(&mut *lock(&self.done));
        ranges.sort_by_key(|range| range.first.number);
        self.check_joins(&ranges)?;
        let last = ranges.last().map(|range| range.last.clone());
        if let (Some((expected, id)), Some(last)) = (job.options.log.expect_head, last) {
            let found = last.id.parse().unwrap_or(id);
            if last.number != expected {
                let problem = LogProblem::Head { expected, found: last.number, id: found };
                return Err(Error::bad_input(&job.options.source, None, problem));
            }
            if found != id {
                let problem = LogProblem::Checkpoint { number: expected, expected: id, found };
                return Err(Error::bad_input(&job.options.source, None, problem));
            }
        }
        points::reach("ranges");
        let transactions = match &self.transactions {
            Some(transactions) => {
                job.progress.begin(Phase::Build, Some(transactions.bytes()));
                transactions.build(&self.numbers)?
            }
            None => Default::default(),
        };
        Ok(LogDone { ranges, transactions, consumed })
    }

    fn read_files(&self, files: &LogFiles) -> Result<()> {
        let job = self.job;
        let Some((first, last)) = files.ends() else { return Ok(()) };
        check_bounds(self.name(), job.options, first.number, Some(last.number), self.input.may_begin_later())?;
        let done: Vec<Range> = job.before.ranges.iter().map(RangeDone::range).collect();
        let mut ranges = files.ranges(self.range_bytes, &done, &self.input.dictionaries)?;
        let (from, to) = self.bounds();
        ranges.retain(|range| range.last >= from && range.first <= to);
        let total: u64 = ranges.iter().chain(&done).map(|range| range.end - range.start).sum();
        job.progress.begin(Phase::Read, Some(total));
        job.progress
            .expect_blocks(ranges.iter().chain(&done).map(|range| u64::from(range.last - range.first) + 1).sum());
        for (range, counted) in done.iter().zip(&job.before.ranges) {
            job.progress.take_up(range.end - range.start, counted.blocks.tally.records);
        }
        let next = AtomicUsize::new(0);
        self.on_all_threads(|batch| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(range) = ranges.get(index) else { return };
                if self.must_stop(index) {
                    return;
                }
                if let Err(error) = self.build_range(files, range, index, batch) {
                    self.fail(index, error);
                }
            }
        })
    }

    fn read_stream(&self, forward: &Mutex<Forward>) -> Result<()> {
        self.job.progress.begin(Phase::Read, self.input.size);
        let sequence = AtomicUsize::new(0);
        self.on_all_threads(|batch| {
            loop {
                let taken = {
                    let mut forward = lock(forward);
                    let index = sequence.load(Ordering::Relaxed);
                    if self.must_stop(index) {
                        return;
                    }
                    sequence.store(index + 1, Ordering::Relaxed);
                    let taken = self.next_batch(&mut forward, batch);
                    self.job.progress.reach(forward.consumed());
                    taken.map_err(|error| (index, error)).map(|taken| taken.map(|first| (index, first)))
                };
                match taken {
                    Ok(None) => return,
                    Ok(Some((index, first))) => {
                        if let Err(error) = self.build_batch(batch, first, index) {
                            self.fail(index, error);
                        }
                    }
                    Err((index, error)) => self.fail(index, error),
                }
            }
        })?;
        let forward = lock(forward);
        if let (Some(first), Some(last)) = (forward.first, forward.last())
            && !self.job.options.stop.asked()
        {
            self.input_bounds(first, Some(last), &forward)?;
        }
        let again = lock(&self.again);
        let is_same =
            |range: &RangeDone| again.get(&range.first.number).is_some_and(|tally| *tally == range.blocks.tally);
        if !self.job.options.stop.asked() && !self.job.before.ranges.iter().all(is_same) {
            return Err(super::super::read::another_source(self.job.options));
        }
        Ok(())
    }

    /// The bounds of a pipe, whose lock the caller holds.
    fn input_bounds(&self, first: u32, last: Option<u32>, forward: &Forward) -> Result<()> {
        check_bounds(self.name(), self.job.options, first, last, begins_later(forward.preamble.as_ref()))
    }

    /// The file, or the source where that is several or a pipe.
    fn name(&self) -> &std::path::Path {
        match &self.input.body {
            LogBody::Files(LogFiles { parts, .. }) if parts.len() == 1 => {
                parts.first().map_or(&self.job.options.source, |part| &part.path)
            }
            _ => &self.job.options.source,
        }
    }

    /// Takes the next batch of a pipe; the number of its first block.
    fn next_batch(&self, forward: &mut Forward, batch: &mut Batch) -> Result<Option<u32>> {
        let (_, to) = self.bounds();
        let next = forward.last().map_or_else(|| self.bounds().0.max(1), |last| last.saturating_add(1));
        if forward.last().is_some_and(|last| last >= to) {
            return Ok(None);
        }
        // A batch lies inside a range that is done, or outside of all of them.
        let edges = self
            .job
            .before
            .ranges
            .iter()
            .map(|range| if range.first.number > next { range.first.number - 1 } else { range.last.number });
        let until = edges.filter(|&edge| edge >= next).chain([to]).min();
        let is_first = forward.first.is_none();
        let target = if is_first { WINDOW } else { usize::try_from(self.range_bytes).unwrap_or(usize::MAX) };
        let taken = forward.next(batch, target, until)?;
        if is_first && let Some(first) = forward.first {
            self.input_bounds(first, None, forward)?;
        }
        if !taken {
            return Ok(None);
        }
        let last = forward.last().unwrap_or_default();
        Ok(Some(last.wrapping_sub(batch.spans.len() as u32).wrapping_add(1)))
    }

    /// The blocks that are wanted.
    fn bounds(&self) -> (u32, u32) {
        let log = &self.job.options.log;
        (log.from.unwrap_or(0), log.to.unwrap_or(u32::MAX))
    }

    fn on_all_threads(&self, work: impl Fn(&mut Batch) + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            for _ in 0..self.job.plan.threads {
                scope.spawn(|| work(&mut Batch::default()));
            }
        });
        match lock(&self.failed).take() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether the work on a range is of no use any more.
    fn must_stop(&self, index: usize) -> bool {
        self.job.options.stop.asked() || self.failed_at.load(Ordering::Relaxed) < index
    }

    fn fail(&self, index: usize, error: Error) {
        if matches!(error, Error::Interrupted { .. }) {
            return;
        }
        let mut failed = lock(&self.failed);
        if failed.as_ref().is_none_or(|(known, _)| index < *known) {
            self.failed_at.store(index, Ordering::Relaxed);
            *failed = Some((index, error));
        }
    }

    fn making(&self, next: u32, before: Option<Id>) -> Making<'_> {
        let plan = self.job.plan;
        let unpacker = Unpacker::new(&self.input.dictionaries);
        let output = |sst| Output::new(sst, &self.job.target.sst, &self.numbers, plan.sst_bytes);
        Making {
            chain: Chain::new(self.input.framing(), &self.expectations, unpacker, next, before),
            out: output(Some(&self.blocks_sst)),
            ids: output(self.ids_sst.as_ref()),
            finder: self.transactions.as_ref().map(Transactions::finder),
            first: None,
            last: None,
            payload: 0,
        }
    }

    fn build_range(&self, files: &LogFiles, range: &Range, index: usize, batch: &mut Batch) -> Result<()> {
        let Some(mut reader) = RangeReader::new(files, range, WINDOW) else { return Ok(()) };
        let part = reader.part();
        let mut making = self.making(range.first, range.before);
        let (mut start, mut end) = (range.start, range.start);
        let (from, to) = self.bounds();
        while making.chain.next <= range.last.min(to) {
            if self.must_stop(index) {
                return Err(interrupted());
            }
            let Chain { next, before, unpacker, .. } = &mut making.chain;
            if !reader.next(batch, *next, before.as_ref(), unpacker)? {
                break;
            }
            let indexed = reader.indexed(making.chain.next, batch.spans.len());
            for at in 0..batch.spans.len() {
                let Some(&span) = batch.spans.get(at) else { break };
                let (offset, word) = (batch.offset(span), batch.word(span));
                let number = making.chain.next;
                let header = making.take(batch, at, from).map_err(|error| error.at(part, offset))?;
                part.check_index(indexed.get(at), word, &header);
                end = offset + (span.end + 8 - span.start) as u64;
                if number < from {
                    start = end;
                }
                if number >= to {
                    break;
                }
            }
            self.job.progress.advance(batch.len(), batch.spans.len() as u64);
        }
        // What was cut apart when the import began must still be there.
        let last = making.last.map(|header| header.number);
        if to >= range.last && last.is_some_and(|last| last != range.last) {
            let problem = LogProblem::Number { expected: range.last, found: last.unwrap_or_default() };
            return Err(part.bad(end, problem));
        }
        self.finish(making, range.part, start, end)
    }

    fn build_batch(&self, batch: &mut Batch, first: u32, index: usize) -> Result<()> {
        let (from, _) = self.bounds();
        let last = first + (batch.spans.len() as u32).saturating_sub(1);
        if last < from {
            return Ok(());
        }
        let known = self
            .job
            .before
            .ranges
            .iter()
            .find(|range| (range.first.number..=range.last.number).contains(&first.max(from)));
        let mut making = self.making(first, None);
        if known.is_some() {
            making.only_count();
        }
        let (start, mut end) = (batch.at, batch.at);
        for at in 0..batch.spans.len() {
            if at > 0 && at % STEP == 0 {
                self.job.progress.advance(0, STEP as u64);
            }
            if at % STEP == 0 && self.must_stop(index) {
                return Err(interrupted());
            }
            let Some(&span) = batch.spans.get(at) else { break };
            let offset = batch.offset(span);
            making.take(batch, at, from).map_err(|error| error.of(&self.job.options.source, offset))?;
            end = offset + (span.end + 8 - span.start) as u64;
        }
        let counted = batch.spans.len().saturating_sub(1) / STEP * STEP;
        self.job.progress.advance(0, (batch.spans.len() - counted) as u64);
        match known {
            Some(known) => {
                let tally = making.out.finish()?.tally;
                lock(&self.again).entry(known.first.number).or_default().add(tally);
                Ok(())
            }
            None => self.finish(making, 0, start, end),
        }
    }

    /// Completes the files of a range and notes that it is done.
    fn finish(&self, making: Making<'_>, part: usize, start: u64, end: u64) -> Result<()> {
        let Making { chain, out, ids, finder, first, last, payload, .. } = making;
        let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
        let Found { transactions, unknown_operations, extents } = match finder {
            Some(finder) => finder.finish()?,
            None => Found::default(),
        };
        let done = RangeDone {
            part,
            start,
            end,
            before: first.previous.to_string(),
            first: BlockRef::of(&first),
            last: BlockRef::of(&last),
            blocks: out.finish()?,
            ids: ids.finish()?,
            payload,
            packings: chain.packings,
            checkpoints: chain.checkpoints,
            transactions,
            unknown_operations,
            extents,
        };
        points::reach("range-synced");
        sync_dir(&self.job.target.sst)?;
        self.job.journal.append(&Entry::Range(Box::new(done.clone())))?;
        points::reach("range");
        lock(&self.done).push(done);
        Ok(())
    }

    /// Whether each range follows the one before it.
    fn check_joins(&self, ranges: &[RangeDone]) -> Result<()> {
        for pair in ranges.windows(2) {
            let [one, next] = pair else { continue };
            let bad = |problem: LogProblem| {
                let path = match &self.input.body {
                    LogBody::Files(files) => files.parts.get(next.part).map(|part| part.path.clone()),
                    LogBody::Stream(_) => None,
                };
                let path = path.unwrap_or_else(|| self.job.options.source.clone());
                Err(Error::bad_input(&path, next.start, problem))
            };
            let number = next.first.number;
            if one.last.number.checked_add(1) != Some(number) {
                let expected = one.last.number.saturating_add(1);
                return bad(LogProblem::Number { expected, found: number });
            }
            if next.before != one.last.id
                && self.job.options.verify
                && let (Ok(previous), Ok(before)) = (next.before.parse(), one.last.id.parse())
            {
                return bad(LogProblem::Link { number, previous, before });
            }
        }
        Ok(())
    }
}

/// What went wrong with a block.
pub(super) enum BlockError {
    Problem(LogProblem),
    Other(Error),
}

impl BlockError {
    fn at(self, part: &crate::source::block_log::Part, offset: u64) -> Error {
        match self {
            Self::Problem(problem) => part.bad(offset, problem),
            Self::Other(error) => error,
        }
    }

    fn of(self, path: &std::path::Path, offset: u64) -> Error {
        match self {
            Self::Problem(problem) => Error::bad_input(path, offset, problem),
            Self::Other(error) => error,
        }
    }
}

impl Making<'_> {
    /// Builds nothing: what comes is there already.
    fn only_count(&mut self) {
        self.out.only_count();
        self.ids.only_count();
        self.finder = None;
    }

    /// Checks one block, and builds it if it is not before `from`.
    fn take(&mut self, batch: &mut Batch, index: usize, from: u32) -> Result<Header, BlockError> {
        let packed = batch.spans.get(index).is_some_and(|span| span.packing != Packing::Raw);
        let Checked { record, header } = self.chain.take(batch, index).map_err(BlockError::Problem)?;
        if header.number < from {
            return Ok(header);
        }
        let block = record.get(KEY..).unwrap_or_default();
        if let Some(finder) = &mut self.finder {
            finder.take(block, &header, packed)?;
        }
        self.payload += block.len() as u64;
        self.out.put(record, KEY).map_err(BlockError::Other)?;
        let mut id_record = [0; ID_RECORD];
        let id = header.id.as_bytes();
        let len = id.len() + NUMBER;
        if let Some((to, number)) = id_record.get_mut(..len).and_then(|record| record.split_at_mut_checked(id.len())) {
            to.copy_from_slice(id);
            number.copy_from_slice(&header.number.to_be_bytes());
        }
        self.ids.put(id_record.get(..len).unwrap_or_default(), id.len()).map_err(BlockError::Other)?;
        self.first.get_or_insert(header);
        self.last = Some(header);
        Ok(header)
    }
}

impl From<LogProblem> for BlockError {
    fn from(problem: LogProblem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Error> for BlockError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
