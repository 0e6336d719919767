//! Describes the content of a snapshot or a database without importing it. A quick inspection reads the header, the first blocks (roots, metadata,
//! the head's headers) and the index. A full one reads everything and checks every block against its CID.

mod database;
mod frames;
mod heads;
mod log;
mod options;
mod tally;

use std::io::Write;
use std::path::Path;

use parking_lot::Mutex;

use self::heads::Heads;
pub use self::log::trim_hint;
pub use self::options::InspectOptions;
use self::tally::BlockTally;
use super::keys::cid_text;
use super::snapshot::{CHUNK, REMOTE_CHUNK, SnapshotReader};
use super::visited::Visited;
use crate::error::{Error, Result};
use crate::progress::{Observer, Progress};
use crate::report::{INSPECT_SCHEMA, InspectReport, V2Info};
use crate::rocks::is_database;
use crate::source::block_log::Opened;
use crate::source::input::{Compression, Extent};

/// Chunks that a quick inspection searches for the roots, which come first in snapshots of a chain.
const QUICK_CHUNKS: usize = 3;

/// Inspects a snapshot or a database. Blocks that do not match their CIDs are no error: the report lists them.
///
/// # Errors
/// [`Error::BadInput`]: it is neither a CAR nor a block log, or it is damaged or cut; [`Error::Io`], [`Error::Rocks`]: it cannot be
/// read; [`Error::Interrupted`].
pub fn inspect(options: &InspectOptions, observer: &dyn Observer) -> Result<InspectReport> {
    let options = &options.without_secrets();
    let (report, seconds) = Progress::timed(observer, |progress| run(options, progress))?;
    Ok(InspectReport { seconds, ..report })
}

fn run(options: &InspectOptions, progress: &Progress<'_>) -> Result<InspectReport> {
    let mut report = InspectReport {
        schema: INSPECT_SCHEMA.into(),
        source: options.source.display().to_string(),
        format: "car".into(),
        full: options.full,
        valid: true,
        ..InspectReport::default()
    };
    if is_database(&options.source) {
        return database::inspect(options, &mut report).map(|()| report);
    }
    let input = match options.open(if options.full { Extent::All } else { Extent::Head })? {
        Opened::Log(log) => {
            log::inspect(&log, options, &mut report, progress)?;
            return Ok(report);
        }
        Opened::Other(input) => input,
    };
    let mut snapshot = options.snapshot(input, progress)?;
    let mut heads = Heads::new(&snapshot.header.roots);
    let header = snapshot.header.clone();
    report.version = header.version;
    report.compression = snapshot.compression.name().into();
    report.bytes = snapshot.size;
    report.blocks = snapshot.indexed;
    report.v2 = header.v2.map(|v2| V2Info {
        data_offset: v2.data_offset,
        data_bytes: v2.data_size,
        index_offset: v2.index_offset,
        // The one bit that is in use; the field is written with its first byte first.
        fully_indexed: v2.characteristics & 0x80 != 0,
    });
    let mut everything = options.full;
    if options.full {
        heads = count_all(options, &mut snapshot, heads, &mut report, progress)?;
    } else {
        everything = read_head(&mut snapshot, &mut heads, progress)?;
    }
    heads.fill(&mut report, &header.roots, everything);
    Ok(report)
}

/// Reads the first blocks; true if these are all.
fn read_head(snapshot: &mut SnapshotReader<'_>, heads: &mut Heads, progress: &Progress<'_>) -> Result<bool> {
    let chunks = if snapshot.is_remote { QUICK_CHUNKS * CHUNK / REMOTE_CHUNK } else { QUICK_CHUNKS };
    for _ in 0..chunks {
        let Some(chunk) = snapshot.next(progress)? else { return Ok(true) };
        let count = SnapshotReader::sections(snapshot.path, &chunk, |section, _, body| {
            heads.see(section, body);
            Ok(())
        })?;
        progress.add(0, count);
        if heads.complete() {
            break;
        }
    }
    Ok(false)
}

fn count_all(
    options: &InspectOptions,
    snapshot: &mut SnapshotReader<'_>,
    heads: Heads,
    report: &mut InspectReport,
    progress: &Progress<'_>,
) -> Result<Heads> {
    let path = snapshot.path;
    let heads = Mutex::new(heads);
    let visited = Visited::new(options.resources.memory_budget()? / 2, options.resources.scratch_parent());
    let mut tallies: Vec<BlockTally> = (0..options.resources.thread_count()).map(|_| BlockTally::default()).collect();
    // The first chunk is read alone, because it may name blocks of the others.
    let mut padding = 0;
    if let (Some(chunk), Some(tally)) = (snapshot.next(progress)?, tallies.first_mut()) {
        tally.take(path, &chunk, &visited, &|section, body| heads.lock().see(section, body))?;
        progress.add(0, chunk.starts.len() as u64);
        drop(chunk);
        let wanted = heads.lock().wanted();
        let tail = snapshot.read_rest(&mut tallies, &options.resources.stop, progress, |tally, chunk| {
            tally.take(path, chunk, &visited, &|section, body| {
                // Only a wanted block takes the lock.
                if body.get(..section.cid.len as usize).is_some_and(|cid| wanted.contains(cid)) {
                    heads.lock().see(section, body);
                }
            })?;
            progress.add(0, chunk.starts.len() as u64);
            Ok(())
        })?;
        padding = tail.padding;
    }
    let mut total = BlockTally::default();
    tallies.into_iter().for_each(|tally| total.merge(tally));
    let is_file = snapshot.size.is_some() && !snapshot.is_remote;
    if matches!(snapshot.compression, Compression::Zstd | Compression::ForestZstd) && is_file {
        report.zstd = frames::count(path).map_err(Error::io("read", path))?;
    }
    report.bytes = Some(snapshot.size.unwrap_or(snapshot.chunks.consumed()));
    report.null_padding = Some(padding);
    total.fill(report);
    Ok(heads.into_inner())
}

/// Writes every block as a line of JSON, in file order, without hashing. For a block log, checks the chain of ids.
pub fn list(options: &InspectOptions, out: &mut dyn Write) -> Result<()> {
    let options = &options.without_secrets();
    let progress = Progress::new(&crate::progress::Silent);
    if is_database(&options.source) {
        return Err(Error::usage("--list reads a snapshot", "`ldb --hex dump` lists the records of a database"));
    }
    let input = match options.open(Extent::Part)? {
        Opened::Log(log) => return log::list(&log, options, &progress, out),
        Opened::Other(input) => input,
    };
    let mut snapshot = options.snapshot(input, &progress)?;
    let failed = || Error::io("write", Path::new("-"));
    while let Some(chunk) = snapshot.next(&progress)? {
        let stop = &options.resources.stop;
        stop.check(|| Error::Interrupted { hint: "the list is not complete; run it again".into() })?;
        SnapshotReader::sections(snapshot.path, &chunk, |section, offset, body| {
            let (cid, block) = body.split_at(body.len().min(section.cid.len as usize));
            let cid = cid_text(cid);
            // The text of a CID needs no escapes.
            writeln!(
                out,
                "{{\"schema\":\"bedload-list-1\",\"type\":\"block\",\"cid\":\"{cid}\",\"bytes\":{},\"offset\":{offset}}}",
                block.len()
            )
            .map_err(failed())
        })?;
    }
    out.flush().map_err(failed())
}
