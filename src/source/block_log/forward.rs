//! Reads a log front to back, from a pipe or a decompressor, in batches of complete entries.
//!
//! The end of an entry is found from its start: a zstd frame and an entry of Antelope's version 4 have a size, and a raw
//! block ends at a word with its position if the next block names its id. One thread does this, so it does the least.

use std::path::{Path, PathBuf};

use super::detect::check_age;
use super::framing::{End, Span, WORD};
use super::preamble::{self, Preamble};
use super::unpack::ROOM;
use super::{Dictionaries, EntryBatch, Framing, LogProblem, MAX_BLOCK, PEEK, Packing, TornTail, Unpacker};
use crate::blocks::chain::{Header, Id};
use crate::error::{Error, InputKind, Result};
use crate::os::buffer::make_room;
use crate::source::StatedProblem;
use crate::source::input::ByteStream;

/// Bytes of the stream between two reports of what is consumed.
const PIECE: usize = 1 << 20;

pub(crate) struct Forward {
    name: PathBuf,
    stream: Box<dyn ByteStream>,
    unpacker: Unpacker,
    pub framing: Framing,
    pub preamble: Option<Preamble>,
    torn: TornTail,
    /// Bytes that were read and are in no batch yet.
    carry: Vec<u8>,
    /// Offset of `carry` in the log.
    at: u64,
    /// The first block of the log, once it has been read.
    pub first: Option<u32>,
    /// The last block, with its id if that was needed.
    last: Option<(u32, Option<Id>)>,
    /// The stored bytes of the last block, if it is compressed.
    last_packed: (Vec<u8>, Packing),
    /// True if the stream has ended and only `carry` is left.
    ended: bool,
    done: bool,
    /// Bytes after the last complete block.
    pub rest: u64,
    fault: Option<Error>,
}

impl Forward {
    pub fn open(
        name: &Path,
        mut stream: Box<dyn ByteStream>,
        torn: TornTail,
        dictionaries: &Dictionaries,
    ) -> Result<Self> {
        let mut carry = vec![0; PEEK];
        let got = stream.fill(&mut carry)?;
        let ended = got < carry.len();
        carry.truncate(got);
        let preamble = preamble::detect(&carry).map_err(|problem| Error::bad_input(name, 0, problem))?;
        if preamble.as_ref().is_some_and(|preamble| preamble.pruned) {
            let hint = "give the file itself instead of a pipe, or undo the pruning (block-log vacuum)";
            let reason = "a pruned log can only be read from its end";
            return Err(Error::bad_input(name, 0, StatedProblem::new(InputKind::Unsupported, reason, hint)));
        }
        let start = preamble.as_ref().map_or(0, Preamble::len);
        carry.drain(..start);
        let at = start as u64;
        if carry.is_empty() {
            return Err(Error::bad_input(name, at, LogProblem::Empty));
        }
        let (first, last, done, rest, fault) = Default::default();
        Ok(Self {
            name: name.to_owned(),
            stream,
            unpacker: Unpacker::new(dictionaries),
            framing: preamble.as_ref().map_or(Framing::Graphene, Preamble::framing),
            preamble,
            torn,
            carry,
            at,
            first,
            last,
            last_packed: (Vec::new(), Packing::Raw),
            ended,
            done,
            rest,
            fault,
        })
    }

    pub fn last(&self) -> Option<u32> {
        self.last.map(|(number, _)| number)
    }

    pub fn head(&self) -> &[u8] {
        &self.carry
    }

    /// Returns the end of the last block once the stream has ended.
    pub fn end(&self) -> Option<u64> {
        self.done.then_some(self.at)
    }

    pub fn consumed(&self) -> u64 {
        self.stream.consumed()
    }

    /// Fills `batch` with complete entries of about `target` bytes; `false` at the clean end. No batch goes beyond block
    /// `until`. `reached` receives the number of consumed bytes.
    pub fn next(
        &mut self,
        batch: &mut EntryBatch,
        target: usize,
        until: Option<u32>,
        reached: &dyn Fn(u64),
    ) -> Result<bool> {
        batch.spans.clear();
        if let Some(fault) = self.fault.take() {
            self.done = true;
            return Err(fault);
        }
        if self.done {
            return Ok(false);
        }
        let outcome = self.fill(batch, target, until, reached);
        if batch.spans.is_empty() {
            self.done = true;
            return outcome.map(|()| false);
        }
        // The blocks before a fault are returned first.
        self.fault = outcome.err();
        Ok(true)
    }

    fn fill(&mut self, batch: &mut EntryBatch, target: usize, until: Option<u32>, reached: &dyn Fn(u64)) -> Result<()> {
        let (mut filled, mut taken) = (self.carry.len(), 0);
        make_room(&mut batch.bytes, ROOM + target.max(filled).max(PEEK));
        if let Some(to) = batch.bytes.get_mut(ROOM..ROOM + filled) {
            to.copy_from_slice(&self.carry);
        }
        batch.at = self.at;
        // Reads until the batch is full or has at least one entry.
        let mut read = || -> Result<()> {
            loop {
                while !self.ended && ROOM + filled < batch.bytes.len() {
                    let into = batch.bytes.get_mut(ROOM + filled..).unwrap_or_default();
                    let want = into.len().min(PIECE);
                    let got = self.stream.fill(&mut into[..want])?;
                    filled += got;
                    self.ended = got < want;
                    reached(self.stream.consumed());
                }
                let piece = batch.bytes.get(ROOM..ROOM + filled).unwrap_or_default();
                if self.step(piece, &mut taken, &mut batch.spans, until)? || !batch.spans.is_empty() {
                    return Ok(());
                }
                // An entry is longer than the batch, which grows as bytes are read.
                let len = batch.bytes.len();
                batch.bytes.resize(len + len.min(2 * MAX_BLOCK), 0);
            }
        };
        let outcome = read();
        self.carry.clear();
        self.carry.extend_from_slice(batch.bytes.get(ROOM + taken..ROOM + filled).unwrap_or_default());
        self.at += taken as u64;
        batch.make_room();
        outcome
    }

    /// Takes complete entries from the front of `piece`. False if more bytes are needed.
    fn step(&mut self, piece: &[u8], taken: &mut usize, spans: &mut Vec<Span>, until: Option<u32>) -> Result<bool> {
        loop {
            let rest = piece.get(*taken..).unwrap_or_default();
            let at = self.at + *taken as u64;
            if rest.is_empty() {
                return Ok(self.ended);
            }
            if until.is_some_and(|until| self.last.is_some_and(|(last, _)| last >= until)) && !spans.is_empty() {
                return Ok(true);
            }
            let before = self.last.and_then(|(_, id)| id);
            let expected = self.last.map_or(1, |(last, _)| last.saturating_add(1));
            let bad = |at: u64, problem: LogProblem| Error::bad_input(&self.name, at, problem);
            let span = match self.framing.end_of(rest, at, before.as_ref(), self.ended) {
                End::At(span) => span,
                End::More => return Ok(false),
                End::Cut => return self.torn(rest.len() as u64, at),
                End::Bad(problem) if self.last.is_none() => {
                    return Err(bad(at, LogProblem::NotALog { reason: problem.to_string() }));
                }
                // For example, zeros after the last complete block.
                End::Bad(_) | End::None(None) if self.ended && rest.len() < MAX_BLOCK => {
                    return self.torn(rest.len() as u64, at);
                }
                End::Bad(problem) => return Err(bad(at, LogProblem::Block { number: expected, problem })),
                End::None(Some((second, problem))) => return Err(bad(at + second as u64, problem)),
                End::None(None) => return Err(bad(at, LogProblem::NoEnd { number: expected })),
            };
            if span.packing == Packing::Raw || self.last.is_none() {
                let header = self.read_header(self.framing.stored(rest, span), span.packing, at)?;
                let Header { number, id, .. } = header;
                if self.first.is_none() {
                    let bad = |at: u64, problem| Error::bad_input(&self.name, at, problem);
                    check_age(self.framing, &header).map_err(|problem| bad(at, problem))?;
                    let checked = self.preamble.as_ref().map_or(Ok(()), |head| head.check_first(number));
                    checked.map_err(|problem| bad(0, problem))?;
                }
                self.first.get_or_insert(number);
                self.last = Some((number, Some(id)));
            } else {
                // The consumer of the batch decompresses it.
                self.last = Some((expected, None));
                self.last_packed.0.clear();
                self.last_packed.0.extend_from_slice(self.framing.stored(rest, span));
                self.last_packed.1 = span.packing;
            }
            spans.push(Span { start: span.start + *taken, end: span.end + *taken, packing: span.packing });
            *taken += span.end + WORD;
        }
    }

    fn read_header(&mut self, stored: &[u8], packing: Packing, at: u64) -> Result<Header> {
        let number = self.last.map(|(last, _)| last.saturating_add(1));
        let header = self.framing.read_header(stored, packing, number, &mut self.unpacker);
        header.map_err(|problem| Error::bad_input(&self.name, at, problem))
    }

    fn torn(&mut self, rest: u64, at: u64) -> Result<bool> {
        let Some((last, id)) = self.last else {
            return Err(Error::bad_input(&self.name, at, LogProblem::Empty));
        };
        if self.torn == TornTail::Error {
            let id = match id {
                Some(id) => id,
                None => {
                    let (stored, packing) = std::mem::replace(&mut self.last_packed, (Vec::new(), Packing::Raw));
                    self.read_header(&stored, packing, at)?.id
                }
            };
            return Err(Error::bad_input(&self.name, at, LogProblem::Torn { last, id, rest }));
        }
        self.rest = rest;
        self.done = true;
        Ok(true)
    }
}
