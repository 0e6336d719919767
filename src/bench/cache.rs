//! Fills, empties and inspects the page cache.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memmap2::{Advice, Mmap, MmapMut};

use super::child::proc_field;
use crate::error::{Error, Result};
use crate::os::resources;
use crate::report::bench::CacheInfo;

const PIECE: usize = 4 << 20;

/// The most dirty memory of an idle system, in KiB.
const QUIET_KIB: u64 = 2048;

/// The time limit of waiting for it.
const QUIET: Duration = Duration::from_secs(30);

/// An import in memory needs pages for the source, for the blocks and for the database.
const SHARE: u64 = 3;

const DROP: &str = "/proc/sys/vm/drop_caches";

/// Returns the regular files of a directory, or the file itself.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries: Vec<fs::DirEntry> = path.read_dir().and_then(Iterator::collect).map_err(Error::io("list", path))?;
    let files = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    Ok(files.map(fs::DirEntry::path).collect())
}

pub(super) fn disk_bytes(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    files(path).ok()?.iter().map(|file| Some(fs::metadata(file).ok()?.blocks() * 512)).sum()
}

/// Reads the files into the page cache as far as they fit.
pub(super) fn warm(path: &Path) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    for path in files(path)? {
        let mut file = File::open(&path).map_err(Error::io("open", &path))?;
        while file.read(&mut buffer).map_err(Error::io("read", &path))? > 0 {}
    }
    Ok(())
}

/// Evicts the files from the page cache. Pages that another process has mapped remain.
pub(super) fn evict(path: &Path) -> Result<()> {
    for path in files(path)? {
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        // The kernel evicts only clean pages.
        file.sync_all().map_err(Error::io("sync", &path))?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|error| Error::io("evict from the page cache", &path)(error.into()))?;
    }
    Ok(())
}

/// Returns the share of pages of the files that are in the page cache; `None` if the kernel does not tell.
pub(super) fn resident(path: &Path) -> Option<f64> {
    let page = rustix::param::page_size();
    let (mut pages, mut present) = (0_usize, 0_usize);
    for path in files(path).ok()? {
        let file = File::open(&path).ok()?;
        if file.metadata().ok()?.len() == 0 {
            continue;
        }
        // SAFETY: the bytes are never read.
        let map = unsafe { Mmap::map(&file) }.ok()?;
        let mut present_pages = vec![0_u8; map.len().div_ceil(page)];
        // SAFETY: the vector has a byte for each page of the map.
        let failed = unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), map.len(), present_pages.as_mut_ptr()) };
        if failed != 0 {
            return None;
        }
        pages += present_pages.len();
        present += present_pages.iter().filter(|&&flags| flags & 1 == 1).count();
    }
    (pages > 0).then(|| present as f64 / pages as f64)
}

/// Writes dirty pages to the disk and waits until it is idle, within a time limit.
pub(super) fn quiesce() {
    rustix::fs::sync();
    let start = Instant::now();
    while start.elapsed() < QUIET && dirty_kib().is_some_and(|kib| kib > QUIET_KIB) {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn dirty_kib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some(proc_field(&text, "Dirty:")? + proc_field(&text, "Writeback:")?)
}

/// Touches free memory, up to `SHARE` times the size of the source, and frees it. A hypervisor that takes free memory back makes the first
/// touch of a page slow. A copy needs more pages than an import and took twice as long.
fn touch_free_memory(source: &Path) {
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(|text| proc_field(&text, "MemFree:"));
    let limit = resources::cgroup_memory().unwrap_or(u64::MAX) / 2;
    let most = (free.unwrap_or_default() * 1024 / 10 * 9).min(limit);
    let len = disk_bytes(source).unwrap_or_default().saturating_mul(SHARE).min(most);
    let map = usize::try_from(len).ok().filter(|len| *len > 0).map(MmapMut::map_anon);
    // Without it, the first run after a rest is slow.
    let _ = map.and_then(std::io::Result::ok).map(|map| map.advise(Advice::PopulateWrite));
}

/// Fills or empties the page cache for a run.
///
/// # Errors
/// [`Error::Io`]: the source cannot be read.
pub(super) fn prepare(source: &Path, cold: bool) -> Result<CacheInfo> {
    let info = fill_or_empty(source, cold)?;
    touch_free_memory(source);
    Ok(info)
}

fn fill_or_empty(source: &Path, cold: bool) -> Result<CacheInfo> {
    quiesce();
    if !cold {
        warm(source)?;
        let how = match resident(source) {
            Some(share) if share < 0.99 => {
                format!("the snapshot was read before; {:.0} % of it stayed in memory", share * 100.0)
            }
            _ => "the snapshot was read before".into(),
        };
        return Ok(CacheInfo { state: "warm".into(), how });
    }
    let mut how = match fs::write(DROP, "3") {
        Ok(()) => "the kernel dropped its caches".to_owned(),
        Err(error) => {
            evict(source)?;
            format!("only the snapshot was evicted from the page cache: {DROP}: {error}")
        }
    };
    if let Some(share) = resident(source).filter(|&share| share > 0.01) {
        how.push_str(&format!("; {:.0} % of the snapshot stayed in memory", share * 100.0));
    }
    Ok(CacheInfo { state: "cold".into(), how })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cached_and_evicted() {
        // Not in /tmp, which may be a tmpfs.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        fs::write(dir.path().join("a"), vec![7; 1 << 20]).expect("room");
        fs::write(dir.path().join("empty"), []).expect("room");
        warm(dir.path()).expect("readable");
        assert_eq!(resident(dir.path()), Some(1.0));
        evict(dir.path()).expect("ours");
        assert!(resident(dir.path()).expect("a share") < 0.5);
        assert!(disk_bytes(dir.path()).expect("a size") >= 1 << 20);
    }
}
