//! Large buffers of anonymous memory, in huge pages if the system has them. Reads in key order jump through all data,
//! and with small pages every jump would miss the TLB.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Error, Result};

/// A huge page, in bytes. Buffers of this size or more use huge pages.
const HUGE: usize = 2 << 20;

/// Bytes that a [`Slab`] reserves at once.
const REGION: usize = 8 << 20;

/// Choices after which a [`Slab`] tries the other kind of pages again.
const TRY_AGAIN: u32 = 128;

/// Grows `buffer` to at least `len` bytes, without its content. The system provides zeroed pages on first use.
pub fn make_room(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        *buffer = vec![0; len];
    }
}

/// Zeroed memory outside of the heap.
pub struct Buffer {
    /// Begins and ends with a page.
    start: NonNull<u8>,
    mapped: usize,
    len: usize,
}

// SAFETY: a buffer owns its memory, which nothing else refers to.
unsafe impl Send for Buffer {}
// SAFETY: as above; it is changed through `&mut` only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Reserves `len` bytes; the system provides pages on first write.
    pub fn new(len: usize) -> Result<Self> {
        let buffer = Self::reserve(len)?;
        if len >= HUGE {
            buffer.advise(0, buffer.mapped, Advice::LinuxHugepage);
        }
        Ok(buffer)
    }

    fn reserve(len: usize) -> Result<Self> {
        let failed = Error::io("reserve memory for", Path::new("a buffer"));
        let mapped = match len.max(1).checked_next_multiple_of(rustix::param::page_size()) {
            Some(mapped) => mapped,
            None => return Err(failed(std::io::ErrorKind::OutOfMemory.into())),
        };
        // SAFETY: a new map at a place that the system chooses.
        let map =
            unsafe { mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        match map.map(|start| NonNull::new(start.cast())) {
            Ok(Some(start)) => Ok(Self { start, mapped, len }),
            Ok(None) => Err(failed(std::io::ErrorKind::OutOfMemory.into())),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Splits off everything from `at` on, a multiple of the size of a page.
    fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.mapped && at.is_multiple_of(rustix::param::page_size()), "no page begins there");
        // SAFETY: the end of the map at most.
        let start = unsafe { self.start.add(at) };
        let rest = Self { start, mapped: self.mapped - at, len: self.len.saturating_sub(at) };
        (self.mapped, self.len) = (at, self.len.min(at));
        rest
    }

    /// Gives advice to the system. Errors are ignored.
    fn advise(&self, at: usize, len: usize, advice: Advice) {
        assert!(at <= self.mapped && len <= self.mapped - at, "advice for other memory");
        // SAFETY: the range lies inside of our map, and no advice that is given changes what it holds.
        let _ = unsafe { madvise(self.start.add(at).as_ptr().cast(), len, advice) };
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of our map, which was zeroed when it was made.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nothing else refers to it.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.mapped > 0 {
            // SAFETY: our own map, or the part of one that this buffer has; nothing refers to it any more.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
        }
    }
}

/// Memory that is cut into buffers. It requests many pages at a time, of the kind that costs less. Huge pages mostly
/// cost a sixth of small ones, but seven times as much in a virtual machine that has returned its free memory to the
/// host.
#[derive(Default)]
pub struct Slab {
    rest: Option<Buffer>,
    /// Bytes at the front of `rest` that have pages.
    ready: usize,
    choice: Choice,
}

impl Slab {
    /// A buffer of `len` bytes with pages.
    pub fn cut(&mut self, len: usize) -> Result<Buffer> {
        let page = rustix::param::page_size();
        let mapped = len.max(1).checked_next_multiple_of(page).unwrap_or(usize::MAX);
        let mut buffer = match self.rest.take().filter(|rest| rest.mapped >= mapped) {
            Some(rest) => rest,
            None => {
                self.ready = 0;
                region(mapped)?
            }
        };
        while self.ready < mapped {
            self.ready += self.choice.populate(&buffer, self.ready);
        }
        let rest = buffer.split_off(mapped);
        buffer.len = len;
        self.ready -= mapped;
        self.rest = Some(rest);
        Ok(buffer)
    }
}

/// Reserves at least `len` bytes that begin with a huge page.
fn region(len: usize) -> Result<Buffer> {
    let len = len.max(REGION).checked_next_multiple_of(HUGE).unwrap_or(usize::MAX);
    let mut all = Buffer::reserve(len.saturating_add(HUGE))?;
    let before = all.start.align_offset(HUGE).min(HUGE);
    let mut region = all.split_off(before);
    region.split_off(len);
    Ok(region)
}

#[derive(Default)]
struct Choice {
    /// Times for the last small and huge pages.
    costs: [Option<Duration>; 2],
    chosen: u32,
}

impl Choice {
    /// Chooses the next kind of pages; true for huge.
    fn next(&mut self) -> bool {
        self.chosen = self.chosen.wrapping_add(1);
        match self.costs {
            [Some(small), Some(huge)] => (huge < small) != self.chosen.is_multiple_of(TRY_AGAIN),
            [_, huge] => huge.is_none(),
        }
    }

    /// Requests the pages from `at` to the next huge page and returns their bytes.
    fn populate(&mut self, buffer: &Buffer, at: usize) -> usize {
        let len = HUGE.min(buffer.mapped - at);
        let huge = self.next();
        let before = clock_gettime(ClockId::ThreadCPUTime);
        buffer.advise(at, len, if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage });
        buffer.advise(at, len, Advice::LinuxPopulateWrite);
        let after = clock_gettime(ClockId::ThreadCPUTime);
        // The clock is the processor time of this thread.
        self.costs[usize::from(huge)] = Duration::try_from(after - before).ok();
        len
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes at which `buffer` lies, and those of its pages.
    fn place(buffer: &Buffer) -> (usize, usize) {
        (buffer.start.as_ptr() as usize, buffer.mapped)
    }

    fn micros(micros: u64) -> Option<Duration> {
        Some(Duration::from_micros(micros))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn slab_buffers_are_zeroed_and_disjoint(
            lens in prop::collection::vec(prop_oneof![0..10_000_usize, Just(512 << 10), 1..REGION / 2], 1..20),
            dropped in prop::collection::vec(any::<bool>(), 20),
        ) {
            let mut slab = Slab::default();
            let mut kept: Vec<(u8, Buffer)> = Vec::new();
            for ((number, len), dropped) in (1u8..).zip(lens).zip(dropped) {
                let mut buffer = slab.cut(len).expect("memory");
                prop_assert_eq!(buffer.len(), len);
                prop_assert!(buffer.iter().all(|byte| *byte == 0));
                buffer.fill(number);
                let (start, mapped) = place(&buffer);
                prop_assert!(mapped >= len && start.is_multiple_of(rustix::param::page_size()));
                for (_, other) in &kept {
                    let (at, of) = place(other);
                    prop_assert!(start + mapped <= at || at + of <= start, "two buffers share bytes");
                }
                if !dropped {
                    kept.push((number, buffer));
                }
            }
            for (number, buffer) in &kept {
                prop_assert!(buffer.iter().all(|byte| byte == number));
            }
        }
    }

    #[test]
    fn slab_populates_few_unused_pages() {
        let mut slab = Slab::default();
        let mut whole = 0;
        for _ in 0..100 {
            whole += slab.cut(300 << 10).expect("memory").mapped;
            let rest = slab.rest.as_ref().expect("a region");
            assert!(slab.ready < HUGE && slab.ready <= rest.mapped, "{} of {}", slab.ready, rest.mapped);
            assert!((place(rest).0 + slab.ready).is_multiple_of(HUGE), "huge pages begin where they can");
        }
        assert_eq!(whole, 100 * (300 << 10));
    }

    #[test]
    fn excessive_length_is_an_error() {
        let mut slab = Slab::default();
        for len in [usize::MAX, usize::MAX / 2, 1 << 60] {
            assert!(Buffer::new(len).is_err(), "{len}");
            assert!(slab.cut(len).is_err(), "{len}");
        }
        assert_eq!(slab.cut(10).expect("memory").len(), 10);
    }

    #[test]
    fn cheaper_pages_are_chosen_and_rechecked() {
        let mut choice = Choice::default();
        assert!(choice.next(), "huge ones first");
        choice.costs[1] = micros(100);
        assert!(!choice.next(), "then small ones");
        choice.costs[0] = micros(600);
        let chosen = |choice: &mut Choice| (0..TRY_AGAIN).filter(|_| choice.next()).count() as u32;
        assert_eq!(chosen(&mut choice), TRY_AGAIN - 1);
        choice.costs[1] = micros(4700);
        assert_eq!(chosen(&mut choice), 1, "of a host that has to give them first");
        choice.costs[1] = micros(100);
        assert_eq!(chosen(&mut choice), TRY_AGAIN - 1, "once it has");
    }
}
