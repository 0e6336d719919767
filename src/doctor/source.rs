//! What a look at a snapshot tells about the time it will take: how much of it is in the page cache, how long its
//! blocks are, how fast it unpacks.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::load::ImportOptions;
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::input::{self, Body, InputOptions};
use crate::sys;

/// Places that are looked at to tell how much of a file is in the page cache.
const LOOKS: u64 = 256;

/// Bytes of one chunk of the first look at the blocks.
const CHUNK: usize = 2 << 20;

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
pub(crate) fn look(options: &ImportOptions, threads: usize, time: Duration) -> Result<Option<Facts>> {
    let path = &options.source;
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
    let (started, cpu) = (Instant::now(), sys::cpu_seconds());
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
    if is_plain {
        return Ok(Some(Facts { size, bytes: size, cached, block, unpacking: None }));
    }
    let seconds = started.elapsed().as_secs_f64().max(1e-6);
    let busy = sys::cpu_seconds().zip(cpu).map_or(1.0, |(after, before)| (after - before) / seconds);
    let grows = bytes as f64 / chunks.consumed().max(1) as f64;
    Ok(Some(Facts {
        size,
        bytes: (size as f64 * grows) as u64,
        cached,
        block,
        unpacking: Some(Unpacking { rate: bytes as f64 / seconds, cores: busy.clamp(1.0, threads.max(1) as f64) }),
    }))
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
        let address = map.get(at..)?.as_ptr().cast_mut().cast();
        let mut found = 0_u8;
        // SAFETY: the address is that of a page of the live map, and one byte is written for it.
        if unsafe { libc::mincore(address, page as usize, &raw mut found) } != 0 {
            return None;
        }
        there += u64::from(found & 1);
    }
    Some(there as f64 / looks as f64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::generate::{self, Format, Profile, Spec};

    fn facts(format: Format) -> Facts {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let mut file = File::create(&path).expect("made");
        generate::write(&Spec::new(Profile::Mainnet, 8 << 20).format(format), &mut file).expect("written");
        file.flush().expect("written");
        let options = ImportOptions::new(&path, dir.path().join("db"));
        look(&options, 2, Duration::from_secs(1)).expect("readable").expect("a file")
    }

    #[test]
    fn a_file_just_written_is_in_the_page_cache_and_its_blocks_are_those_of_mainnet() {
        let found = facts(Format::Car);
        assert_eq!((found.bytes, found.unpacking), (found.size, None));
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
