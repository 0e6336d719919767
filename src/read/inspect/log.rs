//! Inspects a block log. Its first and last block, files and indexes are read at once; packings and sizes need a pass over all
//! blocks, which also checks the chain of ids.

use super::options::InspectOptions;
use super::sizes::Sizes;
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::parallel::for_each;
use crate::progress::{Phase, Progress};
use crate::report::{BlockRef, InspectReport, LogInfo, Packings};
use crate::schema::NUMBER;
use crate::source::block_log::{Batch, Forward, Log, LogBody, LogFiles, RangeReader, Unpacker};
use crate::source::block_log::{Chain, Checked, Expectations};
use parking_lot::Mutex;

/// Largest log that a quick inspection reads completely, in bytes.
const SMALL: u64 = 64 << 20;

/// Bytes of a range that one thread reads.
const RANGE: u64 = 64 << 20;

/// Bytes read at once.
pub(super) const WINDOW: usize = 1 << 20;

/// Counts of a log.
#[derive(Default)]
struct Counted {
    blocks: u64,
    payload: u64,
    digest: ContentDigest,
    sizes: Sizes,
    packings: Packings,
    first: Option<BlockRef>,
    last: Option<BlockRef>,
}

/// Inspects a log and fills in the report.
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
    let mut info = LogInfo {
        family: String::new(),
        chain_id: log.chain_id(),
        parts: log.parts(),
        first: None,
        last: None,
        packings: None,
        indexes: Vec::new(),
        rest_bytes: 0,
    };
    let counted = match &log.body {
        LogBody::Files(files) => {
            if let Some((first, last)) = files.ends() {
                info.first = Some(BlockRef::of(first));
                info.last = Some(BlockRef::of(last));
                report.blocks = Some(u64::from(last.number - first.number) + 1);
            }
            let all = options.full || files.size() <= SMALL;
            all.then(|| count_files(files, log, options, progress)).transpose()?
        }
        LogBody::Stream(forward) => {
            let mut forward = forward.lock();
            let counted = count_stream(&mut forward, log, options, progress)?;
            report.bytes = report.bytes.or(Some(forward.consumed()));
            Some(counted)
        }
    };
    report.full = counted.is_some();
    let mut packed = false;
    if let Some(counted) = counted {
        packed = counted.packings.zstd + counted.packings.zstd_dictionary > 0;
        report.blocks = Some(counted.blocks);
        report.payload_bytes = Some(counted.payload);
        report.digest = Some(counted.digest);
        report.sizes = Some(counted.sizes.classes());
        info.packings = Some(counted.packings);
        info.first = counted.first.or(info.first);
        info.last = counted.last.or(info.last);
    } else if let LogBody::Files(files) = &log.body {
        packed = files.ends_packed();
    }
    info.family = log.family(packed).name().into();
    info.indexes = log.indexes();
    info.rest_bytes = log.rest();
    report.valid = info.rest_bytes == 0;
    report.log = Some(info);
    Ok(())
}

pub(super) fn expectations() -> Expectations {
    Expectations { links: true, ..Expectations::default() }
}

fn count_files(files: &LogFiles, log: &Log, options: &InspectOptions, progress: &Progress<'_>) -> Result<Counted> {
    let ranges = files.ranges(RANGE, &[], &log.dictionaries)?;
    progress.begin(Phase::Read, Some(files.size()));
    let expectations = expectations();
    let all: Mutex<Vec<Counted>> = Mutex::default();
    for_each(options.resources.thread_count(), ranges.len(), Batch::default, |batch: &mut Batch, item| {
        let Some(range) = ranges.get(item) else { return Ok(()) };
        let Some(mut reader) = RangeReader::new(files, range, WINDOW) else { return Ok(()) };
        let part = reader.part();
        let unpacker = Unpacker::new(&log.dictionaries);
        let mut chain = Chain::new(log.framing, &expectations, unpacker, range.first, range.before);
        let mut counted = Counted::default();
        loop {
            if options.resources.stop.is_cancelled() {
                return Err(Error::interrupted_reading());
            }
            let Chain { next, before, unpacker, .. } = &mut chain;
            if !reader.next(batch, *next, before.as_ref(), unpacker)? {
                break;
            }
            let indexed = reader.indexed(chain.next, batch.spans.len());
            for at in 0..batch.spans.len() {
                let Some(&span) = batch.spans.get(at) else { break };
                let (offset, word) = (batch.offset(span), batch.word(span));
                let header = counted.take(&mut chain, batch, at).map_err(|problem| part.bad(offset, problem))?;
                part.check_index(indexed.get(at), word, &header);
            }
            progress.add(batch.len(), batch.spans.len() as u64);
        }
        counted.packings = chain.packings;
        all.lock().push(counted);
        Ok(())
    })?;
    let mut all = all.into_inner();
    all.sort_by_key(|counted| counted.first.as_ref().map(|first| first.number));
    Ok(all.into_iter().fold(Counted::default(), Counted::and))
}

fn count_stream(
    forward: &mut Forward,
    log: &Log,
    options: &InspectOptions,
    progress: &Progress<'_>,
) -> Result<Counted> {
    progress.begin(Phase::Read, log.size);
    let mut counted = Counted::default();
    each_batch(forward, log, options, |chain, batch, consumed| {
        for at in 0..batch.spans.len() {
            let offset = batch.spans.get(at).map(|span| batch.offset(*span));
            let taken = counted.take(chain, batch, at);
            taken.map_err(|problem| Error::bad_input(&options.source, offset, problem))?;
        }
        progress.reach(consumed);
        progress.add(0, batch.spans.len() as u64);
        counted.packings = chain.packings;
        Ok(())
    })?;
    Ok(counted)
}

/// Reads a log from a stream and passes on each batch, its chain, and the number of consumed bytes.
pub(super) fn each_batch(
    forward: &mut Forward,
    log: &Log,
    options: &InspectOptions,
    mut take: impl FnMut(&mut Chain<'_>, &mut Batch, u64) -> Result<()>,
) -> Result<()> {
    let (expectations, framing) = (expectations(), forward.framing);
    let mut chain: Option<Chain<'_>> = None;
    let mut batch = Batch::default();
    while forward.next(&mut batch, WINDOW, None, &|_| ())? {
        if options.resources.stop.is_cancelled() {
            return Err(Error::interrupted_reading());
        }
        let first = forward.first.unwrap_or(1);
        let chain = chain
            .get_or_insert_with(|| Chain::new(framing, &expectations, Unpacker::new(&log.dictionaries), first, None));
        take(chain, &mut batch, forward.consumed())?;
    }
    Ok(())
}

impl Counted {
    fn take(
        &mut self,
        chain: &mut Chain<'_>,
        batch: &mut Batch,
        at: usize,
    ) -> Result<crate::blocks::chain::Header, crate::source::block_log::LogProblem> {
        let Checked { record, header } = chain.take(batch, at)?;
        let size = record.len().saturating_sub(NUMBER) as u64;
        self.blocks += 1;
        self.payload += size;
        self.sizes.add(size);
        self.digest.add_section(record, NUMBER);
        if self.first.is_none() {
            self.first = Some(BlockRef::of(&header));
        }
        if at + 1 == batch.spans.len() {
            self.last = Some(BlockRef::of(&header));
        }
        Ok(header)
    }

    /// Merges both; `other` is later in the chain.
    fn and(mut self, other: Self) -> Self {
        self.blocks += other.blocks;
        self.payload += other.payload;
        self.digest.merge(other.digest);
        self.sizes.merge(&other.sizes);
        self.packings.add(other.packings);
        self.first = self.first.or(other.first);
        self.last = other.last.or(self.last);
        self
    }
}
