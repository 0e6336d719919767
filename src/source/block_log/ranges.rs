//! The files of a log, cut into ranges of consecutive blocks that threads read in parallel.
//!
//! A range is read in windows. The entries of a window are found from its last complete one backward, word by word; the
//! block after the last one proves it. So only the bounds of a range must be known before it is read.

use std::path::{Path, PathBuf};

use super::discover::{FETCH_PART, discover};
use super::framing::{End, Span, WORD, u64_at};
use super::index::Indexed;
use super::part::LogPart;
use super::unpack::ROOM;
use super::{Dictionaries, LogProblem, MAX_BLOCK, TornTail, Unpacker};
use crate::blocks::chain::{Header, Id};
use crate::error::{Error, InputKind, Result};
use crate::os::buffer::make_room;
use crate::os::files::open_regular;
use crate::source::StatedProblem;

/// Distance ahead of the reading position that the system is advised to read, in bytes.
const READ_AHEAD: u64 = 16 << 20;
/// The hint for parts that do not belong together.
const ONE_LOG: &str = "keep the parts of one log alone in a directory";

pub(crate) struct LogFiles {
    pub path: PathBuf,
    pub parts: Vec<LogPart>,
}

/// Consecutive blocks of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub part: usize,
    pub start: u64,
    pub end: u64,
    pub first: u32,
    pub last: u32,
    /// The id of the block before the first one, if that is in the log.
    pub before: Option<Id>,
    /// The id named by the block after the last one, if that is in the log.
    pub head: Option<Id>,
}

impl LogFiles {
    /// Opens the log at `path`: a file, a part of a set, or a directory.
    pub fn open(path: &Path, torn: TornTail, dictionaries: &Dictionaries) -> Result<Self> {
        let mut unpacker = Unpacker::new(dictionaries);
        let files = discover(path)?;
        let count = files.len();
        let mut parts = Vec::with_capacity(count);
        for (number, file) in files.into_iter().enumerate() {
            // Only the end of a log is torn by a crash; anywhere else blocks would be missing.
            let torn = if number + 1 == count { torn } else { TornTail::Error };
            let opened = open_regular(&file).map_err(Error::io("open", &file))?;
            parts.push(LogPart::of_file(&file, opened, torn, &mut unpacker)?);
        }
        Self::of_parts(path, parts)
    }

    pub fn of_file(path: &Path, file: std::fs::File, torn: TornTail, dictionaries: &Dictionaries) -> Result<Self> {
        let part = LogPart::of_file(path, file, torn, &mut Unpacker::new(dictionaries))?;
        Self::of_parts(path, vec![part])
    }

    fn of_parts(path: &Path, parts: Vec<LogPart>) -> Result<Self> {
        for pair in parts.windows(2) {
            let [one, next] = pair else { continue };
            let name = || next.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let chain_id = |part: &LogPart| part.preamble.as_ref().map(|preamble| preamble.chain_id);
            let (last, first) = (one.last.number, next.first.number);
            if chain_id(one) != chain_id(next) || one.framing.family() != next.framing.family() {
                let reason = format!("{} has another format than the parts before it", name());
                return Err(next.bad(0, StatedProblem::new(InputKind::Damaged, reason, ONE_LOG)));
            }
            if first <= last {
                let reason = format!("the part ends with block {last} and {} begins again with block {first}", name());
                return Err(one.bad(one.end, StatedProblem::new(InputKind::Damaged, reason, ONE_LOG)));
            }
            if first != last + 1 {
                let (next, from, to) = (name(), last + 1, first - 1);
                let missing = if from == to { format!("block {from}") } else { format!("blocks {from} to {to}") };
                let reason = format!(
                    "the part ends with block {last} and {next} begins with block {first}: {missing} are missing"
                );
                return Err(one.bad(one.end, StatedProblem::new(InputKind::Incomplete, reason, FETCH_PART)));
            }
            if next.first.previous != one.last.id {
                let Header { number, previous, .. } = next.first;
                return Err(next.bad(next.start, LogProblem::Link { number, previous, before: one.last.id }));
            }
        }
        if parts.is_empty() {
            return Err(Error::bad_input(path, None, LogProblem::Empty));
        }
        Ok(Self { path: path.to_owned(), parts })
    }

    pub fn ends(&self) -> Option<(&Header, &Header)> {
        Some((&self.parts.first()?.first, &self.parts.last()?.last))
    }

    pub fn ends_packed(&self) -> bool {
        self.parts.last().is_some_and(LogPart::ends_packed)
    }

    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.size).sum()
    }

    /// Cuts the log into ranges of about `every` bytes, leaving out those that are `done`.
    pub fn ranges(&self, every: u64, done: &[Range], dictionaries: &Dictionaries) -> Result<Vec<Range>> {
        let mut unpacker = Unpacker::new(dictionaries);
        let mut ranges: Vec<Range> = Vec::new();
        let mut before = None;
        for (number, part) in self.parts.iter().enumerate() {
            let (mut start, mut first) = (part.start, part.first.number);
            while start < part.end {
                if let Some(done) = done.iter().find(|done| done.part == number && done.start == start) {
                    (start, first, before) = (done.end, done.last.saturating_add(1), done.head);
                    continue;
                }
                // A range ends before the next one that is done.
                let later = done.iter().filter(|done| done.part == number && done.start > start);
                let later = later.min_by_key(|done| done.start);
                let limit = later.map_or(part.end, |done| done.start);
                let aim = start.saturating_add(every);
                // A small rest is not worth a range of its own.
                let cut = if aim.saturating_add(every / 4) >= limit {
                    None
                } else {
                    part.cut_near(aim, &mut unpacker)?.filter(|(end, _)| *end < limit)
                };
                let (end, last, head) = match (cut, later) {
                    (Some((end, header)), _) => (end, header.number, Some(header.id)),
                    (None, Some(done)) => (done.start, done.first.saturating_sub(1), done.before),
                    (None, None) => (part.end, part.last.number, Some(part.last.id)),
                };
                ranges.push(Range { part: number, start, end, first, last, before, head });
                (start, first, before) = (end, last.saturating_add(1), head);
            }
        }
        Ok(ranges)
    }
}

/// Complete consecutive entries, and room before the first one.
#[derive(Default)]
pub(crate) struct EntryBatch {
    /// [`ROOM`] bytes, then a piece of the log.
    pub bytes: Vec<u8>,
    pub spans: Vec<Span>,
    pub at: u64,
}

impl EntryBatch {
    pub fn offset(&self, span: Span) -> u64 {
        self.at + (span.start - ROOM) as u64
    }

    pub fn word(&self, span: Span) -> u64 {
        u64_at(&self.bytes, span.end).unwrap_or_default()
    }

    pub fn len(&self) -> u64 {
        self.spans.last().map_or(0, |span| (span.end + WORD - ROOM) as u64)
    }

    /// Changes offsets in the piece to offsets in `bytes`.
    pub(super) fn make_room(&mut self) {
        for span in &mut self.spans {
            (span.start, span.end) = (span.start + ROOM, span.end + ROOM);
        }
    }
}

pub(crate) struct RangeReader<'a> {
    pub part: &'a LogPart,
    at: u64,
    end: u64,
    window: usize,
    advised: u64,
    indexed: Vec<Indexed>,
}

impl<'a> RangeReader<'a> {
    /// Reads `range` in windows of `window` bytes.
    pub fn new(files: &'a LogFiles, range: &Range, window: usize) -> Option<Self> {
        let part = files.parts.get(range.part)?;
        Some(Self { part, at: range.start, end: range.end, window, advised: range.start, indexed: Vec::new() })
    }

    /// Reads the next window into `batch`; `false` at the end of the range. The next block must be `expected`, after the
    /// block with the id `before`.
    pub fn next(
        &mut self,
        batch: &mut EntryBatch,
        expected: u32,
        before: Option<&Id>,
        unpacker: &mut Unpacker,
    ) -> Result<bool> {
        let part = self.part;
        batch.spans.clear();
        if self.at >= self.end {
            return Ok(false);
        }
        if self.at + READ_AHEAD / 2 > self.advised {
            part.read_ahead(self.advised, READ_AHEAD);
            self.advised += READ_AHEAD;
        }
        let mut window = self.window;
        loop {
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let len = left.min(window);
            make_room(&mut batch.bytes, ROOM + len);
            let piece = batch.bytes.get_mut(ROOM..ROOM + len).unwrap_or_default();
            part.read(self.at, piece)?;
            let ends = len == left;
            if !(ends && part.framing.walk_back(piece, self.at, len, &mut batch.spans).is_ok()) {
                let whole = part.framing.whole_entries(piece, self.at, unpacker, &mut batch.spans);
                whole.map_err(|problem| part.bad(self.at, problem.at_block(Some(expected))))?;
            }
            if !batch.spans.is_empty() {
                batch.at = self.at;
                batch.make_room();
                self.at += batch.len();
                return Ok(true);
            }
            if ends || window >= 2 * MAX_BLOCK {
                return Err(self.explain(batch.bytes.get(ROOM..ROOM + len).unwrap_or_default(), expected, before));
            }
            window = window.saturating_mul(4).min(2 * MAX_BLOCK);
        }
    }

    /// Returns the reason why no entry ends in `piece`.
    fn explain(&self, piece: &[u8], number: u32, before: Option<&Id>) -> Error {
        match self.part.framing.end_of(piece, self.at, before, false) {
            End::Bad(problem) => self.part.bad(self.at, LogProblem::Block { number, problem }),
            End::None(Some((at, problem))) => self.part.bad(self.at + at as u64, problem),
            _ => self.part.bad(self.at, LogProblem::NoEnd { number }),
        }
    }

    /// Reads the index entries of a batch. There are none without an index that has agreed so far.
    pub fn indexed(&mut self, first: u32, count: usize) -> &[Indexed] {
        self.indexed.clear();
        if let Some(index) = self.part.index() {
            index.get(first, count, &mut self.indexed);
        }
        &self.indexed
    }
}
