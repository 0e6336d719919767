//! An import of a piece of a log that touches no disk: what a processor does in a second with these very blocks,
//! measured with the code that will do it. Only where records go is not the same, and ids of transactions are sorted at
//! once instead of by partitions.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::super::families::set_for_ids;
use super::super::lock;
use super::super::options::ImportOptions;
use super::super::rehearse::on_threads;
use super::input::{detect, of_set};
use super::making::id_record;
use super::reading::WINDOW;
use super::transactions::{checks_roots, lookup};
use crate::chain::Id;
use crate::error::Result;
use crate::rocks::option_map::OptionMap;
use crate::rocks::{SstOptions, SstWriter};
use crate::schema::NUMBER;
use crate::schema::PLACE;
use crate::source::block_log::{
    Batch, Dictionaries, Log, LogBody, LogFiles, LogProblem, Opened, Packing, Range, RangeReader, Unpacker,
};
use crate::source::block_log::{Chain, Checked, Expectations};
use crate::source::input::{self, InputOptions};

/// Memory that looking at a source may use for unpacking, in bytes.
const MEMORY: u64 = 64 << 20;

/// Bytes of a file of blocks in memory.
const FILE: u64 = 4 << 20;

/// How long a piece of a log took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogPace {
    /// Bytes of the log that were taken.
    pub bytes: u64,
    /// Bytes of the files built for blocks and their ids.
    pub built: u64,
    /// Reading, checking and building those.
    pub read: Duration,
    /// Bytes of the files built for transactions.
    pub transactions_built: u64,
    /// Sorting ids of transactions and building those.
    pub transactions: Duration,
}

/// One thread's part of a piece.
#[derive(Default)]
struct Part {
    bytes: u64,
    built: u64,
    ids: Vec<Id>,
}

/// Opens the source as a log; `None` when it is none.
///
/// # Errors
/// It cannot be read, or is a log that is not whole.
pub(crate) fn open(options: &ImportOptions) -> Result<Option<Log>> {
    let dictionaries = Dictionaries::new(options.log.dictionaries.as_deref());
    if let Some(log) = of_set(options, &dictionaries)? {
        return Ok(Some(log));
    }
    let input = input::open(&options.source, &InputOptions { threads: 1, memory: MEMORY })?;
    Ok(match detect(input, options, &dictionaries)? {
        Opened::Log(log) => Some(*log),
        Opened::Other(_) => None,
    })
}

/// Imports about `bytes` of the middle of a log into memory with `threads`; `None` for one that comes through a pipe.
///
/// # Errors
/// The log is damaged there, or RocksDB refuses the options.
pub(crate) fn rehearse(
    log: &Log,
    options: &ImportOptions,
    loading: &OptionMap,
    threads: usize,
    bytes: u64,
) -> Result<Option<LogPace>> {
    let LogBody::Files(files) = &log.body else { return Ok(None) };
    let threads = threads.max(1);
    let every = (files.size() / (2 * threads as u64)).max(WINDOW as u64);
    let ranges = files.ranges(every, &[], &log.dictionaries)?;
    // Old blocks are smaller than those of later years: the middle stands for all.
    let from = (ranges.len() / 2).min(ranges.len().saturating_sub(threads));
    let Some(chosen) = ranges.get(from..) else { return Ok(None) };
    let blocks = SstOptions::in_memory(loading)?;
    let mut of_ids = loading.clone();
    set_for_ids(&mut of_ids);
    let ids = SstOptions::in_memory(&of_ids)?;
    let piece = bytes / threads as u64;
    let stage = Stage { log, files, options, piece, blocks: &blocks, ids: &ids };
    let started = Instant::now();
    let mut parts = on_threads(threads, |number| match chosen.get(number) {
        Some(range) => stage.take(range, number),
        None => Ok(Part::default()),
    })?;
    let mut pace = LogPace { read: started.elapsed(), ..LogPace::default() };
    for part in &parts {
        pace.bytes += part.bytes;
        pace.built += part.built;
    }
    if options.log.index_transactions {
        let all: Vec<_> = parts.iter_mut().map(|part| Mutex::new(std::mem::take(&mut part.ids))).collect();
        let started = Instant::now();
        let built = on_threads(threads, |number| match all.get(number) {
            Some(ids) => stage.sort_and_build(&mut lock(ids), number),
            None => Ok(0),
        })?;
        (pace.transactions, pace.transactions_built) = (started.elapsed(), built.into_iter().sum());
    }
    Ok(Some(pace))
}

/// A file in memory that takes the place of the one that its thread has built before: memory that was used already is
/// what the page cache has to give, too.
fn writer<'a>(options: &'a SstOptions, what: &str, thread: usize) -> Result<SstWriter<'a>> {
    SstWriter::create(options, PathBuf::from(format!("/{what}-{thread}.sst")))
}

/// What all threads share.
struct Stage<'a> {
    log: &'a Log,
    files: &'a LogFiles,
    options: &'a ImportOptions,
    /// Bytes that each thread takes.
    piece: u64,
    blocks: &'a SstOptions,
    ids: &'a SstOptions,
}

impl Stage<'_> {
    /// Checks the first blocks of a range and builds their files.
    fn take(&self, range: &Range, thread: usize) -> Result<Part> {
        let Self { log, options, .. } = self;
        let Some(mut reader) = RangeReader::new(self.files, range, WINDOW) else { return Ok(Part::default()) };
        let expectations = Expectations { links: options.verify, ..Expectations::default() };
        let unpacker = Unpacker::new(&log.dictionaries);
        let mut chain = Chain::new(log.framing(), &expectations, unpacker, range.first, range.before);
        let wants_transactions = options.log.index_transactions || checks_roots(options);
        let lookup = wants_transactions.then(|| lookup(options, log));
        let mut blocks = writer(self.blocks, "blocks", thread)?;
        let mut ids = writer(self.ids, "ids", thread)?;
        let (mut batch, mut part) = (Batch::default(), Part::default());
        while part.bytes < self.piece {
            let Chain { next, before, unpacker, .. } = &mut chain;
            if !reader.next(&mut batch, *next, before.as_ref(), unpacker)? {
                break;
            }
            for at in 0..batch.spans.len() {
                let offset = batch.spans.get(at).map_or(0, |span| batch.offset(*span));
                let bad = |problem| reader.part().bad(offset, problem);
                let packed = batch.spans.get(at).is_some_and(|span| span.packing != Packing::Raw);
                let Checked { record, header } = chain.take(&mut batch, at).map_err(bad)?;
                let (key, block) = record.split_at(NUMBER);
                if let Some(lookup) = &lookup {
                    let found = lookup.of_block(block, &header, packed);
                    let number = header.number;
                    let found = found.map_err(|problem| bad(LogProblem::Block { number, problem }))?;
                    part.ids.extend(found.ids);
                }
                blocks.put(key, block)?;
                let (record, len) = id_record(&header);
                let (id, number) = record.split_at(len);
                ids.put(id, number.get(..NUMBER).unwrap_or_default())?;
            }
            part.bytes += batch.len();
            if blocks.size() >= FILE {
                part.built += blocks.size();
                blocks.finish()?;
                blocks = writer(self.blocks, "blocks", thread)?;
            }
        }
        part.built += blocks.size() + ids.size();
        blocks.finish()?;
        ids.finish()?;
        Ok(part)
    }

    fn sort_and_build(&self, ids: &mut Vec<Id>, thread: usize) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        ids.sort_unstable();
        ids.dedup();
        let mut writer = writer(self.ids, "transactions", thread)?;
        ids.iter().try_for_each(|id| writer.put(id.as_bytes(), &[0; PLACE]))?;
        let built = writer.size();
        writer.finish()?;
        Ok(built)
    }
}
