//! A file in memory as the page cache has it: nothing is copied, no page is cleared.
//!
//! Touching a mapped page that the file no longer has (somebody cut it), or that the disk cannot deliver, raises
//! SIGBUS, which would end the program without a word. So a handler is installed once: for an address inside one of
//! our maps it puts an empty page there and notes the fault, and whoever reads asks [`Mapped::check`] before believing
//! what was read. Any other SIGBUS goes on to whoever had it before.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memmap2::Mmap;

use crate::error::{Error, Result};

/// How many maps can be watched at once; one more is refused, and its file is read instead.
const SLOTS: usize = 256;

/// One watched map. Only atomics: the handler may run between any two instructions.
struct Slot {
    /// Address of the map; 0 while the slot is free.
    start: AtomicUsize,
    len: AtomicUsize,
    tripped: AtomicBool,
}

static WATCHED: [Slot; SLOTS] =
    [const { Slot { start: AtomicUsize::new(0), len: AtomicUsize::new(0), tripped: AtomicBool::new(false) } }; SLOTS];

/// What SIGBUS did before us.
static BEFORE: [AtomicUsize; 2] = [AtomicUsize::new(libc::SIG_DFL), AtomicUsize::new(0)];

/// What a file says that is shorter than it was a moment ago.
pub(crate) fn shrank(path: &Path) -> Error {
    let reason = "the file shrank, or the disk failed, while it was being read";
    Error::io("read", path)(std::io::Error::other(reason))
}

/// A file, mapped for reading.
pub(crate) struct Mapped {
    map: Mmap,
    slot: &'static Slot,
    path: PathBuf,
}

impl Mapped {
    /// Maps the first `len` bytes of `file`; `path` is for messages. `None` when too many maps are watched already, or
    /// the system does not map this file.
    pub fn new(file: &File, len: usize, path: &Path) -> Option<Self> {
        install();
        // SAFETY: the bytes may change under us if somebody writes to the file. They are only ever read as bytes, every
        // length found in them is checked against the map each time it is used, and a vanished page is handled below.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file) }.ok()?;
        let start = map.as_ptr() as usize;
        let slot = WATCHED
            .iter()
            .find(|slot| slot.start.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed).is_ok())?;
        slot.tripped.store(false, Ordering::Release);
        slot.len.store(map.len(), Ordering::Release);
        Some(Self { map, slot, path: path.to_owned() })
    }

    /// Whether everything read so far was really there.
    ///
    /// # Errors
    /// A page could not be had: the file was cut, or the disk failed.
    pub fn check(&self) -> Result<()> {
        if !self.slot.tripped.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(shrank(&self.path))
    }

    /// Tells the system in which order the file will be read.
    pub fn advise(&self, advice: memmap2::Advice) {
        // Advice only: it works as well without.
        let _ = self.map.advise(advice);
    }

    /// Lets go of the memory of `len` bytes at `at`: they stay in the page cache, but no longer count as ours. They can
    /// still be read.
    pub fn release(&self, at: usize, len: usize) {
        // Pages at the edges may be in somebody else's hands; asking again for one costs little.
        let Some(bytes) = self.map.get(at..at.saturating_add(len)) else { return };
        let page = rustix::param::page_size();
        let from = bytes.as_ptr() as usize / page * page;
        let end = bytes.as_ptr() as usize + bytes.len();
        // SAFETY: the range lies inside of our map, which is shared and only read: dropped pages come back from the
        // file. Advice only: without it the pages stay ours until the map goes.
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
        self.slot.len.store(0, Ordering::Release);
        self.slot.start.store(0, Ordering::Release);
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
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
            }
        }
    });
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    for slot in &WATCHED {
        let start = slot.start.load(Ordering::Acquire);
        let len = slot.len.load(Ordering::Acquire);
        if start == 0 || address < start || address - start >= len {
            continue;
        }
        let page = 4096;
        // SAFETY: replaces one page of our own read-only map by an empty one; nothing holds a promise about its bytes.
        let put = unsafe {
            libc::mmap(
                (address & !(page - 1)) as *mut libc::c_void,
                page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if put != libc::MAP_FAILED {
            slot.tripped.store(true, Ordering::Release);
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Not ours: as if this handler did not exist.
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
    fn a_file_that_is_cut_under_the_map_is_an_error_and_no_signal() {
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
    fn a_slot_is_free_again_when_its_map_goes() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[1; 10]).expect("written");
        for _ in 0..SLOTS * 4 {
            assert_eq!(Mapped::new(file.as_file(), 10, file.path()).expect("a slot").len(), 10);
        }
    }
}
