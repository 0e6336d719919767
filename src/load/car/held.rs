//! Blocks in memory until their partitions are built: in the chunks of mapped files, or copied to pieces of their partition.

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::load::car::blocks::Block;
use crate::os::buffer::{Buffer, Slab};
use crate::sort::entries::{BlockArena, Entry, Unsorted};
use crate::sort::key::KeyLayout;
use crate::sort::marks::{Mark, add_mark};
use crate::sort::router::{Route, Router};
use crate::sort::spill::{Spill, no_partition};
use crate::source::car::chunk::{Chunk, ChunkBytes};

/// The least bytes of a piece that blocks are copied to, a page, and the most full ones that the memory is divided into: each
/// may be a map of its own, of which Linux gives a process 65,530 (`vm.max_map_count`).
const LEAST_PIECE: u64 = 4 << 10;
const MOST_PIECES: u64 = 1 << 15;

/// Where the blocks are now.
pub(in crate::load) enum Held {
    Memory {
        /// Chunks of mapped files, which all partitions share.
        arena: BlockArena,
        /// For each partition, the blocks of it that were copied, if they were. They go back to the system when it is built.
        copies: Vec<Mutex<Option<BlockArena>>>,
        /// For each partition, what each worker found.
        entries: Vec<Unsorted>,
        /// For each partition, what was verified.
        contents: Vec<Content>,
    },
    Spilled(Spill),
}

impl Held {
    /// What the workers hold of the partitions that are wanted.
    pub fn of_workers(
        holds: impl IntoIterator<Item = Hold>,
        router: &Router,
        layout: KeyLayout,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Self {
        let partitions = router.partitions();
        let mut arena = BlockArena::new(layout);
        let mut entries: Vec<Unsorted> = (0..partitions).map(|_| Unsorted::default()).collect();
        let mut copies: Vec<Option<BlockArena>> = (0..partitions).map(|_| None).collect();
        let mut contents = vec![Content::default(); partitions as usize];
        for hold in holds {
            contents.iter_mut().zip(&hold.contents).for_each(|(all, mine)| all.merge(*mine));
            for HeldChunk { index, source, bytes } in hold.chunks {
                arena.insert(index, bytes, vec![Mark { at: 0, source }]);
            }
            let (workers, number) = (hold.workers, hold.number);
            let found = hold.entries.into_iter().zip(hold.copies);
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

/// A chunk that stays where it is.
struct HeldChunk {
    index: u32,
    source: u32,
    bytes: ChunkBytes,
}

/// Blocks of one partition, copied out of the chunks that they came in.
struct Piece {
    buffer: Buffer,
    len: usize,
    marks: Vec<Mark>,
}

impl Piece {
    fn free(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// Copies a section into the last of a partition's pieces, or into a new one of `room` bytes where it does not fit: what is
    /// free in the last one then stays so, and is added to `unused`. Returns which piece that is, and where in it the section begins.
    fn copy(
        pieces: &mut Vec<Self>,
        slab: &mut Slab,
        unused: &mut usize,
        room: usize,
        source: u32,
        section: &[u8],
    ) -> Result<(u32, u32)> {
        if pieces.last().is_none_or(|piece| piece.free() < section.len()) {
            *unused += pieces.last().map_or(0, Self::free);
            let len = room.max(section.len()).next_multiple_of(LEAST_PIECE as usize);
            // Many partitions of a short source have little more than their first piece.
            let buffer = if pieces.is_empty() { Buffer::new(len)? } else { slab.cut(len)? };
            pieces.push(Self { buffer, len: 0, marks: Vec::new() });
        }
        let nth = pieces.len() as u32 - 1;
        let no_room = || Error::broken_invariant("a piece of memory has no room for its section");
        let Some(Self { buffer, len, marks }) = pieces.last_mut() else { return Err(no_room()) };
        let at = *len;
        buffer.get_mut(at..at + section.len()).ok_or_else(no_room)?.copy_from_slice(section);
        *len += section.len();
        add_mark(marks, at as u64, source);
        Ok((nth, at as u32))
    }

    fn into_bytes(self) -> (ChunkBytes, Vec<Mark>) {
        let Self { buffer, len, marks } = self;
        (ChunkBytes::Read { buffer, len }, marks)
    }
}

/// What one worker holds.
pub(in crate::load) struct Hold {
    entries: Vec<Vec<Entry>>,
    /// For each partition, what was verified.
    contents: Vec<Content>,
    chunks: Vec<HeldChunk>,
    /// For each partition, where its blocks are copied to.
    copies: Vec<Vec<Piece>>,
    /// What pieces are cut from.
    slab: Slab,
    /// Bytes that stay free in pieces which another one follows, and that nobody has taken into account yet.
    unused: usize,
    /// Where blocks are copied, the bytes of a piece.
    room: Option<usize>,
    number: u32,
    workers: u32,
}

impl Hold {
    pub fn new(partitions: u32, (number, workers): (u32, u32), room: Option<usize>) -> Self {
        Self {
            entries: (0..partitions).map(|_| Vec::new()).collect(),
            contents: vec![Content::default(); partitions as usize],
            chunks: Vec::new(),
            copies: (0..partitions).map(|_| Vec::new()).collect(),
            slab: Slab::default(),
            unused: 0,
            room,
            number,
            workers,
        }
    }

    /// Bytes of a piece for `partitions` where `memory` is divided into pieces, and no less than those for the disk.
    pub fn room(memory: u64, for_disk: u64) -> usize {
        for_disk.max(LEAST_PIECE).max(memory / MOST_PIECES) as usize
    }

    /// Adds a block with the digest of its record, and copies it where it cannot stay in its chunk.
    pub fn add(&mut self, route: Route, chunk: &Chunk, block: &Block<'_>, digest: ContentDigest) -> Result<()> {
        let partition = route.partition as usize;
        let Self { entries, contents, copies, slab, unused, .. } = self;
        let (Some(entries), Some(content), Some(copies)) =
            (entries.get_mut(partition), contents.get_mut(partition), copies.get_mut(partition))
        else {
            return Err(no_partition(route.partition));
        };
        let (index, start) = match self.room {
            Some(room) => {
                let (nth, start) = Piece::copy(copies, slab, unused, room, chunk.source, block.whole())?;
                (nth * self.workers + self.number, start)
            }
            None => (chunk.index, block.section.start as u32),
        };
        entries.push(Entry::new(route.prefix, index, start));
        content.add(digest);
        Ok(())
    }

    /// Bytes that stay free in pieces which another one has followed since the last call: they are part of the budget like
    /// the blocks. The last piece of each partition has its own share of the plan.
    pub fn unused(&mut self) -> usize {
        std::mem::take(&mut self.unused)
    }

    /// Keeps a chunk whose blocks were added and not copied.
    pub fn keep(&mut self, chunk: Chunk) {
        self.chunks.push(HeldChunk { index: chunk.index, source: chunk.source, bytes: chunk.bytes });
    }

    /// What was verified of all that is held.
    pub fn content(&self) -> Content {
        let mut all = Content::default();
        self.contents.iter().for_each(|content| all.merge(*content));
        all
    }

    /// Takes everything out: what was verified of it, and its sections, with the sources that they came from.
    pub fn take(&mut self) -> (Content, impl Iterator<Item = (ChunkBytes, Vec<Mark>)> + use<>) {
        let content = self.content();
        let none = Self::new(0, (self.number, self.workers), self.room);
        let Self { chunks, copies, .. } = std::mem::replace(self, none);
        let chunks = chunks.into_iter().map(|held| (held.bytes, vec![Mark { at: 0, source: held.source }]));
        (content, chunks.chain(copies.into_iter().flatten().map(Piece::into_bytes)))
    }
}
