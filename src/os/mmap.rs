//! Memory maps of files: the page cache itself, without a copy.
//!
//! Access to a page that the file no longer has, or that the disk cannot read, raises SIGBUS, which would kill the
//! process. So files are mapped only after [`handle_sigbus`]. For an address in one of our maps the handler records the
//! fault and replaces the whole map by empty pages. The reader calls [`Mapped::check`] before it uses the bytes. Any
//! other SIGBUS goes to the previous handler.
//!
//! The handler does not replace single pages: a process can have about 65,530 maps, and a large file has more pages.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use memmap2::Mmap;

use crate::error::{Error, Result};

/// Most maps that are watched at once. Further files are read.
const SLOTS: usize = 256;

/// Most files that are mapped at once. Other maps of this process may use some of the slots.
pub(crate) const MAX_MAPS: usize = SLOTS / 2;

/// Most bytes that one fault maps: a large page of the page cache.
const LARGE: usize = 2 << 20;

/// One watched map. Only atomics: the handler may run between any two instructions.
struct Slot {
    /// Odd while `start` and `len` are being written: the two are valid only together.
    epoch: AtomicUsize,
    /// Address of the map; 0 while the slot is free.
    start: AtomicUsize,
    len: AtomicUsize,
    tripped: AtomicBool,
}

impl Slot {
    const fn vacant() -> Self {
        Self {
            epoch: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            tripped: AtomicBool::new(false),
        }
    }

    /// Takes the slot for a map, if it is free.
    fn take(&self, start: usize, len: usize) -> bool {
        let epoch = self.epoch.load(Ordering::Acquire);
        // While the epoch is odd, another thread takes or frees the slot.
        let is_free = epoch.is_multiple_of(2) && self.start.load(Ordering::Acquire) == 0;
        if !is_free || self.epoch.compare_exchange(epoch, epoch + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.tripped.store(false, Ordering::Relaxed);
        self.write(epoch + 1, start, len);
        true
    }

    /// Frees the slot before its map is unmapped, so that no two slots have the same address.
    fn free(&self) {
        let epoch = self.epoch.load(Ordering::Relaxed) + 1;
        self.epoch.store(epoch, Ordering::Relaxed);
        self.write(epoch, 0, 0);
    }

    /// Called only by the thread that has made the epoch odd.
    fn write(&self, odd: usize, start: usize, len: usize) {
        fence(Ordering::Release);
        self.start.store(start, Ordering::Release);
        self.len.store(len, Ordering::Release);
        self.epoch.store(odd + 1, Ordering::Release);
    }

    /// Start and length of the watched map. `None` while they change, which never happens to a map that is being read.
    fn read(&self) -> Option<(usize, usize)> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let (start, len) = (self.start.load(Ordering::Acquire), self.len.load(Ordering::Acquire));
        fence(Ordering::Acquire);
        (epoch.is_multiple_of(2) && start != 0 && epoch == self.epoch.load(Ordering::Relaxed)).then_some((start, len))
    }
}

static WATCHED: [Slot; SLOTS] = [const { Slot::vacant() }; SLOTS];

/// The handler of SIGBUS before [`handle_sigbus`], and its flags.
static BEFORE: [AtomicUsize; 2] = [AtomicUsize::new(libc::SIG_DFL), AtomicUsize::new(0)];

/// The error for a file that became shorter while it was read.
pub(crate) fn shrank(path: &Path) -> Error {
    let reason = "the file shrank, or the disk failed, while it was being read";
    Error::io("read", path)(std::io::Error::other(reason))
}

pub(crate) struct Mapped {
    map: Mmap,
    slot: &'static Slot,
    path: PathBuf,
}

impl Mapped {
    /// Maps the first `len` bytes of `file`. `None` if nothing handles SIGBUS, too many maps are watched, or the system
    /// does not map this file.
    pub fn new(file: &File, len: usize, path: &Path) -> Option<Self> {
        if !IS_HANDLED.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the bytes may change under us if another process writes to the file. They are only ever read as bytes,
        // every length found in them is checked against the map each time it is used, and a vanished page is handled below.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file) }.ok()?;
        let slot = WATCHED.iter().find(|slot| slot.take(map.as_ptr() as usize, map.len()))?;
        Some(Self { map, slot, path: path.to_owned() })
    }

    /// Checks that all bytes read so far came from the file.
    pub fn check(&self) -> Result<()> {
        if !self.slot.tripped.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(shrank(&self.path))
    }

    /// Advises the system in which order the file will be read.
    pub fn advise(&self, advice: memmap2::Advice) {
        // Without the advice, reads are slower.
        let _ = self.map.advise(advice);
    }

    /// Maps the pages of `len` bytes at `at`, which is cheaper than a fault for every few of them.
    pub fn populate(&self, at: usize, len: usize) {
        // Without the advice, page faults do it.
        let _ = self.map.advise_range(memmap2::Advice::PopulateRead, at, len);
    }

    /// Releases `len` bytes at `at`, with the large pages that contain them, from the memory of this process. They stay in
    /// the page cache and can be read.
    pub fn release(&self, at: usize, len: usize) {
        // Another thread may use the rest of these pages; a second fault costs little.
        let (from, end) = (at / LARGE * LARGE, at.saturating_add(len).next_multiple_of(LARGE).min(self.map.len()));
        let Some(bytes) = self.map.get(from..end) else { return };
        let (from, end) = (bytes.as_ptr() as usize, bytes.as_ptr() as usize + bytes.len());
        // SAFETY: the range lies inside of our map, which is shared and only read: dropped pages come back from the
        // file. Advice only: without it the pages stay resident until the map is dropped.
        unsafe { libc::madvise(from as *mut libc::c_void, end - from, libc::MADV_DONTNEED) };
    }
}

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.slot.free();
    }
}

static HANDLED: Once = Once::new();
static IS_HANDLED: AtomicBool = AtomicBool::new(false);

/// Installs a handler of SIGBUS for this process, so that plain files are mapped instead of read, which avoids copies.
/// Truncation of a mapped file becomes an error. Any other SIGBUS goes to the previous handler.
///
/// Call it before an import. It cannot be undone.
pub fn handle_sigbus() {
    HANDLED.call_once(|| {
        // SAFETY: both structures are plain data; the handler only uses atomics and system calls that are allowed in a
        // signal handler.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigemptyset(&raw mut action.sa_mask);
            if libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) == 0 {
                BEFORE[0].store(before.sa_sigaction, Ordering::Release);
                BEFORE[1].store(before.sa_flags as usize, Ordering::Release);
                IS_HANDLED.store(true, Ordering::Release);
            }
        }
    });
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    for slot in &WATCHED {
        let Some((start, len)) = slot.read() else { continue };
        if address < start || address - start >= len {
            continue;
        }
        // Set before the empty pages are mapped: another thread may read them at once, and must see it in `check`.
        slot.tripped.store(true, Ordering::SeqCst);
        // SAFETY: replaces our own read-only map, which starts at a page and which the thread that this handler
        // interrupted borrows; no code relies on its bytes. The system rounds the length up to a page.
        let put = unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if put != libc::MAP_FAILED {
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Passes a SIGBUS outside of our maps to the previous handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let handler = BEFORE[0].load(Ordering::Acquire);
    let flags = BEFORE[1].load(Ordering::Acquire) as libc::c_int;
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: plain system call; returning repeats the access, which then ends the program as it would have.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    // SAFETY: the address came from sigaction as the handler in force, of the kind its flags say.
    unsafe {
        if flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn truncated_mapped_file_is_an_error() {
        handle_sigbus();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[7; 3 * 4096]).expect("written");
        let map = Mapped::new(file.as_file(), 3 * 4096, file.path()).expect("mapped");
        assert_eq!(map[2 * 4096], 7);
        map.check().expect("whole so far");
        file.as_file().set_len(4096).expect("cut");
        assert_eq!((map[0], map[2 * 4096]), (7, 0));
        let error = map.check().expect_err("cut");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert_eq!(cause, "the file shrank, or the disk failed, while it was being read");
    }

    #[test]
    fn truncated_map_of_many_pages_is_readable() {
        handle_sigbus();
        let page = rustix::param::page_size();
        // One map for every other page would be 76,800.
        let len = 2 * 76_800 * page;
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(len as u64).expect("a sparse file");
        let map = Mapped::new(file.as_file(), len, file.path()).expect("mapped");
        file.as_file().set_len(0).expect("cut");
        let odd = (0..len / page).filter(|number| number % 2 == 1);
        let even = (0..len / page).filter(|number| number % 2 == 0);
        for number in odd.chain(even.rev()) {
            assert_eq!(map[number * page], 0);
        }
        map.check().expect_err("cut");
    }

    #[test]
    fn slot_never_mixes_start_and_length() {
        let slot = Slot::vacant();
        let is_over = AtomicBool::new(false);
        let torn = std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0.. {
                    let start = 1 + round % 7;
                    assert!(slot.take(start, start * 1000));
                    slot.free();
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let (mut last, mut changes) = (0, 0);
            let mut torn = None;
            while changes < 500 && torn.is_none() {
                let Some((start, len)) = slot.read() else { continue };
                torn = (len != start * 1000).then_some((start, len));
                changes += u32::from(start != last);
                last = start;
            }
            is_over.store(true, Ordering::Relaxed);
            torn
        });
        assert_eq!(torn, None);
    }

    #[test]
    fn slot_is_freed_with_its_map() {
        handle_sigbus();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[1; 10]).expect("written");
        for _ in 0..SLOTS * 4 {
            assert_eq!(Mapped::new(file.as_file(), 10, file.path()).expect("a slot").len(), 10);
        }
    }
}
