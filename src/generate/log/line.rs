//! The assembly line of a block log.
//!
//! ```text
//! window N+1:  make (all threads) -> link (in order) -> pack (all threads)
//! window N:                                                 write, at the same time
//! ```
//!
//! A header has the id of the block before, so linking is serial: about a microsecond a block. A chunk has a fixed number
//! of blocks, so that numbers and times are known when transactions are made. The last chunk is cut where the size is
//! reached. Memory: two windows of chunks.

use std::io::{self, Write};
use std::ops::Range;

use rayon::prelude::*;

use super::super::line::copy_of;
use super::super::pipeline;
use super::super::random::Noise;
use super::antelope_transactions::{BlockKind, Zlib};
use super::pack::{BlockPacker, PreparedDictionaries};
use super::words::Words;
use super::{LogEntry, LogSpec, antelope, antelope_transactions, steem};
use crate::blocks::chain::{Family, Id};
use crate::progress::Progress;

/// Blocks of a chunk: about 700 KiB.
const BLOCKS: u64 = 128;
/// Bytes of the word after an entry.
const WORD: usize = 8;

/// Kinds of streams of random numbers. A stream has the number of a chunk or block.
const BODIES: u64 = 1 << 61;
const HEADERS: u64 = 2 << 61;
const PACKING: u64 = 3 << 61;

/// The result of generating a block log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct LogSummary {
    /// Which chain.
    pub family: Family,
    /// The version of an Antelope log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The chain id of an Antelope log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<Id>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the same log without compression.
    pub raw_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Number of the first block.
    pub first: u32,
    /// Number of the last block.
    pub last: u32,
    /// Id of the last block.
    pub head: Id,
}

/// The transactions of a block, and the place of its header once it is linked.
struct Draft {
    body: Range<usize>,
    transactions: u32,
    root: Id,
    header: Range<usize>,
}

#[derive(Default)]
struct LogChunk {
    bodies: Vec<u8>,
    drafts: Vec<Draft>,
    headers: Vec<u8>,
    /// The linked blocks, at most as many as drafts.
    entries: Vec<LogEntry>,
    /// Entries with zeros instead of each position.
    out: Vec<u8>,
}

struct LineContext<'a> {
    spec: &'a LogSpec,
    words: Words,
    prepared: PreparedDictionaries,
}

/// Writes all blocks after the preamble, and adds them to `made`.
pub(super) fn run<W: Write + Send>(
    spec: &LogSpec,
    made: &mut LogSummary,
    out: &mut W,
    each: &mut (impl FnMut(&LogEntry) -> io::Result<()> + Send),
    progress: &Progress<'_>,
) -> io::Result<()> {
    let context = LineContext { spec, words: Words::new(), prepared: PreparedDictionaries::new(&spec.dictionaries) };
    let (mut position, mut full) = (made.bytes, false);
    let make = |first, width, pieces: &mut Vec<LogChunk>| {
        let before = (made.raw_bytes, made.blocks);
        pieces.resize_with(if full { 0 } else { width }, LogChunk::default);
        let all = pieces.par_iter_mut().enumerate();
        all.for_each_init(Zlib::new, |zlib, (n, piece)| context.make(first + n as u64, zlib, piece));
        pieces.iter_mut().for_each(|piece| context.link(made, &mut full, piece));
        progress.add(made.raw_bytes - before.0, made.blocks - before.1);
        pieces.par_iter_mut().try_for_each_init(
            || BlockPacker::new(&context.prepared),
            |packer, piece| context.pack(packer.as_mut().map_err(|error| copy_of(error))?, piece),
        )
    };
    pipeline::run(make, |pieces| emit(pieces, &mut position, out, each))?;
    made.bytes = position;
    Ok(())
}

impl LineContext<'_> {
    fn is_savanna(&self, block: u64) -> bool {
        self.spec.savanna_from.is_some_and(|from| block >= u64::from(from))
    }

    fn make(&self, chunk: u64, zlib: &mut Zlib, piece: &mut LogChunk) {
        piece.bodies.clear();
        piece.drafts.clear();
        let mut noise = Noise::new(self.spec.seed, BODIES | chunk);
        let first = u64::from(self.spec.first_block) + chunk * BLOCKS;
        for block in first..first + BLOCKS {
            let start = piece.bodies.len();
            let out = &mut piece.bodies;
            let (transactions, root) = match self.spec.family {
                Family::Steem | Family::Hive => {
                    steem::body(&self.words, self.spec.family == Family::Hive, block, &mut noise, out)
                }
                Family::Antelope => {
                    let kind = BlockKind { block, version: self.spec.version, savanna: self.is_savanna(block) };
                    antelope_transactions::body(&self.words, kind, zlib, &mut noise, out)
                }
            };
            piece.drafts.push(Draft { body: start..piece.bodies.len(), transactions, root, header: 0..0 });
        }
    }

    fn link(&self, made: &mut LogSummary, full: &mut bool, piece: &mut LogChunk) {
        piece.headers.clear();
        piece.entries.clear();
        for draft in &mut piece.drafts {
            let Some(number) = made.last.checked_add(1).filter(|_| !*full) else {
                *full = true;
                return;
            };
            let start = piece.headers.len();
            let mut noise = Noise::new(self.spec.seed, HEADERS | u64::from(number));
            let out = &mut piece.headers;
            let id = match self.spec.family {
                Family::Steem | Family::Hive => {
                    steem::header(&self.words, number, made.head, draft.root, &mut noise, out)
                }
                Family::Antelope => {
                    let savanna = self.is_savanna(number.into());
                    antelope::header(number, savanna, (made.head, draft.root), self.spec.seed, &mut noise, out)
                }
            };
            draft.header = start..piece.headers.len();
            let bytes = (draft.header.len() + draft.body.len() + self.spec.entry_overhead()) as u64;
            if made.blocks > 0 && made.raw_bytes + bytes > self.spec.size {
                *full = true;
                return;
            }
            made.raw_bytes += bytes;
            made.blocks += 1;
            made.transactions += u64::from(draft.transactions);
            (made.last, made.head) = (number, id);
            piece.entries.push(LogEntry { number, id, word: 0, len: 0 });
        }
    }

    fn pack(&self, packer: &mut BlockPacker<'_>, piece: &mut LogChunk) -> io::Result<()> {
        let LogChunk { bodies, drafts, headers, out, entries } = piece;
        out.clear();
        for (draft, entry) in drafts.iter().zip(entries) {
            let start = out.len();
            let (header, body) = (&headers[draft.header.clone()], &bodies[draft.body.clone()]);
            entry.word = match self.spec.family {
                Family::Hive => {
                    let block = [header, body].concat();
                    let mut noise = Noise::new(self.spec.seed, PACKING | u64::from(entry.number));
                    packer.pack(entry.number, &block, &mut noise, out)?
                }
                Family::Steem | Family::Antelope => {
                    if self.spec.version == antelope::PRUNABLE {
                        let size = header.len() + body.len() + self.spec.entry_overhead();
                        out.extend((size as u32).to_le_bytes());
                        out.push(0);
                    }
                    out.extend_from_slice(header);
                    out.extend_from_slice(body);
                    0
                }
            };
            entry.len = (out.len() - start) as u32;
            out.extend([0; WORD]);
        }
        Ok(())
    }
}

fn emit<W: Write>(
    pieces: &mut [LogChunk],
    position: &mut u64,
    out: &mut W,
    each: &mut impl FnMut(&LogEntry) -> io::Result<()>,
) -> io::Result<()> {
    for piece in pieces {
        let mut at = 0;
        for entry in &mut piece.entries {
            entry.word |= *position;
            at += entry.len as usize;
            piece.out[at..at + WORD].copy_from_slice(&entry.word.to_le_bytes());
            at += WORD;
            *position += u64::from(entry.len) + WORD as u64;
            each(entry)?;
        }
        out.write_all(&piece.out)?;
    }
    Ok(())
}
