//! How blocks are framed in a log, and how they are found in a piece of it.
//!
//! A little-endian word of eight bytes with the position of the block follows every block:
//!
//! ```text
//! Steem           block | u64 position
//! Hive            block | u64 word      bit 63     packed with zstd (a frame without its magic)
//!                                       bits 57-62 zero
//!                                       bit 56     with a dictionary
//!                                       bits 48-55 its number
//!                                       bits 0-47  position
//! Antelope v1-v3  block | u64 position
//! Antelope v4     u32 size of all of this | u8 compression, 0 | block, padding | u64 position
//! ```
//!
//! A true word leads to all words before it. The chain proves that a word is true: the next block names the id of the
//! block before the word. So a log can be cut anywhere without an index, and read forward and backward.

use std::collections::HashSet;

use super::{LogProblem, MAX_BLOCK, Packing, Unpacker};
use crate::blocks::chain::{self, ChainProblem, Family, Header, Id};
use crate::source::input::zstd_frame;

/// Bytes of the word after a block.
pub(crate) const WORD: usize = 8;

const LONG_HEADER: usize = 64 << 10;

/// Bytes before the block in an entry of version 4: size and compression.
const V4_HEAD: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Steem, Hive and their forks.
    Graphene,
    /// EOSIO and Antelope.
    Antelope { version: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub position: u64,
    pub packing: Packing,
}

/// An entry in a piece of a log; its word begins at `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
    pub packing: Packing,
}

#[derive(Debug)]
pub(crate) enum End {
    At(Span),
    /// The piece is too short to decide.
    More,
    /// The log ends before the entry does.
    Cut,
    /// There is no end. If a block follows that names another parent: its start and the problem.
    None(Option<(usize, LogProblem)>),
    Bad(ChainProblem),
}

/// The reason why a piece does not begin with something.
enum Missing {
    No,
    /// The piece is too short to decide.
    More,
}

/// Little-endian. `None` if the bytes are too few.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

impl Framing {
    /// Returns the family of the headers. Hive has Steem's.
    pub fn family(self) -> Family {
        match self {
            Self::Graphene => Family::Steem,
            Self::Antelope { .. } => Family::Antelope,
        }
    }

    /// Returns the version for [`chain::header`].
    pub fn version(self) -> u32 {
        match self {
            Self::Graphene => 0,
            Self::Antelope { version } => version,
        }
    }

    pub fn header(self, block: &[u8]) -> Result<Header, ChainProblem> {
        chain::header(self.family(), self.version(), block)
    }

    pub fn head(self) -> usize {
        if self == (Self::Antelope { version: 4 }) { V4_HEAD } else { 0 }
    }

    /// Offset of the parent's id in a raw block.
    fn previous_at(self) -> usize {
        match self {
            Self::Graphene => 0,
            // After slot, producer and confirmed.
            Self::Antelope { .. } => 14,
        }
    }

    /// Reads a word. `None` if it has unknown bits.
    pub fn word(self, word: u64) -> Option<Word> {
        match self {
            Self::Antelope { .. } => Some(Word { position: word, packing: Packing::Raw }),
            Self::Graphene => {
                let (position, attributes) = (word & ((1 << 48) - 1), word >> 48);
                let packing = match (attributes >> 8, attributes as u8) {
                    (0x00, 0) => Packing::Raw,
                    (0x80, 0) => Packing::Zstd,
                    (0x81, number) => Packing::Dictionary(number),
                    _ => return None,
                };
                Some(Word { position, packing })
            }
        }
    }

    /// Returns the entry whose word ends at `end` of a piece at offset `base` of the log.
    pub fn span_before(self, bytes: &[u8], base: u64, end: usize) -> Option<Span> {
        let at = end.checked_sub(WORD)?;
        let word = self.word(u64_at(bytes, at)?)?;
        let start = usize::try_from(word.position.checked_sub(base)?).ok()?;
        let len = at.checked_sub(start)?;
        if len <= self.head() || len > MAX_BLOCK || !self.is_sized(bytes.get(start..end)?) {
            return None;
        }
        Some(Span { start, end: at, packing: word.packing })
    }

    /// True if the size in the entry is right, or the format has none.
    fn is_sized(self, entry: &[u8]) -> bool {
        self.head() == 0 || (u32_at(entry, 0) == u32::try_from(entry.len()).ok() && entry.get(4) == Some(&0))
    }

    /// Finds all entries of a piece from its end to its start and returns them in the order of the log.
    pub fn walk_back(self, bytes: &[u8], base: u64, end: usize, spans: &mut Vec<Span>) -> Result<(), usize> {
        spans.clear();
        let mut at = end;
        while at > 0 {
            let span = self.span_before(bytes, base, at).ok_or(at)?;
            at = span.start;
            spans.push(span);
        }
        spans.reverse();
        Ok(())
    }

    pub fn stored(self, bytes: &[u8], span: Span) -> &[u8] {
        bytes.get(span.start + self.head()..span.end).unwrap_or_default()
    }

    /// Decompresses a block and reads its header. `number` is the block's, if known.
    pub fn read_header(
        self,
        stored: &[u8],
        packing: Packing,
        number: Option<u32>,
        unpacker: &mut Unpacker,
    ) -> Result<Header, LogProblem> {
        let block = unpacker.unpack(stored, packing).map_err(|problem| problem.at_block(number))?;
        self.header(block).map_err(|problem| bad_header(problem, packing, number))
    }

    /// Returns the header of an entry's block. `None` if it is no block.
    pub fn header_of(self, bytes: &[u8], span: Span, unpacker: &mut Unpacker) -> Result<Option<Header>, LogProblem> {
        match self.read_header(self.stored(bytes, span), span.packing, None, unpacker) {
            Ok(header) => Ok(Some(header)),
            Err(problem) if problem.lacks_dictionary() => Err(problem),
            Err(_) => Ok(None),
        }
    }

    /// Finds the complete entries at the start of a piece. The block after the last one names its id. There are none if
    /// nothing can be read.
    pub fn whole_entries(
        self,
        bytes: &[u8],
        base: u64,
        unpacker: &mut Unpacker,
        spans: &mut Vec<Span>,
    ) -> Result<(), LogProblem> {
        // Ends that lead to a fault, so that each is tried once.
        let mut bad = HashSet::new();
        for end in (WORD + 1..bytes.len()).rev() {
            let Some(span) = self.span_before(bytes, base, end).filter(|_| !bad.contains(&end)) else { continue };
            if !self.is_end(bytes, base, span, unpacker)? {
                continue;
            }
            if self.walk_back(bytes, base, end, spans).is_ok() {
                return Ok(());
            }
            bad.extend(spans.iter().map(|span| span.end + WORD));
        }
        spans.clear();
        Ok(())
    }

    /// Returns the first end of a complete entry in a piece, and the header of its block.
    pub fn first_end(
        self,
        bytes: &[u8],
        base: u64,
        unpacker: &mut Unpacker,
    ) -> Result<Option<(usize, Header)>, LogProblem> {
        for end in WORD..=bytes.len() {
            let Some(span) = self.span_before(bytes, base, end) else { continue };
            if self.is_end(bytes, base, span, unpacker)?
                && let Some(header) = self.header_of(bytes, span, unpacker)?
            {
                return Ok(Some((end, header)));
            }
        }
        Ok(None)
    }

    /// True if the next block names the id of this entry's block.
    fn is_end(self, bytes: &[u8], base: u64, span: Span, unpacker: &mut Unpacker) -> Result<bool, LogProblem> {
        let Some(header) = self.header_of(bytes, span, unpacker)? else { return Ok(false) };
        let next = span.end + WORD;
        let rest = bytes.get(next..).unwrap_or_default();
        match self.names(rest, &header.id) {
            Ok(()) => Ok(true),
            Err(Missing::More) => Ok(false),
            Err(Missing::No) => {
                let Ok(span) = self.packed(rest, base + next as u64) else { return Ok(false) };
                let found = self.header_of(rest, span, unpacker)?;
                Ok(found.is_some_and(|found| found.previous == header.id))
            }
        }
    }

    /// Tests for a raw block whose parent is `id`.
    fn names(self, bytes: &[u8], id: &Id) -> Result<(), Missing> {
        let id = id.as_bytes();
        let found = bytes.get(self.head() + self.previous_at()..).unwrap_or_default();
        match found.get(..id.len()) {
            Some(found) if found == id => Ok(()),
            None if id.starts_with(found) => Err(Missing::More),
            _ => Err(Missing::No),
        }
    }

    /// Returns the entry of a compressed block at `position` of the log: a complete frame and its word.
    fn packed(self, bytes: &[u8], position: u64) -> Result<Span, Missing> {
        if self != Self::Graphene {
            return Err(Missing::No);
        }
        let end = frame_end(bytes)?;
        match self.word(u64_at(bytes, end).ok_or(Missing::More)?) {
            Some(Word { position: found, packing }) if found == position && packing != Packing::Raw => {
                Ok(Span { start: 0, end, packing })
            }
            _ => Err(Missing::No),
        }
    }

    /// Returns whether a log begins with a compressed block and its word. `None` if more bytes are needed.
    pub fn begins_packed(self, bytes: &[u8]) -> Option<bool> {
        match self.packed(bytes, 0) {
            Ok(_) => Some(true),
            Err(Missing::More) => None,
            Err(Missing::No) => Some(false),
        }
    }

    /// Finds the end of the first entry of a piece at `position` of the log. `before` is the id of the previous block,
    /// if known; `ends` is true if the log ends with the piece.
    pub fn end_of(self, bytes: &[u8], position: u64, before: Option<&Id>, ends: bool) -> End {
        if self.head() > 0 {
            return self.sized_end(bytes, position, ends);
        }
        let is_raw = before.is_some_and(|id| self.names(bytes, id).is_ok());
        if !is_raw {
            match self.packed(bytes, position) {
                Ok(span) => return End::At(span),
                Err(Missing::More) if !ends => return End::More,
                Err(_) => {}
            }
        }
        let header = match self.header(bytes) {
            Ok(header) => header,
            Err(_) if !ends && bytes.len() < LONG_HEADER => return End::More,
            Err(ChainProblem::Truncated { .. }) if ends => return End::Cut,
            Err(problem) => return End::Bad(problem),
        };
        self.raw_end(bytes, position, &header, ends)
    }

    fn sized_end(self, bytes: &[u8], position: u64, ends: bool) -> End {
        let short = if ends { End::Cut } else { End::More };
        let Some(size) = u32_at(bytes, 0) else { return short };
        let size = size as usize;
        if size <= self.head() + WORD || size > MAX_BLOCK {
            return End::None(None);
        }
        let Some(entry) = bytes.get(..size) else { return short };
        let end = size - WORD;
        if u64_at(bytes, end) == Some(position) && self.is_sized(entry) {
            return End::At(Span { start: 0, end, packing: Packing::Raw });
        }
        End::None(None)
    }

    /// The end of a raw block without a size: the first word that names its place and is followed by a block that names
    /// its id, or by nothing.
    fn raw_end(self, bytes: &[u8], position: u64, header: &Header, ends: bool) -> End {
        let word = position.to_le_bytes();
        // At least the number of transactions follows the header.
        let from = header.header_len + 1;
        let window = bytes.get(from..bytes.len().min(MAX_BLOCK)).unwrap_or_default();
        let (mut broken, mut last) = (None, None);
        let finder = memchr::memmem::Finder::new(&word);
        let mut at = 0;
        // Words may overlap: the first block's word is zeros, as its last bytes may be.
        while let Some(found) = window.get(at..).and_then(|rest| finder.find(rest)) {
            let end = from + at + found;
            at += found + 1;
            let next = end + WORD;
            let rest = bytes.get(next..).unwrap_or_default();
            let span = Span { start: 0, end, packing: Packing::Raw };
            match self.names(rest, &header.id) {
                Ok(()) => return End::At(span),
                // The rest of a torn log is too short to decide, and names no other block.
                Err(Missing::More) => return if ends { End::At(span) } else { End::More },
                Err(Missing::No) => {}
            }
            match self.packed(rest, position + next as u64) {
                Ok(_) => return End::At(span),
                Err(Missing::More) if !ends => return End::More,
                Err(_) => {}
            }
            last = Some(span);
            if broken.is_none()
                && let Ok(next_header) = self.header(rest.get(self.head()..).unwrap_or_default())
                && next_header.number == header.number.wrapping_add(1)
            {
                let Header { number, previous, .. } = next_header;
                broken = Some((next, LogProblem::Link { number, previous, before: header.id }));
            }
        }
        if broken.is_some() {
            return End::None(broken);
        }
        if !ends && bytes.len() < MAX_BLOCK {
            return End::More;
        }
        // No block follows: this is the tail of a torn log, or damage that is reported when it is read.
        match last {
            Some(span) => End::At(span),
            None if ends && bytes.len() < MAX_BLOCK => End::Cut,
            None => End::None(None),
        }
    }
}

/// Returns the problem of a block without a valid header. Only a wrong dictionary decompresses to other bytes.
pub(super) fn bad_header(problem: ChainProblem, packing: Packing, number: Option<u32>) -> LogProblem {
    match (packing, number) {
        (Packing::Dictionary(dictionary), number) => LogProblem::WrongDictionary { number, dictionary },
        (_, Some(number)) => LogProblem::Block { number, problem },
        (_, None) => LogProblem::NotALog { reason: problem.to_string() },
    }
}

/// Finds the end of a zstd frame without its magic.
fn frame_end(bytes: &[u8]) -> Result<usize, Missing> {
    let mut head = [0; zstd_frame::MAX_FRAME_HEADER];
    let whole = zstd_frame::MAGIC.iter().chain(bytes);
    let len = head.iter_mut().zip(whole).map(|(to, from)| *to = *from).count();
    let header = zstd_frame::frame_header(head.get(..len).unwrap_or_default()).map_err(|problem| match problem {
        zstd_frame::FrameProblem::Cut => Missing::More,
        _ => Missing::No,
    })?;
    let mut at = header.len - zstd_frame::MAGIC.len();
    loop {
        let rest = bytes.get(at..).filter(|rest| rest.len() >= zstd_frame::BLOCK_HEADER).ok_or(Missing::More)?;
        let block = zstd_frame::block_header(rest).map_err(|_| Missing::No)?;
        at += zstd_frame::BLOCK_HEADER + block.len;
        // No program writes an empty block that is not the last; zeros would read as any number of them.
        if at > MAX_BLOCK || (block.len == 0 && !block.last) {
            return Err(Missing::No);
        }
        if block.last {
            let end = at + if header.checksum { zstd_frame::CHECKSUM } else { 0 };
            return if end <= bytes.len() { Ok(end) } else { Err(Missing::More) };
        }
    }
}
