//! What a look at a snapshot tells about the time it will take: how much of it is in the page cache, how long its
//! blocks are, how fast it unpacks.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::error::Result;
use crate::load::rehearse_log::{self, LogPace};
use crate::load::{ImportOptions, Plan};
use crate::os::mmap::Mapped;
use crate::os::resources;
use crate::rocks::option_map::OptionMap;
use crate::source::block_log::{Log, LogBody};
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::input::{self, Body, InputOptions};

/// Places that are looked at to tell how much of a file is in the page cache.
const LOOKS: u64 = 256;

/// Bytes of one chunk of the first look at the blocks.
const CHUNK: usize = 2 << 20;

/// Bytes that are read at once to see how fast the file comes from its disk, and the system's page size at least.
const PIECE: usize = 8 << 20;
const PAGE: usize = 4096;

/// How many of these there are at most.
const PIECES: u64 = 24;

/// Memory that unpacking may use for the look, in bytes.
const MEMORY: u64 = 64 << 20;

/// What is known about a snapshot before it is imported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Facts {
    /// Bytes as it lies on disk.
    pub size: u64,
    /// Bytes of the unwrapped snapshot.
    pub bytes: u64,
    /// The share of it that is in the page cache.
    pub cached: f64,
    /// Bytes of an average block.
    pub block: f64,
    /// How it unpacks; `None` of what is not packed.
    pub unpacking: Option<Unpacking>,
    /// Bytes a second of what is not in the page cache, read the way an import will; `None` if all is there.
    pub fresh: Option<f64>,
}

/// What is known about a block log before it is imported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogFacts {
    /// Bytes of all its files.
    pub size: u64,
    /// The share of them that is in the page cache.
    pub cached: f64,
    /// How long a piece of it took.
    pub pace: LogPace,
}

/// How a snapshot unpacks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unpacking {
    /// Unpacked bytes a second, when nothing else is to do.
    pub rate: f64,
    /// Cores that are busy with that.
    pub cores: f64,
}

/// Looks at a snapshot that lies in a file, for at most about `time`; `None` for a pipe.
///
/// # Errors
/// It cannot be read, or its beginning is not sound.
pub(crate) fn look(options: &ImportOptions, plan: &Plan, time: Duration) -> Result<Option<Facts>> {
    let (path, threads) = (&options.source, plan.threads);
    let input = input::open(path, &InputOptions { threads, memory: MEMORY })?;
    let Some(size) = input.size else { return Ok(None) };
    let is_plain = matches!(input.body, Body::File(_));
    let cached = cached_share(path, size).unwrap_or(0.0);
    let limits = Limits {
        max_block: options.max_block_size,
        null_padding: options.null_padding,
        fits: u64::MAX,
        budget: u64::MAX,
        chunk: CHUNK,
    };
    let (started, cpu) = (Instant::now(), resources::cpu_seconds());
    let (_, mut chunks) = Chunks::open(input, limits)?;
    let (mut blocks, mut bytes, mut spare) = (0, 0, None);
    while let Some(chunk) = chunks.next(spare.take())? {
        blocks += chunk.starts.len() as u64;
        bytes += chunk.bytes.len() as u64;
        spare = chunk.bytes.release();
        // Of a plain file the first chunk says how long blocks are, and nothing more is asked.
        if is_plain || started.elapsed() >= time {
            break;
        }
    }
    let block = bytes as f64 / blocks.max(1) as f64;
    // A little that is missing does not matter.
    let fresh = if cached < 0.95 { fresh_rate(path, size, is_plain && !plan.spill, time) } else { None };
    if is_plain {
        return Ok(Some(Facts { size, bytes: size, cached, block, unpacking: None, fresh }));
    }
    let seconds = started.elapsed().as_secs_f64().max(1e-6);
    let busy = resources::cpu_seconds().zip(cpu).map_or(1.0, |(after, before)| (after - before) / seconds);
    let grows = bytes as f64 / chunks.consumed().max(1) as f64;
    Ok(Some(Facts {
        size,
        bytes: (size as f64 * grows) as u64,
        cached,
        block,
        unpacking: Some(Unpacking { rate: bytes as f64 / seconds, cores: busy.clamp(1.0, threads.max(1) as f64) }),
        fresh,
    }))
}

/// Looks at a log, with a piece of `bytes` of it; `None` for one that comes through a pipe, and for a part of one, whose
/// size nobody knows.
///
/// # Errors
/// It cannot be read, or is damaged there.
pub(crate) fn look_at_log(
    log: &Log,
    options: &ImportOptions,
    plan: &Plan,
    loading: &OptionMap,
    bytes: u64,
) -> Result<Option<LogFacts>> {
    let LogBody::Files(files) = &log.body else { return Ok(None) };
    let size = files.size();
    if options.log.from.is_some() || options.log.to.is_some() || size == 0 {
        return Ok(None);
    }
    // Before the rehearsal reads some of it.
    let there = files.parts.iter().map(|part| cached_share(&part.path, part.size).unwrap_or(0.0) * part.size as f64);
    let cached = there.sum::<f64>() / size as f64;
    let rehearse = || rehearse_log::rehearse(log, options, loading, plan.threads, bytes);
    let (Some(first), Some(second)) = (rehearse()?, rehearse()?) else { return Ok(None) };
    // The first time some of it came from the disk.
    let pace = if second.read < first.read { second } else { first };
    Ok(Some(LogFacts { size, cached, pace }))
}

/// Bytes a second of parts of a file that are not in the page cache, for at most about `time`: brought in ahead and
/// looked at page by page where it will be `mapped`, read otherwise. A page that memory must first be found for costs
/// more than the disk on some machines, so nothing but the file itself tells.
fn fresh_rate(path: &Path, size: u64, mapped: bool, time: Duration) -> Option<f64> {
    let file = File::open(path).ok()?;
    let map = Mapped::new(&file, usize::try_from(size).ok()?, path)?;
    let mut buffer = if mapped { Vec::new() } else { vec![0; PIECE] };
    let (started, mut taken, mut seen) = (Instant::now(), 0, 0_u8);
    for piece in 0..PIECES {
        let at = size / PIECES * piece / PAGE as u64 * PAGE as u64;
        let Some(bytes) = map.get(at as usize..(at as usize).saturating_add(PIECE)) else { break };
        if is_cached(bytes)? {
            continue;
        }
        if mapped {
            let _ = fadvise(&file, at, NonZeroU64::new(PIECE as u64), Advice::WillNeed);
            seen = bytes.iter().step_by(PAGE).fold(seen, |seen, byte| seen ^ byte);
        } else {
            file.read_exact_at(&mut buffer, at).ok()?;
        }
        taken += PIECE;
        if started.elapsed() >= time {
            break;
        }
    }
    std::hint::black_box(seen);
    map.check().ok()?;
    (taken > 0).then(|| taken as f64 / started.elapsed().as_secs_f64())
}

/// Whether the first page of these mapped bytes is in the page cache.
fn is_cached(bytes: &[u8]) -> Option<bool> {
    let mut found = 0_u8;
    let address = bytes.as_ptr().cast_mut().cast();
    // SAFETY: the address is that of a page of a live map, and one byte is written for it.
    let outcome = unsafe { libc::mincore(address, PAGE, &raw mut found) };
    (outcome == 0).then_some(found & 1 == 1)
}

/// The share of a file that is in the page cache, by [`LOOKS`] looks spread over it.
fn cached_share(path: &Path, size: u64) -> Option<f64> {
    let page = rustix::param::page_size() as u64;
    let file = File::open(path).ok()?;
    let pages = size.div_ceil(page).max(1);
    // SAFETY: nothing is read through the map; the system is only asked which of its pages are there.
    let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    let looks = LOOKS.min(pages);
    let mut there = 0;
    for look in 0..looks {
        let at = (pages * look / looks * page) as usize;
        there += u64::from(is_cached(map.get(at..)?)?);
    }
    Some(there as f64 / looks as f64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::generate::{self, Format, Profile, Spec};
    use crate::load::PlanChoice;

    fn facts(format: Format) -> Facts {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let mut file = File::create(&path).expect("made");
        generate::write(&Spec::new(Profile::Mainnet, 8 << 20).format(format), &mut file).expect("written");
        file.flush().expect("written");
        let options = ImportOptions::new(&path, dir.path().join("db"));
        let plan = Plan::choose(PlanChoice::Auto, Some(8 << 20), true, 1 << 30, 2, 1024, 64 << 20);
        look(&options, &plan, Duration::from_secs(1)).expect("readable").expect("a file")
    }

    #[test]
    fn a_file_just_written_is_in_the_page_cache_and_its_blocks_are_those_of_mainnet() {
        let found = facts(Format::Car);
        assert_eq!((found.bytes, found.unpacking, found.fresh), (found.size, None, None));
        assert!(found.cached > 0.9, "{found:?}");
        assert!((500.0..2000.0).contains(&found.block), "{found:?}");
    }

    #[test]
    fn a_packed_file_tells_how_far_it_grows() {
        let found = facts(Format::CarZst);
        let plain = 8 << 20;
        assert!(found.bytes > found.size && found.bytes.abs_diff(plain) < plain / 4, "{found:?}");
        assert!(found.unpacking.is_some_and(|unpacking| unpacking.rate > 0.0 && unpacking.cores >= 1.0), "{found:?}");
    }
}
