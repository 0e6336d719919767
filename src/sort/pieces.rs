//! Buffers in which workers collect sections, and which they append to partition files in large pieces.

use std::collections::VecDeque;

use crossbeam_channel::Receiver;

use crate::error::{Error, Result};
use crate::hash::{Content, ContentDigest};
use crate::os::direct;
use crate::sort::{IN_FLIGHT, SourceMark, Spill, add_mark, no_partition};

/// The sections that one worker has not yet appended, by partition.
pub(crate) struct PartitionBuffers {
    pieces: Vec<Piece>,
    limit: usize,
    source: u32,
    in_flight: InFlight,
}

/// The memory of a written piece, or the reason for the failure.
type Written = Result<Vec<u8>>;

/// Pieces that I/O threads are writing, the oldest first.
#[derive(Default)]
struct InFlight(VecDeque<Receiver<Written>>);

impl InFlight {
    /// Waits for the oldest piece and returns its memory, or an empty buffer if no piece is in flight.
    fn next(&mut self) -> Written {
        let lost = || Err(Error::broken_invariant("the thread that writes a partition has ended"));
        self.0.pop_front().map_or_else(|| Ok(Vec::new()), |written| written.recv().unwrap_or_else(|_| lost()))
    }

    fn wait(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        while !self.0.is_empty() {
            outcome = outcome.and(self.next().map(drop));
        }
        outcome
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // No write may be in flight when the caller continues or removes the files. The caller's own error takes
        // precedence.
        let _ = self.wait();
    }
}

#[derive(Default)]
struct Piece {
    /// The first `skipped` bytes are alignment padding for pieces that bypass the page cache.
    bytes: Vec<u8>,
    skipped: usize,
    content: Content,
    marks: Vec<SourceMark>,
}

impl Piece {
    fn sections(&self) -> &[u8] {
        self.bytes.get(self.skipped..).unwrap_or_default()
    }

    /// Allocates `limit` bytes if the piece has no memory.
    fn reserve(&mut self, limit: usize, spill: &Spill) {
        if self.bytes.capacity() > 0 {
            return;
        }
        let blocks = if spill.is_direct() { 2 * direct::BLOCK } else { 0 };
        self.bytes.reserve_exact(limit.saturating_add(blocks));
        self.skipped = if spill.is_direct() { direct::until_block(self.bytes.as_ptr()) } else { 0 };
        self.bytes.resize(self.skipped, 0);
    }

    fn append(&mut self, spill: &Spill, partition: u32, in_flight: &mut InFlight) -> Result<()> {
        let (len, content) = (self.sections().len(), std::mem::take(&mut self.content));
        let slot = spill.reserve(partition, len as u64, content, &self.marks)?;
        if let Some(threads) = &spill.direct {
            self.bytes.resize(self.skipped + direct::whole_blocks(len as u64) as usize, 0);
            let spare = if in_flight.0.len() < IN_FLIGHT { Vec::new() } else { in_flight.next()? };
            let (bytes, skipped) = (std::mem::replace(&mut self.bytes, spare), self.skipped);
            self.skipped = direct::until_block(self.bytes.as_ptr()).min(self.bytes.len());
            in_flight.0.push_back(threads.run(move || {
                slot.write(bytes.get(skipped..).unwrap_or_default())?;
                Ok(bytes)
            }));
        } else {
            slot.write(self.sections())?;
        }
        self.bytes.truncate(self.skipped);
        self.marks.clear();
        Ok(())
    }
}

impl PartitionBuffers {
    /// Creates buffers for pieces of `limit` bytes.
    pub fn new(partitions: u32, limit: usize) -> Self {
        let pieces = (0..partitions).map(|_| Piece::default()).collect();
        Self { pieces, limit, source: 0, in_flight: InFlight::default() }
    }

    pub fn set_source(&mut self, source: u32) {
        self.source = source;
    }

    /// Adds one section whose record has `digest`. Appends the piece of the partition first if it is full.
    pub fn add(&mut self, spill: &Spill, partition: u32, section: &[u8], digest: ContentDigest) -> Result<()> {
        let Some(piece) = self.pieces.get_mut(partition as usize) else { return Err(no_partition(partition)) };
        if piece.sections().len() + section.len() > self.limit && !piece.sections().is_empty() {
            piece.append(spill, partition, &mut self.in_flight)?;
        }
        let one = Content { records: 1, digest };
        if section.len() >= self.limit {
            return spill.append(partition, section, one, &[SourceMark { at: 0, source: self.source }]);
        }
        piece.reserve(self.limit, spill);
        let at = piece.sections().len() as u64;
        add_mark(&mut piece.marks, at, self.source);
        piece.bytes.extend_from_slice(section);
        piece.content.merge(one);
        Ok(())
    }

    /// Appends all remaining pieces and waits until they are written.
    pub fn flush(&mut self, spill: &Spill) -> Result<()> {
        for (partition, piece) in (0..).zip(&mut self.pieces) {
            if !piece.sections().is_empty() {
                piece.append(spill, partition, &mut self.in_flight)?;
            }
        }
        self.in_flight.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sort::PartitionExtent;

    /// Returns bytes with their length and `index` at the start; partitions do not look at the contents.
    fn piece(worker: u8, index: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![worker; len.max(12)];
        bytes[..8].copy_from_slice(&u64::from(len.max(12) as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&index.to_le_bytes());
        bytes
    }

    /// Reads the pieces of a partition as (worker, index, length).
    fn read_back(spill: &Spill, partition: u32) -> Vec<(u8, u32, usize)> {
        crate::handle_sigbus();
        let buffer = spill.read_all(partition, None).expect("readable");
        let mut rest = &buffer[..];
        let mut found = Vec::new();
        while let Some((head, _)) = after_padding(buffer.len(), &mut rest) {
            let len = u64::from_le_bytes(*head.first_chunk().expect("8 of 12")) as usize;
            let index = u32::from_le_bytes(*head.last_chunk().expect("4 of 12"));
            let worker = rest.get(12).copied().unwrap_or(u8::MAX);
            assert!(rest[12..len].iter().all(|&byte| byte == worker), "pieces are mixed");
            found.push((worker, index, len));
            rest = &rest[len..];
        }
        found
    }

    /// Skips padding and returns the next piece of a partition of `len` bytes.
    fn after_padding<'b>(len: usize, rest: &mut &'b [u8]) -> Option<(&'b [u8; 12], &'b [u8])> {
        if !rest.is_empty() && rest.iter().take(8).all(|&byte| byte == 0) {
            let at = len - rest.len();
            *rest = &rest[at.next_multiple_of(direct::BLOCK) - at..];
        }
        rest.split_first_chunk::<12>()
    }

    #[test]
    fn panicking_write_is_an_error() {
        let threads = crate::parallel::IoThreads::start(1).expect("a thread");
        let mut in_flight = InFlight::default();
        for _ in 0..2 {
            // The second job is never run: its thread is gone.
            in_flight.0.push_back(threads.run(|| panic!("a write fails")));
        }
        let error = in_flight.wait().expect_err("nothing was written");
        assert!(error.to_string().contains("the thread that writes a partition has ended"), "{error}");
        drop(in_flight);
    }

    #[test]
    fn unknown_partition_is_an_error() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = Spill::new(dir.path().to_owned(), 1);
        let mut pieces = PartitionBuffers::new(1, 10);
        let error = pieces.add(&spill, 1, b"section", ContentDigest::default()).expect_err("there is one partition");
        assert!(error.to_string().contains("partition 1 does not exist"), "{error}");
    }

    #[test]
    fn failed_write_names_the_partition() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("00000.part");
        let spill = Spill::new(dir.path().to_owned(), 1).with_page_cache(false, 1 << 20, 1).expect("threads");
        spill.set_file(0, std::fs::File::create(&path).and_then(|_| std::fs::File::open(&path)).expect("made"));
        let mut pieces = PartitionBuffers::new(1, 1000);
        pieces.add(&spill, 0, b"something", ContentDigest::default()).expect("memory");
        let error = pieces.flush(&spill).expect_err("it is open for reading only");
        assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
    }

    #[test]
    fn sections_of_several_workers_are_kept() {
        for cached in [true, false] {
            several_workers_add(cached);
        }
    }

    fn several_workers_add(cached: bool) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let spill = Spill::new(dir.path().to_owned(), 3).with_page_cache(cached, 1 << 20, 4).expect("threads");
        std::thread::scope(|scope| {
            for worker in 0..4u8 {
                let spill = &spill;
                scope.spawn(move || {
                    let mut pieces = PartitionBuffers::new(3, 4096);
                    for index in 0..1000u32 {
                        // Some are longer than a piece.
                        let len = 20 + (index as usize * 37) % 300 + if index % 50 == 0 { 5000 } else { 0 };
                        let piece = piece(worker, index, len);
                        let digest = ContentDigest::of_section(&piece, 12);
                        pieces.add(spill, index % 2, &piece, digest).expect("room");
                    }
                    pieces.flush(spill).expect("room");
                });
            }
        });
        for partition in 0..2 {
            let mut found = read_back(&spill, partition);
            found.sort_unstable();
            let expected: Vec<_> = (0..4u8)
                .flat_map(|worker| (0..1000u32).filter(|i| i % 2 == partition).map(move |index| (worker, index)))
                .collect();
            assert_eq!(found.iter().map(|(worker, index, _)| (*worker, *index)).collect::<Vec<_>>(), expected);
            let mut content = Content::default();
            let buffer = spill.read_all(partition, None).expect("readable");
            let mut rest = &buffer[..];
            while let Some((head, _)) = after_padding(buffer.len(), &mut rest) {
                let len = u64::from_le_bytes(*head.first_chunk().expect("8 of 12")) as usize;
                content.add(ContentDigest::of_section(&rest[..len], 12));
                rest = &rest[len..];
            }
            assert_eq!((content.records, spill.extent(partition).content()), (2000, content));
        }
        assert_eq!(spill.extent(2), PartitionExtent::default());
        assert!(!dir.path().join("00002.part").exists(), "a partition without blocks has no file");
    }
}
