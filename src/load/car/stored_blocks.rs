//! Blocks before their partitions are built: in the chunks of mapped files, copied to pieces of memory, or spilled.

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::hash::{Content, ContentDigest};
use crate::load::car::blocks::Block;
use crate::os::buffer::{Buffer, Slab};
use crate::sort::{
    BlockArena, KeyLayout, Route, Router, SortEntry, SourceMark, Spill, Unsorted, add_mark, no_partition,
};
use crate::source::car::{Chunk, ChunkBytes};

/// The least bytes of a piece that blocks are copied to, a page; and the most full pieces that the memory is divided into. Each
/// may be a map of its own, of which Linux gives a process 65,530 (`vm.max_map_count`).
const LEAST_PIECE: u64 = 4 << 10;
const MOST_PIECES: u64 = 1 << 15;

/// The blocks of all workers.
pub(super) enum StoredBlocks {
    Memory {
        /// Chunks of mapped files, which all partitions share.
        arena: BlockArena,
        /// For each partition, its blocks if they were copied. Their memory is freed when the partition is built.
        copies: Vec<Mutex<Option<BlockArena>>>,
        /// For each partition, the entries of each worker.
        entries: Vec<Unsorted>,
        /// For each partition, the verified records.
        contents: Vec<Content>,
    },
    Spilled(Spill),
}

impl StoredBlocks {
    /// Joins the blocks of the workers, but for partitions that are not wanted.
    pub fn of_workers(
        workers: impl IntoIterator<Item = WorkerBlocks>,
        router: &Router,
        layout: KeyLayout,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Self {
        let partitions = router.partitions();
        let mut arena = BlockArena::new(layout);
        let mut entries: Vec<Unsorted> = (0..partitions).map(|_| Unsorted::default()).collect();
        let mut copies: Vec<Option<BlockArena>> = (0..partitions).map(|_| None).collect();
        let mut contents = vec![Content::default(); partitions as usize];
        for worker in workers {
            contents.iter_mut().zip(&worker.contents).for_each(|(all, mine)| all.merge(*mine));
            for Chunk { index, source, bytes, .. } in worker.chunks {
                arena.insert(index, bytes, vec![SourceMark { at: 0, source }]);
            }
            let (workers, number) = (worker.workers, worker.number);
            let found = worker.entries.into_iter().zip(worker.copies);
            let partitions = (0u32..).zip(entries.iter_mut().zip(&mut copies)).zip(found);
            for ((_, (entries, copies)), (found, pieces)) in partitions.filter(|((index, _), _)| is_wanted(*index)) {
                entries.add(found);
                for (piece, nth) in pieces.into_iter().zip(0u32..) {
                    let (bytes, marks) = piece.into_bytes();
                    copies.get_or_insert_with(|| BlockArena::new(layout)).insert(nth * workers + number, bytes, marks);
                }
            }
        }
        Self::Memory { arena, copies: copies.into_iter().map(Mutex::new).collect(), entries, contents }
    }
}

/// Blocks of one partition, copied out of the chunks that they came in.
struct CopiedBlocks {
    buffer: Buffer,
    len: usize,
    marks: Vec<SourceMark>,
}

impl CopiedBlocks {
    fn free(&self) -> usize {
        self.buffer.len() - self.len
    }

    fn into_bytes(self) -> (ChunkBytes, Vec<SourceMark>) {
        let Self { buffer, len, marks } = self;
        (ChunkBytes::Read { buffer, len }, marks)
    }
}

/// The blocks in memory of one worker.
pub(super) struct WorkerBlocks {
    entries: Vec<Vec<SortEntry>>,
    /// For each partition, the verified records.
    contents: Vec<Content>,
    chunks: Vec<Chunk>,
    /// For each partition, the pieces that its blocks are copied to.
    copies: Vec<Vec<CopiedBlocks>>,
    /// Pieces are cut from this.
    slab: Slab,
    /// Bytes that stay free in pieces before the last, since they were taken into account. They are part of the budget like the
    /// blocks; the last piece of each partition has its own share of the plan.
    pub unused: usize,
    /// The bytes of a piece, if blocks are copied.
    piece_size: Option<usize>,
    number: u32,
    workers: u32,
}

impl WorkerBlocks {
    pub fn new(partitions: u32, (number, workers): (u32, u32), piece_size: Option<usize>) -> Self {
        Self {
            entries: (0..partitions).map(|_| Vec::new()).collect(),
            contents: vec![Content::default(); partitions as usize],
            chunks: Vec::new(),
            copies: (0..partitions).map(|_| Vec::new()).collect(),
            slab: Slab::default(),
            unused: 0,
            piece_size,
            number,
            workers,
        }
    }

    /// Bytes of a piece of `memory`, no less than those of a piece for the disk.
    pub fn piece_size(memory: u64, for_disk: u64) -> usize {
        for_disk.max(LEAST_PIECE).max(memory / MOST_PIECES) as usize
    }

    /// Adds a block with the digest of its record, and copies it if it cannot stay in its chunk.
    pub fn add(&mut self, route: Route, chunk: &Chunk, block: &Block<'_>, digest: ContentDigest) -> Result<()> {
        let (index, start) = match self.piece_size {
            Some(piece_size) => self.copy(route.partition, piece_size, chunk.source, block.whole())?,
            None => (chunk.index, block.section.start as u32),
        };
        let partition = route.partition as usize;
        let (Some(entries), Some(content)) = (self.entries.get_mut(partition), self.contents.get_mut(partition)) else {
            return Err(no_partition(route.partition));
        };
        entries.push(SortEntry::new(route.prefix, index, start));
        content.add(digest);
        Ok(())
    }

    /// Copies a section into the last of a partition's pieces, or into a new one of `piece_size` bytes if it does not fit. Then
    /// the free bytes of the last one are added to `unused`. Returns the index of the piece, and the section's place in it.
    fn copy(&mut self, partition: u32, piece_size: usize, source: u32, section: &[u8]) -> Result<(u32, u32)> {
        let Some(pieces) = self.copies.get_mut(partition as usize) else { return Err(no_partition(partition)) };
        if pieces.last().is_none_or(|piece| piece.free() < section.len()) {
            self.unused += pieces.last().map_or(0, CopiedBlocks::free);
            let len = piece_size.max(section.len()).next_multiple_of(LEAST_PIECE as usize);
            // Many partitions of a short source have little more than their first piece.
            let buffer = if pieces.is_empty() { Buffer::new(len)? } else { self.slab.cut(len)? };
            pieces.push(CopiedBlocks { buffer, len: 0, marks: Vec::new() });
        }
        let nth = pieces.len() as u32 - 1;
        let no_room = || Error::broken_invariant("a piece of memory has no room for its section");
        let Some(CopiedBlocks { buffer, len, marks }) = pieces.last_mut() else { return Err(no_room()) };
        let at = *len;
        buffer.get_mut(at..at + section.len()).ok_or_else(no_room)?.copy_from_slice(section);
        *len += section.len();
        add_mark(marks, at as u64, source);
        Ok((nth * self.workers + self.number, at as u32))
    }

    pub fn keep(&mut self, chunk: Chunk) {
        self.chunks.push(Chunk { starts: Vec::new(), ..chunk });
    }

    pub fn content(&self) -> Content {
        self.contents.iter().copied().sum()
    }

    /// Takes the verified records and their sections, with the marks of their sources.
    pub fn take(&mut self) -> (Content, impl Iterator<Item = (ChunkBytes, Vec<SourceMark>)> + use<>) {
        let content = self.content();
        let none = Self::new(0, (self.number, self.workers), self.piece_size);
        let Self { chunks, copies, .. } = std::mem::replace(self, none);
        let chunks = chunks.into_iter().map(|held| (held.bytes, vec![SourceMark { at: 0, source: held.source }]));
        (content, chunks.chain(copies.into_iter().flatten().map(CopiedBlocks::into_bytes)))
    }
}
