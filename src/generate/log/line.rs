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

use super::super::pipeline;
use super::super::random::Noise;
use super::antelope_transactions::{Kind, Zlib};
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

/// The chain so far.
pub(super) struct Chain {
    pub(super) next: u32,
    pub(super) previous: Id,
    pub(super) blocks: u64,
    pub(super) transactions: u64,
    /// Bytes of the log without compression.
    pub(super) raw_bytes: u64,
    full: bool,
}

/// The transactions of a block, not yet linked.
struct Draft {
    body: Range<usize>,
    transactions: u32,
    root: Id,
}

/// A block that is linked into the chain.
struct Linked {
    number: u32,
    id: Id,
    header: Range<usize>,
    body: Range<usize>,
}

/// One chunk on the line.
#[derive(Default)]
struct Piece {
    bodies: Vec<u8>,
    drafts: Vec<Draft>,
    headers: Vec<u8>,
    linked: Vec<Linked>,
    /// Entries with zeros in place of each position.
    out: Vec<u8>,
    entries: Vec<LogEntry>,
}

struct Shared<'a> {
    spec: &'a LogSpec,
    words: Words,
    prepared: PreparedDictionaries,
}

/// Writes all blocks after the preamble, which is `preamble` bytes long.
pub(super) fn run<W: Write + Send>(
    spec: &LogSpec,
    preamble: u64,
    out: &mut W,
    each: &mut (impl FnMut(&LogEntry) -> io::Result<()> + Send),
    progress: &Progress<'_>,
) -> io::Result<(Chain, u64)> {
    let shared = Shared { spec, words: Words::new(), prepared: PreparedDictionaries::new(&spec.dictionaries) };
    let mut chain = Chain {
        next: spec.first_block,
        previous: spec.first_parent(),
        blocks: 0,
        transactions: 0,
        raw_bytes: preamble,
        full: false,
    };
    let mut position = preamble;
    let make = |first, width, pieces: &mut Vec<Piece>| {
        let before = (chain.raw_bytes, chain.blocks);
        pieces.resize_with(if chain.full { 0 } else { width }, Piece::default);
        let all = pieces.par_iter_mut().enumerate();
        all.for_each_init(Zlib::new, |zlib, (n, piece)| shared.make(first + n as u64, zlib, piece));
        pieces.iter_mut().for_each(|piece| shared.link(&mut chain, piece));
        progress.add(chain.raw_bytes - before.0, chain.blocks - before.1);
        pieces.par_iter_mut().try_for_each_init(
            || BlockPacker::new(&shared.prepared),
            |packer, piece| match packer {
                Ok(packer) => shared.pack(packer, piece),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            },
        )
    };
    pipeline::run(make, |pieces| emit(pieces, &mut position, out, each))?;
    Ok((chain, position))
}

impl Shared<'_> {
    fn is_savanna(&self, block: u64) -> bool {
        self.spec.savanna_from.is_some_and(|from| block >= u64::from(from))
    }

    fn make(&self, chunk: u64, zlib: &mut Zlib, piece: &mut Piece) {
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
                    let kind = Kind { block, version: self.spec.version, savanna: self.is_savanna(block) };
                    antelope_transactions::body(&self.words, kind, zlib, &mut noise, out)
                }
            };
            piece.drafts.push(Draft { body: start..piece.bodies.len(), transactions, root });
        }
    }

    fn link(&self, chain: &mut Chain, piece: &mut Piece) {
        piece.headers.clear();
        piece.linked.clear();
        for draft in &piece.drafts {
            if chain.full {
                return;
            }
            let start = piece.headers.len();
            let number = chain.next;
            let mut noise = Noise::new(self.spec.seed, HEADERS | u64::from(number));
            let out = &mut piece.headers;
            let id = match self.spec.family {
                Family::Steem | Family::Hive => {
                    steem::header(&self.words, number, chain.previous, draft.root, &mut noise, out)
                }
                Family::Antelope => {
                    let savanna = self.is_savanna(number.into());
                    let ids = (chain.previous, draft.root);
                    antelope::header(number, savanna, ids, self.spec.seed, &mut noise, out)
                }
            };
            let header = start..piece.headers.len();
            let bytes = (header.len() + draft.body.len() + self.spec.entry_overhead()) as u64;
            if chain.blocks > 0 && chain.raw_bytes + bytes > self.spec.size {
                chain.full = true;
                return;
            }
            chain.raw_bytes += bytes;
            chain.blocks += 1;
            chain.transactions += u64::from(draft.transactions);
            chain.previous = id;
            piece.linked.push(Linked { number, id, header, body: draft.body.clone() });
            match number.checked_add(1) {
                Some(next) => chain.next = next,
                None => chain.full = true,
            }
        }
    }

    fn pack(&self, packer: &mut BlockPacker<'_>, piece: &mut Piece) -> io::Result<()> {
        let Piece { bodies, headers, linked, out, entries, .. } = piece;
        out.clear();
        entries.clear();
        let mut block = Vec::new();
        for &Linked { number, id, ref header, ref body } in linked.iter() {
            let start = out.len();
            let (header, body) = (&headers[header.clone()], &bodies[body.clone()]);
            let word = match self.spec.family {
                Family::Hive => {
                    block.clear();
                    block.extend_from_slice(header);
                    block.extend_from_slice(body);
                    let mut noise = Noise::new(self.spec.seed, PACKING | u64::from(number));
                    packer.pack(number, &block, &mut noise, out)?
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
            entries.push(LogEntry { number, id, word, len: (out.len() - start) as u32 });
            out.extend([0; WORD]);
        }
        Ok(())
    }
}

/// Fills in the positions and writes.
fn emit<W: Write>(
    pieces: &mut [Piece],
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
