//! Inspects a block log, or lists its blocks. The first and last block, files and indexes are read at once; packings and sizes need
//! a pass over all blocks, which also checks the chain of ids.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use rayon::prelude::*;

use super::options::InspectOptions;
use super::tally::Sums;
use crate::blocks::chain::Header;
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::parallel::pool;
use crate::progress::{Phase, Progress};
use crate::report::{BlockRef, InspectReport, LogInfo, Packings, shell_word};
use crate::schema::NUMBER;
use crate::source::block_log::{
    Chain, Checked, EntryBatch, Expectations, Forward, Log, LogBody, LogFiles, LogProblem, Range, RangeReader, Unpacker,
};

/// Largest log that a quick inspection reads completely, in bytes.
const SMALL: u64 = 64 << 20;

/// Bytes of a range that one thread reads.
const RANGE: u64 = 64 << 20;

const WINDOW: usize = 1 << 20;

static EXPECTATIONS: Expectations = Expectations { links: true, chain_id: None, checkpoints: BTreeMap::new() };

#[derive(Default)]
struct Counted {
    digest: ContentDigest,
    sizes: Sums,
    packings: Packings,
    first: Option<Header>,
    last: Option<Header>,
}

pub(super) fn inspect(
    log: &Log,
    options: &InspectOptions,
    report: &mut InspectReport,
    progress: &Progress<'_>,
) -> Result<()> {
    report.format = "block-log".into();
    report.version = u64::from(log.version());
    report.compression = log.compression.name().into();
    report.bytes = log.size;
    let (mut ends, mut packed) = (None, false);
    let counted = match &log.body {
        LogBody::Files(files) => {
            ends = files.ends();
            packed = files.ends_packed();
            let all = options.full || files.size() <= SMALL;
            all.then(|| count_files(files, log, options, progress)).transpose()?
        }
        LogBody::Stream(forward) => {
            let mut forward = forward.lock();
            progress.begin(Phase::Read, log.size);
            let mut counted = Counted::default();
            let packings = read_stream(&mut forward, log, options, progress, |block| {
                counted.add(&block);
                Ok(())
            })?;
            report.bytes = report.bytes.or(Some(forward.consumed()));
            Some(Counted { packings, ..counted })
        }
    };
    report.full = counted.is_some();
    report.blocks = ends.map(|(first, last)| u64::from(last.number - first.number) + 1);
    let (mut first, mut last) = (ends.map(|(first, _)| *first), ends.map(|(_, last)| *last));
    let packings = counted.as_ref().map(|counted| counted.packings);
    if let Some(counted) = counted {
        packed = counted.packings.zstd + counted.packings.zstd_dictionary > 0;
        let total = counted.sizes.total();
        report.blocks = Some(total.blocks);
        report.payload_bytes = Some(total.bytes);
        report.digest = Some(counted.digest);
        report.sizes = Some(counted.sizes.size_classes());
        (first, last) = (counted.first.or(first), counted.last.or(last));
    }
    let rest_bytes = log.rest();
    report.valid = rest_bytes == 0;
    report.log = Some(LogInfo {
        family: log.family(packed).name().into(),
        chain_id: log.chain_id(),
        parts: log.parts(),
        first: first.as_ref().map(BlockRef::of),
        last: last.as_ref().map(BlockRef::of),
        packings,
        indexes: log.indexes(),
        rest_bytes,
    });
    Ok(())
}

fn count_files(files: &LogFiles, log: &Log, options: &InspectOptions, progress: &Progress<'_>) -> Result<Counted> {
    let ranges = files.ranges(RANGE, &[], &log.dictionaries)?;
    progress.begin(Phase::Read, Some(files.size()));
    let count = |batch: &mut EntryBatch, range: &Range| {
        let mut counted = Counted::default();
        let packings = read_range((files, range), log, options, progress, batch, |block| {
            counted.add(&block);
            Ok(())
        })?;
        Ok(Counted { packings, ..counted })
    };
    let counted = || ranges.par_iter().map_init(EntryBatch::default, count).collect::<Result<Vec<_>>>();
    let all = pool(options.resources.thread_count())?.install(counted)?;
    Ok(all.into_iter().fold(Counted::default(), Counted::and))
}

impl Counted {
    fn add(&mut self, block: &LogBlock<'_>) {
        self.sizes.add_size(block.size());
        self.digest.add_section(block.record, NUMBER);
        self.first.get_or_insert(block.header);
        self.last = Some(block.header);
    }

    /// Merges both; `other` is later in the chain.
    fn and(mut self, other: Self) -> Self {
        self.digest.merge(other.digest);
        self.sizes.merge(other.sizes);
        self.packings.add(other.packings);
        self.first = self.first.or(other.first);
        self.last = other.last.or(self.last);
        self
    }
}

/// Writes number, id, sizes and offset of every block as a line of JSON. Each block must follow the previous one.
pub(super) fn list(log: &Log, options: &InspectOptions, progress: &Progress<'_>, out: &mut dyn Write) -> Result<()> {
    let last = match &log.body {
        LogBody::Files(files) => {
            let (mut batch, mut last) = (EntryBatch::default(), 0);
            for range in files.ranges(u64::MAX, &[], &log.dictionaries)? {
                let part = (files.parts.len() > 1).then_some(range.part + 1);
                let write = |block: LogBlock<'_>| write_line(&block, part, out);
                read_range((files, &range), log, options, progress, &mut batch, write)?;
                last = range.last;
            }
            last
        }
        LogBody::Stream(forward) => {
            let mut forward = forward.lock();
            read_stream(&mut forward, log, options, progress, |block| write_line(&block, None, out))?;
            forward.last().unwrap_or_default()
        }
    };
    out.flush().map_err(Error::io("write", Path::new("-")))?;
    if log.rest() == 0 {
        return Ok(());
    }
    Err(Error::verification_failed("inspect", options.source.clone(), "a torn tail", trim_hint(&options.source, last)))
}

/// The hint for a log that ends inside a block.
pub fn trim_hint(log: &Path, last: u32) -> String {
    let log = shell_word(log);
    format!("`bedload import {log} --db DIR --tail trim` imports up to block {last} and leaves the rest out")
}

/// Writes a line of JSON; `part` is the number of the file of a log in several files.
fn write_line(block: &LogBlock<'_>, part: Option<usize>, out: &mut dyn Write) -> Result<()> {
    let LogBlock { offset, stored, header, .. } = block;
    let part = part.map(|part| format!(",\"part\":{part}")).unwrap_or_default();
    writeln!(
        out,
        "{{\"schema\":\"bedload-list-1\",\"type\":\"block\",\"number\":{},\"id\":\"{}\",\"bytes\":{},\
         \"stored_bytes\":{stored},\"offset\":{offset}{part}}}",
        header.number,
        header.id,
        block.size()
    )
    .map_err(Error::io("write", Path::new("-")))
}

struct LogBlock<'b> {
    offset: u64,
    /// Length in the log, in bytes.
    stored: usize,
    /// The position that the log stores after the block.
    word: u64,
    /// The key, then the block.
    record: &'b [u8],
    header: Header,
}

impl LogBlock<'_> {
    fn size(&self) -> u64 {
        self.record.len().saturating_sub(NUMBER) as u64
    }
}

fn each_block(
    chain: &mut Chain<'_>,
    batch: &mut EntryBatch,
    bad: impl Fn(u64, LogProblem) -> Error,
    mut take: impl FnMut(LogBlock<'_>) -> Result<()>,
) -> Result<()> {
    for at in 0..batch.spans.len() {
        let Some(&span) = batch.spans.get(at) else { break };
        let (offset, stored, word) = (batch.offset(span), span.end - span.start, batch.word(span));
        let Checked { record, header } = chain.take(batch, at).map_err(|problem| bad(offset, problem))?;
        take(LogBlock { offset, stored, word, record, header })?;
    }
    Ok(())
}

/// Reads a range of the files of a log, compares its indexes, and passes on each block.
fn read_range(
    (files, range): (&LogFiles, &Range),
    log: &Log,
    options: &InspectOptions,
    progress: &Progress<'_>,
    batch: &mut EntryBatch,
    mut take: impl FnMut(LogBlock<'_>) -> Result<()>,
) -> Result<Packings> {
    let unpacker = Unpacker::new(&log.dictionaries);
    let mut chain = Chain::new(log.framing, &EXPECTATIONS, unpacker, range.first, range.before);
    let Some(mut reader) = RangeReader::new(files, range, WINDOW) else { return Ok(chain.packings) };
    let part = reader.part;
    loop {
        options.resources.stop.check(Error::interrupted_reading)?;
        let Chain { next, before, unpacker, .. } = &mut chain;
        if !reader.next(batch, *next, before.as_ref(), unpacker)? {
            return Ok(chain.packings);
        }
        let bad = |offset: u64, problem: LogProblem| part.bad(offset, problem);
        let mut indexed = reader.indexed(chain.next, batch.spans.len()).iter();
        each_block(&mut chain, batch, bad, |block| {
            part.check_index(indexed.next(), block.word, &block.header);
            take(block)
        })?;
        progress.add(batch.len(), batch.spans.len() as u64);
    }
}

/// Reads a log from a stream and passes on each block.
fn read_stream(
    forward: &mut Forward,
    log: &Log,
    options: &InspectOptions,
    progress: &Progress<'_>,
    mut take: impl FnMut(LogBlock<'_>) -> Result<()>,
) -> Result<Packings> {
    let framing = forward.framing;
    let mut chain: Option<Chain<'_>> = None;
    let mut batch = EntryBatch::default();
    while forward.next(&mut batch, WINDOW, None, &|_| ())? {
        options.resources.stop.check(Error::interrupted_reading)?;
        let first = forward.first.unwrap_or(1);
        let chain = chain
            .get_or_insert_with(|| Chain::new(framing, &EXPECTATIONS, Unpacker::new(&log.dictionaries), first, None));
        let bad = |offset: u64, problem: LogProblem| Error::bad_input(&options.source, offset, problem);
        each_block(chain, &mut batch, bad, &mut take)?;
        progress.reach(forward.consumed());
        progress.add(0, batch.spans.len() as u64);
    }
    Ok(chain.map(|chain| chain.packings).unwrap_or_default())
}
