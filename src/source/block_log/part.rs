//! One file of a log: finds its first and last block without reading the blocks between.

use std::fs::File;
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::detect::check_age;
use super::framing::{End, WORD, Word, u64_at};
use super::index::{Indexed, LogIndex};
use super::preamble::{self, Preamble};
use super::{Framing, IndexUse, LogProblem, MAX_BLOCK, PEEK, Packing, TornTail, Unpacker};
use crate::blocks::chain::{ChainProblem, Header, Id};
use crate::error::{Error, Problem, Result};
use crate::os::mmap::shrank;

/// Bytes before the end of a torn log that are searched for its last complete block.
const TORN_SEARCH: u64 = 2 * MAX_BLOCK as u64;

/// Bytes of a torn log that are searched first.
const FIRST_SEARCH: u64 = 256 << 10;

/// A file of a log and the range of its entries.
pub(crate) struct LogFile {
    pub path: PathBuf,
    pub file: File,
    pub framing: Framing,
    pub preamble: Option<Preamble>,
    pub size: u64,
    pub start: u64,
    pub end: u64,
}

/// A file of a log with its first and last block.
pub(crate) struct LogPart {
    log: LogFile,
    pub first: Header,
    pub last: Header,
    /// Bytes after the last complete block.
    pub rest: u64,
    /// The index beside it, or the reason why it is ignored.
    index: Option<Result<LogIndex, IndexUse>>,
}

impl Deref for LogPart {
    type Target = LogFile;
    fn deref(&self) -> &LogFile {
        &self.log
    }
}

/// A block that was read on its own: its start and header.
type Single = (u64, Header);

impl LogPart {
    pub fn of_file(path: &Path, file: File, torn: TornTail, unpacker: &mut Unpacker) -> Result<Self> {
        let size = file.metadata().map_err(Error::io("read metadata of", path))?.len();
        let mut head = vec![0; PEEK.min(usize::try_from(size).unwrap_or(usize::MAX))];
        file.read_exact_at(&mut head, 0).map_err(|error| failed(path, error))?;
        let bad = |offset: u64, problem: LogProblem| Error::bad_input(path, offset, problem);
        if size == 0 {
            return Err(bad(0, LogProblem::Empty));
        }
        let preamble = preamble::detect(&head).map_err(|problem| bad(0, problem))?;
        let (framing, start) = (
            preamble.as_ref().map_or(Framing::Graphene, Preamble::framing),
            preamble.as_ref().map_or(0, Preamble::len) as u64,
        );
        let is_pruned = preamble.as_ref().is_some_and(|preamble| preamble.pruned);
        let mut log = LogFile { path: path.to_owned(), file, framing, preamble, size, start, end: size };
        if is_pruned {
            log.end = size.checked_sub(4).filter(|&at| at >= start).ok_or_else(|| bad(0, LogProblem::Empty))?;
            let mut count = [0; 4];
            log.read(log.end, &mut count)?;
            log.start = log.walk_back(u32::from_le_bytes(count))?;
        }
        let first = log.read_first(unpacker)?;
        if let Some(head) = &log.preamble {
            head.check_first(first.number).map_err(|problem| log.bad(0, problem))?;
        }
        let (last, rest) = log.find_end(&first, torn, unpacker)?;
        if last.number < first.number {
            let problem = LogProblem::Backwards { first: first.number, last: last.number };
            return Err(log.bad(log.start, problem));
        }
        let index = LogIndex::open(path, framing, first.number, last.number);
        Ok(Self { log, first, last, rest, index })
    }
}

impl LogFile {
    /// Reads bytes that the file had when it was opened.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(into, at).map_err(|error| failed(&self.path, error))
    }

    pub fn read_ahead(&self, at: u64, len: u64) {
        // Advice only: without it the next read waits for the disk.
        let _ = rustix::fs::fadvise(&self.file, at, std::num::NonZeroU64::new(len), rustix::fs::Advice::WillNeed);
    }

    pub fn bad(&self, offset: u64, problem: impl Problem) -> Error {
        Error::bad_input(&self.path, offset, problem)
    }

    fn piece(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let len = len.min(self.end.saturating_sub(at));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the start of the last `blocks` blocks.
    fn walk_back(&self, blocks: u32) -> Result<u64> {
        let mut at = self.end;
        for _ in 0..blocks {
            let before = self.word_before(at)?.filter(|&(word, position)| position >= self.start && position < word);
            let reason = || LogProblem::Preamble {
                reason: format!("it is pruned to {blocks} blocks, but they do not follow each other before byte {at}"),
            };
            (_, at) = before.ok_or_else(|| self.bad(at, reason()))?;
        }
        if blocks == 0 {
            return Err(self.bad(self.end, LogProblem::Empty));
        }
        Ok(at)
    }

    /// Reads the word that ends at `end`, and returns its place too. `None` at the first entry.
    fn word_before(&self, end: u64) -> Result<Option<(u64, u64)>> {
        let Some(at) = end.checked_sub(WORD as u64).filter(|&at| at >= self.start) else { return Ok(None) };
        let mut word = [0; WORD];
        self.read(at, &mut word)?;
        Ok(Some((at, u64::from_le_bytes(word))))
    }

    fn read_first(&self, unpacker: &mut Unpacker) -> Result<Header> {
        let not_a_log =
            |problem: ChainProblem| self.bad(self.start, LogProblem::NotALog { reason: problem.to_string() });
        let mut len = PEEK as u64;
        loop {
            let bytes = self.piece(self.start, len)?;
            let ends = self.start + bytes.len() as u64 == self.end;
            // Only the header is needed, so the block may be incomplete.
            let end = self.framing.end_of(&bytes, self.start, None, ends);
            match end {
                End::At(span) => {
                    let stored = self.framing.stored(&bytes, span);
                    let header = self.framing.read_header(stored, span.packing, None, unpacker);
                    let header = header.map_err(|problem| self.bad(self.start, problem))?;
                    check_age(self.framing, &header).map_err(|problem| self.bad(self.start, problem))?;
                    return Ok(header);
                }
                End::More => len *= 8,
                End::Bad(problem) => return Err(not_a_log(problem)),
                End::Cut | End::None(_) => {
                    return match self.framing.header(bytes.get(self.framing.head()..).unwrap_or_default()) {
                        // Damaged or torn, but the header is valid: a later read finds the fault.
                        Ok(header) if matches!(end, End::None(_)) => Ok(header),
                        Ok(_) => Err(self.bad(self.start, LogProblem::Empty)),
                        Err(problem) => Err(not_a_log(problem)),
                    };
                }
            }
        }
    }

    /// Reads the block whose word ends at `end`, if there is one.
    fn block_before(&self, end: u64, unpacker: &mut Unpacker) -> Result<Option<Single>> {
        let Some((at, word)) = self.word_before(end)? else { return Ok(None) };
        let Some(Word { position: start, .. }) = self.framing.word(word) else { return Ok(None) };
        if start < self.start || start >= at || at - start > MAX_BLOCK as u64 {
            return Ok(None);
        }
        let bytes = self.piece(start, end - start)?;
        let Some(span) = self.framing.span_before(&bytes, start, bytes.len()) else { return Ok(None) };
        let header = self.framing.header_of(&bytes, span, unpacker).map_err(|problem| self.bad(start, problem))?;
        Ok(header.map(|header| (start, header)))
    }

    /// Reads the block that ends at `end`, if it names the id of the block before it.
    fn proven_before(&self, end: u64, unpacker: &mut Unpacker) -> Result<Option<Single>> {
        let Some((start, header)) = self.block_before(end, unpacker)? else { return Ok(None) };
        let before = self.block_before(start, unpacker)?.map(|(_, before)| before.id);
        if start > self.start && before != Some(header.previous) {
            return Ok(None);
        }
        Ok(self.is_whole(start, end, before.as_ref())?.then_some((start, header)))
    }

    /// True if the end of a block is also found from its start. Otherwise its word may name an earlier block.
    fn is_whole(&self, start: u64, end: u64, before: Option<&Id>) -> Result<bool> {
        let bytes = self.piece(start, end - start)?;
        let found = self.framing.end_of(&bytes, start, before, true);
        Ok(matches!(found, End::At(span) if (span.end + WORD) as u64 == end - start))
    }

    /// Finds the last complete block and the number of bytes after it.
    fn find_end(&mut self, first: &Header, torn: TornTail, unpacker: &mut Unpacker) -> Result<(Header, u64)> {
        if let Some((_, header)) = self.proven_before(self.end, unpacker)? {
            return Ok((header, 0));
        }
        // A block next to a damaged one still ends here. The fault is reported at its place.
        if let Some((start, header)) = self.block_before(self.end, unpacker)?
            && start > self.start
            && header.number > first.number
            && self.is_whole(start, self.end, None)?
        {
            return Ok((header, 0));
        }
        let (mut reach, all) = (FIRST_SEARCH, self.end);
        loop {
            let from = all.saturating_sub(reach).max(self.start);
            let bytes = self.piece(from, all - from)?;
            for end in (WORD..=bytes.len()).rev() {
                let may_be = u64_at(&bytes, end - WORD)
                    .and_then(|word| self.framing.word(word))
                    .is_some_and(|word| word.position >= self.start && word.position < from + end as u64);
                if !may_be {
                    continue;
                }
                if let Some((_, header)) = self.proven_before(from + end as u64, unpacker)? {
                    self.end = from + end as u64;
                    let rest = all - self.end;
                    let Header { number: last, id, .. } = header;
                    return match torn {
                        TornTail::Trim => Ok((header, rest)),
                        TornTail::Error => Err(self.bad(self.end, LogProblem::Torn { last, id, rest })),
                    };
                }
            }
            if from == self.start || reach >= TORN_SEARCH {
                return Err(self.bad(self.start, LogProblem::NoEnd { number: first.number }));
            }
            reach *= 8;
        }
    }
}

impl LogPart {
    /// Returns a border between blocks near `offset`, and the header of the block before it.
    pub fn cut_near(&self, offset: u64, unpacker: &mut Unpacker) -> Result<Option<(u64, Header)>> {
        let mut len = PEEK as u64;
        loop {
            let bytes = self.piece(offset, len)?;
            let found = self.framing.first_end(&bytes, offset, unpacker);
            if let Some((end, header)) = found.map_err(|problem| self.bad(offset, problem))? {
                return Ok(Some((offset + end as u64, header)));
            }
            if offset + bytes.len() as u64 >= self.end || len >= 2 * MAX_BLOCK as u64 {
                return Ok(None);
            }
            len *= 4;
        }
    }

    pub fn ends_packed(&self) -> bool {
        let word = self.word_before(self.end).ok().flatten().and_then(|(_, word)| self.framing.word(word));
        word.is_some_and(|word| word.packing != Packing::Raw)
    }

    /// Returns the index if it has agreed with the log so far.
    pub fn index(&self) -> Option<&LogIndex> {
        self.index.as_ref()?.as_ref().ok().filter(|index| index.is_right())
    }

    /// Compares the index entry of a block with the log.
    pub fn check_index(&self, indexed: Option<&Indexed>, word: u64, header: &Header) {
        if let (Some(Ok(index)), Some(indexed)) = (&self.index, indexed)
            && !indexed.agrees(word, &header.id)
        {
            index.refute(|| format!("its entry of block {} does not match the log", header.number));
        }
    }

    pub fn index_use(&self) -> Option<IndexUse> {
        self.index.as_ref().map(|index| index.as_ref().map_or_else(Clone::clone, LogIndex::used))
    }
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => shrank(path),
        _ => Error::io("read", path)(error),
    }
}
