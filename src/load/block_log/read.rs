//! Reading a log: each thread takes the next range, or the next batch of a pipe, checks its blocks and passes their records to
//! the sinks.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::blocks::chain::Id;
use crate::error::{Error, InputKind, Result};
use crate::failpoint;
use crate::hash::Content;
use crate::load::block_log::build::RangeBuilder;
use crate::load::block_log::transactions::{TransactionLoader, checks_roots};
use crate::load::built::{FamilyDone, RangeDone, Tally};
use crate::load::column_families::ColumnFamilies;
use crate::load::context::Job;
use crate::load::identity::another_source;
use crate::load::journal::Entry;
use crate::load::sink::Sinks;
use crate::load::sink::batches::SharedBatch;
use crate::os::files::sync_dir;
use crate::parallel::ItemOrder;
use crate::progress::Phase;
use crate::schema::{BLOCK_IDS, DEFAULT, TRANSACTIONS};
use crate::sort::Borders;
use crate::source::StatedProblem;
use crate::source::block_log::{Chain, Expectations};
use crate::source::block_log::{EntryBatch, Forward, Log, LogBody, LogFiles, LogProblem, Range, RangeReader, Unpacker};

/// Bytes of a log that are read at once.
pub(super) const WINDOW: usize = 1 << 20;

/// Blocks of a pipe between two checks for a cancellation or a fault.
const STEP: usize = 1024;

pub(super) struct LogReader<'a> {
    job: &'a Job<'a>,
    input: &'a Log,
    sinks: &'a Sinks<'a>,
    transactions: Option<TransactionLoader<'a>>,
    expectations: Expectations,
    range_bytes: u64,
    done: Mutex<Vec<RangeDone>>,
    /// Tallies of the blocks that a pipe repeats of the ranges of an earlier run, by the first block of the range.
    repeated: Mutex<BTreeMap<u32, Tally>>,
}

/// A block log that has been read and built.
#[derive(Debug, Default)]
pub(super) struct LogDone {
    /// In the order of the chain.
    pub ranges: Vec<RangeDone>,
    pub transactions: FamilyDone,
    pub consumed: u64,
}

impl LogDone {
    pub fn families<'a>(&self, families: &ColumnFamilies<'a>) -> Vec<(&'a str, FamilyDone)> {
        let of = |name: &'a str| {
            let mut all = FamilyDone::default();
            match name {
                TRANSACTIONS => all.add(&self.transactions),
                BLOCK_IDS => self.ranges.iter().for_each(|range| all.add(&range.ids)),
                _ => self.ranges.iter().for_each(|range| all.add(&range.blocks)),
            }
            (name, all)
        };
        families.names().map(of).collect()
    }
}

struct WorkerState {
    batch: EntryBatch,
    /// The batch that gathers its records, if they go through memtables.
    gathered: Option<SharedBatch>,
}

impl<'a> LogReader<'a> {
    pub fn new(job: &'a Job<'a>, input: &'a Log, sinks: &'a Sinks<'a>) -> Self {
        Self {
            job,
            input,
            sinks,
            transactions: None,
            expectations: Expectations {
                links: job.options.verify,
                chain_id: checks_roots(job.options).then(|| input.chain_id()?.parse().ok()).flatten(),
                checkpoints: job.options.log.checkpoints.iter().copied().collect(),
            },
            range_bytes: job.plan.log().map_or(u64::MAX, |log| log.range_bytes),
            done: Mutex::default(),
            repeated: Mutex::default(),
        }
    }

    /// Reads everything that an earlier run has not made durable. If that was all, the source must have no more blocks. Returns
    /// the bytes of the source that were consumed.
    pub fn read(&self) -> Result<u64> {
        let (job, input) = (self.job, self.input);
        *self.done.lock() = job.resumed.ranges.clone();
        let mut consumed = input.size.unwrap_or_default();
        match &input.body {
            LogBody::Files(files) => self.read_files(files)?,
            LogBody::Stream(forward) => {
                self.read_stream(forward)?;
                consumed = forward.lock().consumed();
            }
        }
        job.options.check_cancelled()?;
        Ok(consumed)
    }

    /// Reads the log, and builds the ranges that are not built.
    pub fn run(mut self) -> Result<LogDone> {
        let (job, input) = (self.job, self.input);
        self.transactions = TransactionLoader::new(job, input)?;
        let consumed = self.read()?;
        let mut ranges = std::mem::take(&mut *self.done.lock());
        ranges.sort_by_key(|range| range.first.number);
        if ranges.is_empty() {
            return Err(Error::bad_input(self.name(), None, LogProblem::Empty));
        }
        self.check_joins(&ranges)?;
        self.check_head(&ranges)?;
        failpoint::reach("ranges");
        let found: Content = ranges.iter().map(|range| range.transactions).sum();
        let transactions = match &self.transactions {
            Some(transactions) => {
                job.progress.begin(Phase::Build, Some(transactions.bytes()));
                // Sorting takes the memory of the memtables.
                self.sinks.flush()?;
                transactions.build(found.records, self.sinks)?
            }
            None => Default::default(),
        };
        // Each partition was compared when it was built, some by an earlier run. This compares all together.
        if transactions.tally.read() != found {
            let what = format!("holds {} of transactions, {found} were found in blocks", transactions.tally.read());
            return Err(Error::damaged_work(&job.target.partial, what));
        }
        Ok(LogDone { ranges, transactions, consumed })
    }

    fn read_files(&self, files: &LogFiles) -> Result<()> {
        let job = self.job;
        let Some((first, last)) = files.ends() else { return Ok(()) };
        self.check_bounds(first.number, Some(last.number))?;
        let done: Vec<Range> = job.resumed.ranges.iter().map(RangeDone::range).collect();
        if job.resumed.is_touched() {
            self.compare(files, &done)?;
        }
        let mut ranges = files.ranges(self.range_bytes, &done, &self.input.dictionaries)?;
        let (from, to) = self.bounds();
        ranges.retain(|range| range.last >= from && range.first <= to);
        if job.resumed.is_whole_log() && !ranges.is_empty() {
            return Err(another_source(job.options, None));
        }
        let all = || ranges.iter().chain(&done);
        job.progress.begin(Phase::Read, Some(all().map(|range| range.end - range.start).sum()));
        job.progress.expect_blocks(all().map(|range| u64::from(range.last - range.first) + 1).sum());
        for (range, counted) in done.iter().zip(&job.resumed.ranges) {
            job.progress.add_earlier(range.end - range.start, counted.blocks.tally.written.records);
        }
        self.pull(
            ranges.iter(),
            |ranges, _| Ok(ranges.next()),
            |worker, range, turn| self.build_range(files, range, turn, worker, None),
        )
    }

    /// Reads finished ranges again: their blocks must have the same tally.
    fn compare(&self, files: &LogFiles, done: &[Range]) -> Result<()> {
        let ranges = done.iter().zip(&self.job.resumed.ranges);
        self.pull(
            ranges,
            |ranges, _| Ok(ranges.next()),
            |worker, (range, known), turn| match self.build_range(files, range, turn, worker, Some(known)) {
                Err(Error::BadInput { .. }) => Err(another_source(self.job.options, None)),
                outcome => outcome,
            },
        )
    }

    fn read_stream(&self, forward: &Mutex<Forward>) -> Result<()> {
        self.job.progress.begin(Phase::Read, self.input.size);
        let next = |forward: &mut &Mutex<Forward>, worker: &mut WorkerState| {
            let mut forward = forward.lock();
            self.next_batch(&mut forward, &mut worker.batch)
        };
        self.pull(forward, next, |worker, first, turn| self.build_batch(worker, first, turn))?;
        let forward = forward.lock();
        if let (Some(first), Some(last)) = (forward.first, forward.last())
            && !self.job.options.stop.is_cancelled()
        {
            self.check_bounds(first, Some(last))?;
        }
        let repeated = self.repeated.lock();
        let is_same = |range: &RangeDone| repeated.get(&range.first.number) == Some(&range.blocks.tally);
        if !self.job.options.stop.is_cancelled() && !self.job.resumed.ranges.iter().all(is_same) {
            return Err(another_source(self.job.options, None));
        }
        Ok(())
    }

    /// Checks that the log has all requested blocks: its first block, and its last one where that is known.
    fn check_bounds(&self, first: u32, last: Option<u32>) -> Result<()> {
        let log = &self.job.options.log;
        let bad = |reason: String, hint: String| {
            Err(Error::bad_input(self.name(), None, StatedProblem::new(InputKind::Unsupported, reason, hint)))
        };
        if log.from.is_none() && first != 1 && !self.input.may_begin_later() {
            let hint = format!("`--from {first}` imports a log that begins later");
            return bad(format!("the log begins with block {first}, not with block 1"), hint);
        }
        let checkpoints = log.checkpoints.iter().map(|(number, _)| *number);
        for wanted in log.from.into_iter().chain(log.to).chain(checkpoints) {
            // Of a pipe the end is not known yet.
            if wanted < first || last.is_some_and(|last| wanted > last) {
                let (ends, hint) = match last {
                    Some(last) => (format!(" and ends with {last}"), format!("name blocks between {first} and {last}")),
                    None => (String::new(), format!("name blocks from {first} on")),
                };
                let reason = format!("block {wanted} is not in the log: it begins with {first}{ends}");
                return bad(reason, format!("{hint}, or leave the option out"));
            }
        }
        Ok(())
    }

    /// The file, or the source if that is several files or a pipe.
    fn name(&self) -> &std::path::Path {
        match &self.input.body {
            LogBody::Files(LogFiles { parts, .. }) if parts.len() == 1 => {
                parts.first().map_or(self.job.options.source(), |part| &part.path)
            }
            _ => self.job.options.source(),
        }
    }

    /// Takes the next batch of a pipe. Returns the number of its first block.
    fn next_batch(&self, forward: &mut Forward, batch: &mut EntryBatch) -> Result<Option<u32>> {
        let (_, to) = self.bounds();
        let next = forward.last().map_or_else(|| self.bounds().0.max(1), |last| last.saturating_add(1));
        if forward.last().is_some_and(|last| last >= to) {
            return Ok(None);
        }
        // A batch is inside a finished range, or outside of all of them.
        let edge = |range: &RangeDone| match range.first.number {
            first if first > next => first - 1,
            _ => range.last.number,
        };
        let until = self.job.resumed.ranges.iter().map(edge).filter(|&edge| edge >= next).chain([to]).min();
        let is_first = forward.first.is_none();
        let target = if is_first { WINDOW } else { usize::try_from(self.range_bytes).unwrap_or(usize::MAX) };
        let taken = forward.next(batch, target, until, &|consumed| self.job.progress.reach(consumed))?;
        if is_first && let Some(first) = forward.first {
            self.check_bounds(first, None)?;
        }
        if !taken {
            return Ok(None);
        }
        let last = forward.last().unwrap_or_default();
        Ok(Some(last.wrapping_sub(batch.spans.len() as u32).wrapping_add(1)))
    }

    fn bounds(&self) -> (u32, u32) {
        let log = &self.job.options.log;
        (log.from.unwrap_or(0), log.to.unwrap_or(u32::MAX))
    }

    fn pull<S: Send, T>(
        &self,
        source: S,
        next: impl Fn(&mut S, &mut WorkerState) -> Result<Option<T>> + Sync,
        work: impl Fn(&mut WorkerState, T, &ItemOrder<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let worker = |gathered| WorkerState { batch: EntryBatch::default(), gathered };
        self.sinks.pull(self.job, self.job.plan.threads, source, worker, next, work)
    }

    /// True if work on an item is useless.
    fn must_stop(&self, turn: &ItemOrder<'_>) -> bool {
        self.job.options.stop.is_cancelled() || turn.is_after_fault()
    }

    /// A builder of a range or batch from the block `start` on, which names the block before it. Blocks that are known from an
    /// earlier run are only counted.
    fn builder(&self, start: (u32, Option<Id>), worker: &WorkerState, is_known: bool) -> Result<RangeBuilder<'_>> {
        let unpacker = Unpacker::new(&self.input.dictionaries);
        let sink = |family: &str| self.sinks.sink(family, Borders::default(), worker.gathered.as_ref());
        let sinks = [sink(DEFAULT)?, sink(BLOCK_IDS)?];
        let finder = self.transactions.as_ref().map(TransactionLoader::finder);
        let chain = Chain::new(self.input.framing, &self.expectations, unpacker, start.0, start.1);
        let mut builder = RangeBuilder::new(chain, sinks, finder);
        if is_known {
            builder.only_count();
        }
        Ok(builder)
    }

    /// Reads a range and builds it. One that is `known` from an earlier run must have the same tally, and is not built.
    fn build_range(
        &self,
        files: &LogFiles,
        range: &Range,
        turn: &ItemOrder<'_>,
        worker: &mut WorkerState,
        known: Option<&RangeDone>,
    ) -> Result<()> {
        let no_part = || Error::broken_invariant("a range of the block log has no file");
        let mut reader = RangeReader::new(files, range, WINDOW).ok_or_else(no_part)?;
        let part = reader.part;
        let bad = |offset: u64, problem| part.bad(offset, problem);
        let mut builder = self.builder((range.first, range.before), worker, known.is_some())?;
        let batch = &mut worker.batch;
        let (mut start, mut end) = (range.start, range.start);
        let (from, to) = self.bounds();
        // To the end of the range: its last number is compared below.
        while builder.chain.next <= to {
            if self.must_stop(turn) {
                return Ok(());
            }
            let Chain { next, before, unpacker, .. } = &mut builder.chain;
            if !reader.next(batch, *next, before.as_ref(), unpacker)? {
                break;
            }
            let indexed = reader.indexed(builder.chain.next, batch.spans.len());
            for at in 0..batch.spans.len() {
                let Some(&span) = batch.spans.get(at) else { break };
                let (offset, word, number) = (batch.offset(span), batch.word(span), builder.chain.next);
                let header = builder.take(batch, at, from, &bad)?;
                part.check_index(indexed.get(at), word, &header);
                end = offset + (span.end + 8 - span.start) as u64;
                if number < from {
                    start = end;
                }
                if number >= to {
                    break;
                }
            }
            builder.flush(&bad)?;
            if known.is_none() {
                self.job.progress.advance(batch.len(), batch.spans.len() as u64);
            }
        }
        if let Some(known) = known {
            let is_same = builder.counted()? == known.blocks.tally;
            return if is_same { Ok(()) } else { Err(another_source(self.job.options, None)) };
        }
        // The range must still have the blocks that it had when the import began.
        let last = builder.last.map(|header| header.number);
        if to >= range.last && last.is_some_and(|last| last != range.last) {
            let problem = LogProblem::Number { expected: range.last, found: last.unwrap_or_default() };
            return Err(part.bad(end, problem));
        }
        self.finish(builder, range.part, start, end)
    }

    fn build_batch(&self, worker: &mut WorkerState, first: u32, turn: &ItemOrder<'_>) -> Result<()> {
        let (from, _) = self.bounds();
        let last = first + (worker.batch.spans.len() as u32).saturating_sub(1);
        if last < from {
            return Ok(());
        }
        let has_it = |range: &&RangeDone| (range.first.number..=range.last.number).contains(&first.max(from));
        let known = self.job.resumed.ranges.iter().find(has_it);
        if known.is_none() && self.job.resumed.is_whole_log() {
            return Err(another_source(self.job.options, None));
        }
        let bad = |offset: u64, problem| Error::bad_input(self.job.options.source(), offset, problem);
        let mut builder = self.builder((first, None), worker, known.is_some())?;
        let batch = &mut worker.batch;
        let (start, mut end) = (batch.at, batch.at);
        for at in 0..batch.spans.len() {
            if at > 0 && at % STEP == 0 {
                self.job.progress.advance(0, STEP as u64);
            }
            if at % STEP == 0 && self.must_stop(turn) {
                return Ok(());
            }
            let Some(&span) = batch.spans.get(at) else { break };
            let offset = batch.offset(span);
            builder.take(batch, at, from, &bad)?;
            end = offset + (span.end + 8 - span.start) as u64;
        }
        builder.flush(&bad)?;
        let counted = batch.spans.len().saturating_sub(1) / STEP * STEP;
        self.job.progress.advance(0, (batch.spans.len() - counted) as u64);
        match known {
            Some(known) => {
                let tally = builder.counted()?;
                self.repeated.lock().entry(known.first.number).or_default().add(tally);
                Ok(())
            }
            None => self.finish(builder, 0, start, end),
        }
    }

    /// Completes a range. If it is in files, the journal gets it.
    fn finish(&self, builder: RangeBuilder<'_>, part: usize, start: u64, end: u64) -> Result<()> {
        let job = self.job;
        let Some(done) = builder.finish(part, start, end, &job.target.partial)? else { return Ok(()) };
        if self.sinks.are_durable() {
            failpoint::reach("range-synced");
            sync_dir(&job.target.sst)?;
            job.journal.append(&Entry::Range(Box::new(done.clone())))?;
            failpoint::reach("range");
            if let Some(uploads) = job.uploads {
                uploads.add(&job.options.column_family, &done.blocks.files)?;
                uploads.add(BLOCK_IDS, &done.ids.files)?;
            }
        }
        self.done.lock().push(done);
        Ok(())
    }

    /// Checks that each range follows the one before it.
    fn check_joins(&self, ranges: &[RangeDone]) -> Result<()> {
        let options = self.job.options;
        for (one, next) in ranges.iter().zip(ranges.iter().skip(1)) {
            let bad = |problem: LogProblem| {
                let path = match &self.input.body {
                    LogBody::Files(files) => files.parts.get(next.part).map(|part| part.path.clone()),
                    LogBody::Stream(_) => None,
                };
                let path = path.unwrap_or_else(|| options.source().to_owned());
                Err(Error::bad_input(&path, next.start, problem))
            };
            let (expected, found) = (one.last.number.checked_add(1), next.first.number);
            if expected != Some(found) {
                return bad(LogProblem::Number { expected: expected.unwrap_or(u32::MAX), found });
            }
            if next.before != one.last.id
                && options.verify
                && let (Ok(previous), Ok(before)) = (next.before.parse(), one.last.id.parse())
            {
                return bad(LogProblem::Link { number: found, previous, before });
            }
        }
        Ok(())
    }

    /// Checks that the last block is the one that is expected, if one is.
    fn check_head(&self, ranges: &[RangeDone]) -> Result<()> {
        let options = self.job.options;
        let last = ranges.last().map(|range| &range.last);
        let (Some((expected, id)), Some(last)) = (options.log.expect_head, last) else { return Ok(()) };
        // The id was written by this program, here or into a journal that it checked.
        let found = last.id.parse().unwrap_or(id);
        let problem = match last.number == expected {
            true if last.id == id.to_string() => return Ok(()),
            true => LogProblem::Checkpoint { number: expected, expected: id, found },
            false => LogProblem::Head { expected, found: last.number, id: found },
        };
        Err(Error::bad_input(options.source(), None, problem))
    }
}
