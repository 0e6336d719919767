//! A CAR as a sequence of chunks: buffers that hold whole sections, in the order of the file.
//!
//! This is the only part of reading that one thread must do at a time, so it does the least: it reads bytes and hops
//! from length to length. CIDs are read and blocks hashed by the worker that takes the chunk.
//!
//! Several sources are one sequence: where one ends cleanly the next is opened, not before. No chunk has sections of two
//! of them, and each chunk names the one that it is of; offsets are always those in that source. A source may hold
//! several CARs one behind the other, where the caller accepts that: the same happens at the header of each.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::bytes::Bytes;
use super::chunk::{Chunk, ChunkBytes, prefetch_ahead};
use super::header::{Begins, begins_header};
use super::metadata::{MAX_METADATA, Metadata};
use super::pass_over::{Next, PassOver, Passed};
use super::sources::{Following, SourceRead};
use super::{
    CarProblem, Header, HeaderStep, MAX_ROOTS, NullPadding, RawCid, Section, Step, next_section, read_header, varint,
};
use crate::error::{Error, Result};
use crate::os::buffer::Buffer;
use crate::os::mmap::Mapped;
use crate::source::block_log::is_block_log;
use crate::source::foreign;
use crate::source::input::{Expected, Input, Prefixed, Remote, Restart};

/// How many bytes are read first, to find the header in.
const FIRST_READ: usize = 64 << 10;

/// Bytes in which every header has its first field.
const LEAST_HEAD: usize = 64;

/// The most that is read to find the header: padding of a CARv2 and header, in bytes.
const MAX_HEAD: u64 = super::MAX_HEADER + MAX_PADDING;
const MAX_PADDING: u64 = 4 << 20;

/// Memory for the roots of a header, as a multiple of its length, and for each root, in bytes: what is read, the CIDs, their
/// texts, the journal, the record and the report. Headers of less than a MiB fit any budget.
const HEADER_COPIES: u64 = 20;
const ROOT: u64 = 450;
const SMALL_HEADER: u64 = 1 << 20;

/// Bytes of a block that is passed over, at once.
const PIECE: usize = 1 << 20;

/// The limits of a reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The longest section, in bytes.
    pub max_block: u64,
    /// What a length of zero means.
    pub null_padding: NullPadding,
    /// The longest section that the memory budget can hold, in bytes.
    pub fits: u64,
    /// The budget itself in bytes, for the message.
    pub budget: u64,
    /// Bytes of one chunk; a longer section gets a chunk of its own.
    pub chunk: usize,
}

impl Limits {
    /// Returns the budget that a header of `len` bytes with `roots` needs, if it is more than there is.
    fn needs_of_header(&self, len: u64, roots: usize) -> Option<u64> {
        let needs = (len * HEADER_COPIES).max(roots as u64 * ROOT);
        (len > SMALL_HEADER && needs > self.budget).then(|| needs.next_multiple_of(64 << 20))
    }
}

/// What is found out about the file when its last chunk has been taken.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    /// Bytes of null padding behind the blocks.
    pub padding: u64,
}

/// Receives a section that is passed by, and the bytes that it is in.
pub(crate) type PassSection<'a> = &'a mut dyn FnMut(&[u8], Section) -> Result<()>;

/// Reads a CAR front to back, in chunks; or several.
pub(crate) struct Chunks {
    name: Arc<Path>,
    bytes: Bytes,
    /// Bytes of the file that were read but belong to no chunk yet.
    carry: Vec<u8>,
    /// Bytes that were read behind the data of a CARv2.
    behind: Vec<u8>,
    /// Where `carry` begins in the decompressed file.
    position: u64,
    /// Where the blocks end according to the header.
    end: Option<u64>,
    /// Size of the data, where that is known.
    size: Option<u64>,
    limits: Limits,
    next_index: u32,
    done: bool,
    /// Whether an error has ended it.
    broken: bool,
    /// Whether the header of one more CAR comes next.
    part_follows: bool,
    /// What is wrong behind the chunk that was handed out last: the blocks before a fault come first, so that the first
    /// fault of the file is reported, and the same one whatever the size of a chunk.
    fault: Option<Error>,
    /// Null padding of this source.
    padding: u64,
    /// Of everything handed out or passed over, for sources that cannot be sought; none once one has begun in its middle.
    checksum: Option<XxHash3_64>,
    /// What a stream comes from, where it can begin in its middle; and the sum that all of it is compared with.
    remote: Option<Arc<Remote>>,
    sum: Option<Arc<Expected>>,
    /// Bytes of sections handed out or passed over, of all sources.
    taken: u64,
    /// The source that is read now; the others, and what is known of each.
    source: u32,
    following: Option<Following>,
    reads: Vec<SourceRead>,
    /// Bytes on disk of the sources before this one.
    before: u64,
    /// Bytes of all roots.
    roots_bytes: u64,
    /// Whether plain files are mapped.
    maps: bool,
    /// Whether threads read plain files ahead.
    has_readers: bool,
    /// Whether a file may hold several CARs.
    concatenated: bool,
    /// The index of a CARv2 ends the file: nobody loses blocks that stand behind it.
    index_is_last: bool,
    /// Where the index of a CARv2 begins in its file; without one there is no such place.
    index_at: u64,
    /// The first source, and the place in it, where bytes follow the data of a CARv2 that its header does not speak of.
    unspoken: Option<(Arc<Path>, u64)>,
    /// Whether F3 data are in no chunk, and then whether they are hashed.
    over_f3: Option<bool>,
    /// The block of this source that is in no chunk.
    over: Option<PassOver>,
    /// Whether it comes next, at the front of `carry`.
    is_next: bool,
}

impl Chunks {
    /// Reads the header of `input`; the first section comes next.
    pub fn open(input: Input, limits: Limits) -> Result<(Header, Self)> {
        let mut chunks = Self {
            name: Path::new("").into(),
            bytes: Bytes::Stream(Box::new(Prefixed::default())),
            carry: Vec::new(),
            behind: Vec::new(),
            position: 0,
            end: None,
            size: None,
            limits,
            next_index: 0,
            done: false,
            broken: false,
            part_follows: false,
            fault: None,
            padding: 0,
            checksum: None,
            remote: None,
            sum: None,
            taken: 0,
            source: 0,
            following: None,
            reads: vec![SourceRead::default()],
            before: 0,
            roots_bytes: 0,
            maps: false,
            has_readers: false,
            concatenated: false,
            index_is_last: false,
            index_at: u64::MAX,
            unspoken: None,
            over_f3: None,
            over: None,
            is_next: false,
        };
        let header = chunks.begin(input)?;
        Ok((header, chunks))
    }

    /// Goes on with these sources when the first one ends.
    pub fn follow(&mut self, following: Following) {
        self.reads.resize_with(following.names.len().max(1), SourceRead::default);
        for (source, read) in (0..).zip(&mut self.reads) {
            read.source = source;
        }
        self.following = Some(following);
    }

    /// From now on a source may hold several CARs, one behind the other. With `index_is_last` an index ends it; without, what
    /// stands behind a CARv2 and is no CAR is an error, because a CAR may follow it.
    pub fn accept_concatenated(&mut self, index_is_last: bool) {
        (self.concatenated, self.index_is_last) = (true, index_is_last);
    }

    /// From now on the F3 data of a snapshot of version 2, if the first block of a source, one of its `roots`, names some, are
    /// in no chunk: they are read in pieces, hashed where `verify`, and counted.
    ///
    /// # Errors
    /// [`Error::BadInput`], [`Error::Io`]: the source cannot be read.
    pub fn pass_over_f3(&mut self, roots: &[RawCid], verify: bool) -> Result<()> {
        self.over_f3 = Some(verify);
        let section = loop {
            let missing = match next_section(&self.carry, 0, MAX_METADATA as u64) {
                Ok(Step::Section(section)) => break section,
                Ok(Step::Cut { missing, .. }) => missing,
                // Reading tells what is wrong.
                Ok(_) | Err(_) => return Ok(()),
            };
            let filled = self.carry.len();
            let window = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.position + filled as u64));
            self.carry.resize(filled + missing.min(window) as usize, 0);
            let more = self.bytes.fill(&mut self.carry[filled..], &self.name)?;
            self.carry.truncate(filled + more);
            if more == 0 {
                return Ok(());
            }
        };
        let (cid, block) = section.body(&self.carry).split_at(section.cid.len as usize);
        if roots.iter().any(|root| root.as_bytes() == cid) {
            self.over = Metadata::read(block).and_then(|metadata| PassOver::new(metadata.f3?, verify));
        }
        Ok(())
    }

    /// Takes up what an earlier run has passed over before the position, in this source.
    pub fn take_up_passed(&mut self, known: Option<&Passed>) {
        if let Some(over) = &mut self.over {
            let none = Passed { cid: over.cid.to_string(), ..Passed::default() };
            over.passed = known.filter(|known| known.cid == none.cid).cloned().unwrap_or(none);
        }
    }

    /// Begins a source and reads its header.
    fn begin(&mut self, input: Input) -> Result<Header> {
        let Input { name, size, body, compression, remote, expected, .. } = input;
        self.name = name.into();
        (self.remote, self.sum) = (remote, expected);
        self.bytes = Bytes::new(body);
        self.size = size.filter(|_| matches!(self.bytes, Bytes::File(_)));
        (self.carry, self.behind, self.position, self.end) = (Vec::new(), Vec::new(), 0, None);
        (self.done, self.part_follows, self.fault, self.padding) = (false, false, None, 0);
        (self.over, self.is_next) = (None, false);
        self.checksum = matches!(self.bytes, Bytes::Stream(_)).then(XxHash3_64::new);
        let header = self.read_head()?;
        if let Some(verify) = self.over_f3 {
            self.pass_over_f3(&header.roots, verify)?;
        }
        if self.maps {
            self.map();
        }
        if self.has_readers {
            self.start_readers()?;
        }
        let read = &mut self.reads[self.source as usize];
        read.sum = self.sum.as_deref().cloned().map(Box::new);
        if read.version == 0 {
            (read.version, read.compression) = (header.version, compression.name().into());
            read.roots.clone_from(&header.roots);
            // Whoever goes on reads the header of the first source again.
            read.noted_roots = if self.source == 0 { read.roots.len() } else { 0 };
            self.count_roots(&header)?;
        }
        Ok(header)
    }

    /// Reads the header at the current position; the first section comes next.
    fn read_head(&mut self) -> Result<Header> {
        let Self { name, bytes, .. } = self;
        let (name, part) = (Arc::clone(name), self.position);
        let mut head = std::mem::take(&mut self.carry);
        let mut filled = head.len();
        if filled < FIRST_READ {
            head.resize(FIRST_READ, 0);
            filled += bytes.fill(&mut head[filled..], &name)?;
        }
        let mut size = self.size.map(|size| size.saturating_sub(part));
        let header = loop {
            if filled < head.len() {
                head.truncate(filled);
                // Everything is here: now the size is known even of a stream.
                size = Some(filled as u64);
            }
            if head.is_empty() {
                return Err(Error::bad_input(&name, 0, crate::source::input::CompressionProblem::Empty));
            }
            let step = read_header(&head, size).map_err(|(problem, at)| {
                let foreign = if part == 0 { foreign::kind(&head, || bytes.tail()) } else { None };
                let ends = size == Some(head.len() as u64);
                match foreign {
                    Some((what, hint)) => Error::bad_input(&name, at, CarProblem::Foreign { what, hint }),
                    None if part == 0 => no_header(&name, &head, ends, problem, at),
                    None => Error::bad_input(&name, part + at, problem),
                }
            })?;
            match step {
                HeaderStep::Header(header) => break header,
                HeaderStep::NeedMore(len) if len > MAX_HEAD => {
                    let reason = format!("its header would end at byte {len}, beyond all reason");
                    return Err(Error::bad_input(&name, part, CarProblem::V2Header { reason }));
                }
                // A CARv2 may have some padding in front.
                HeaderStep::NeedMore(len)
                    if self.limits.needs_of_header(len.saturating_sub(MAX_PADDING), 0).is_some() =>
                {
                    return Err(self.over_budget(&name, part, len, 0));
                }
                HeaderStep::NeedMore(_) if size == Some(head.len() as u64) => {
                    let problem = CarProblem::Truncated { inside: "the header" };
                    let end = head.len() as u64;
                    return Err(match part {
                        0 => no_header(&name, &head, true, problem, end),
                        part => Error::bad_input(&name, part + end, problem),
                    });
                }
                HeaderStep::NeedMore(len) => {
                    // Grown by doubling, and only as data comes: a claimed length alone moves nothing.
                    let target = (len as usize).min(head.len().saturating_mul(2)).max(head.len() + 1);
                    head.resize(target, 0);
                    filled += bytes.fill(&mut head[filled..], &name)?;
                }
            }
        };
        let len = header.blocks_start - header.v2.map_or(0, |v2| v2.data_offset);
        if self.limits.needs_of_header(len, header.roots.len()).is_some() {
            return Err(self.over_budget(&name, part, len, header.roots.len()));
        }
        let start = header.blocks_start as usize;
        if part > 0
            && let Some(checksum) = &mut self.checksum
        {
            checksum.write(head.get(..start).unwrap_or_default());
        }
        self.position = part + header.blocks_start;
        self.end = header.blocks_end().map(|end| part + end);
        self.index_at = header.index_at().map_or(u64::MAX, |at| part + at);
        if self.is_mapped() {
            self.bytes.seek(self.position);
        } else {
            self.carry = head.get(start..).unwrap_or_default().to_vec();
            self.cut_carry();
        }
        Ok(header)
    }

    fn over_budget(&self, name: &Path, at: u64, len: u64, roots: usize) -> Error {
        let (budget, needs) = (self.limits.budget, self.limits.needs_of_header(len, roots).unwrap_or_default());
        Error::bad_input(name, at, CarProblem::HeaderOverBudget { len, budget, needs })
    }

    /// Sets aside what was read behind the data of a CARv2.
    fn cut_carry(&mut self) {
        if let Some(end) = self.end {
            let keep = usize::try_from(end.saturating_sub(self.position)).unwrap_or(usize::MAX);
            if self.carry.len() > keep {
                let mut behind = self.carry.split_off(keep);
                behind.append(&mut self.behind);
                self.behind = behind;
            }
        }
    }

    /// What the caller should know of what was read to its end.
    pub fn warning(&self) -> Option<String> {
        let (name, at) = self.unspoken.as_ref()?;
        let place = format!("{} at byte {at}", name.display());
        Some(format!(
            "{place}: bytes follow the data of the CARv2 that its header does not speak of, and are not imported"
        ))
    }

    /// Opens `source`, and reads its header, unless it is the one that is read now.
    ///
    /// # Errors
    /// As [`Chunks::open`].
    pub fn go_to(&mut self, source: u32) -> Result<()> {
        if source == self.source {
            return Ok(());
        }
        let Some(following) = &mut self.following else { return Ok(()) };
        // What decompresses the last one ends before another one is opened.
        (self.bytes, self.carry, self.remote) = (Bytes::Stream(Box::new(Prefixed::default())), Vec::new(), None);
        let input = (following.open)(source as usize)?;
        let known = following.bytes.iter().zip(&self.reads).take(source as usize);
        self.before = known.map(|(bytes, read)| bytes.unwrap_or(read.bytes)).sum();
        self.source = source;
        self.begin(input).map(drop)
    }

    /// What is kept of all headers has a limit.
    fn count_roots(&mut self, header: &Header) -> Result<()> {
        self.roots_bytes += header.roots.iter().map(|root| root.as_bytes().len() as u64).sum::<u64>();
        if self.roots_bytes > MAX_ROOTS && (self.source > 0 || self.position > header.blocks_start) {
            return Err(Error::bad_input(&self.name, self.position, CarProblem::TooManyRoots));
        }
        Ok(())
    }

    /// One more CAR in the same source.
    fn begin_part(&mut self) -> Result<()> {
        self.part_follows = false;
        let part = self.position;
        let header = self.read_head()?;
        let read = &mut self.reads[self.source as usize];
        // A source that is read again is not counted again.
        if part > read.last_part {
            read.last_part = part;
            read.roots.extend_from_slice(&header.roots);
            self.count_roots(&header)?;
        }
        Ok(())
    }

    /// The source that is read now.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The names of all sources.
    pub fn name_of(&self, source: u32) -> &Path {
        let names = self.following.as_ref().map(|following| &following.names);
        names.and_then(|names| names.get(source as usize)).map_or(&*self.name, PathBuf::as_path)
    }

    /// How many sources there are.
    pub fn sources(&self) -> u32 {
        self.reads.len() as u32
    }

    /// Takes up what an earlier run has found out about the sources.
    pub fn take_up(&mut self, known: &[SourceRead]) {
        for read in known {
            let Some(slot) = self.reads.get_mut(read.source as usize) else { continue };
            let mut roots = if read.source == 0 { std::mem::take(&mut slot.roots) } else { Vec::new() };
            roots.extend_from_slice(&read.roots);
            self.roots_bytes += read.roots.iter().map(|root| root.as_bytes().len() as u64).sum::<u64>();
            *slot = SourceRead { noted_roots: roots.len(), roots, ..read.clone() };
        }
    }

    /// What an earlier run has found out.
    pub fn known(&self) -> Vec<SourceRead> {
        self.reads.clone()
    }

    /// Takes the sources at the end.
    pub fn take_reads(&mut self) -> Vec<SourceRead> {
        std::mem::take(&mut self.reads)
    }

    /// All sources, as far as they were read.
    pub fn reads(&mut self) -> &mut [SourceRead] {
        let (position, end, padding, consumed) = (self.position, self.end, self.padding, self.bytes.consumed());
        let checksum = self.checksum();
        let bytes = self.following.as_ref().and_then(|it| it.bytes.get(self.source as usize).copied()).flatten();
        let read = &mut self.reads[self.source as usize];
        (read.offset, read.end, read.padding, read.checksum) = (position, end, padding, checksum);
        read.bytes = bytes.unwrap_or(consumed);
        read.f3 = self.over.as_ref().map(|over| Box::new(over.passed.clone()));
        &mut self.reads
    }

    /// Bytes of the compressed sources consumed so far.
    pub fn consumed(&self) -> u64 {
        self.before + self.bytes.consumed()
    }

    /// The file, where it is read as it is.
    pub fn file(&self) -> Option<&File> {
        match &self.bytes {
            Bytes::File(reader) => Some(&reader.file),
            Bytes::Stream(_) => None,
        }
    }

    /// Whether this source has ended at `offset`, with so much padding.
    pub fn is_at(&self, offset: u64, padding: u64) -> bool {
        (self.position, self.padding) == (offset, padding)
    }

    /// Bytes of sections handed out or passed over, of all sources.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Offset in the decompressed source of the next section to be handed out.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// XXH3-64 of everything handed out so far, for a source that cannot be sought.
    pub fn checksum(&self) -> Option<u64> {
        self.checksum.as_ref().map(Hasher::finish)
    }

    /// The last place at or before [`Chunks::position`] where a later run may begin to unpack a stream.
    pub fn restart(&self) -> Option<Restart> {
        match &self.bytes {
            Bytes::Stream(stream) => stream.restart(self.position),
            Bytes::File(_) => None,
        }
    }

    /// Begins a stream anew at `restart`, where that saves anything or the stream is too far already.
    fn begin_at(&mut self, restart: &Restart, offset: u64) -> Result<()> {
        let saves = restart.unpacked > self.position || offset < self.position;
        if let (Some(remote), true) = (&self.remote, saves && restart.unpacked <= offset)
            && let Some(stream) = remote.again(restart)?
        {
            self.bytes = Bytes::Stream(stream);
            self.carry.clear();
            self.position = restart.unpacked;
            self.checksum = None;
        }
        Ok(())
    }

    /// Continues at `offset` of this source, where an earlier run stopped, in a CAR whose blocks end at `end`. A source
    /// that cannot be sought is read up to there, from `restart` on where that is given and can be; [`Chunks::checksum`]
    /// then shows whether it was the same, unless it began there; `each` receives its sections and the bytes that they are
    /// in.
    ///
    /// # Errors
    /// [`Error::BadInput`]: the source ends before `offset` ([`CarProblem::Truncated`]); [`Error::Io`]: it cannot be
    /// read; or what `each` returns.
    pub fn skip_to(
        &mut self,
        offset: u64,
        end: Option<u64>,
        restart: Option<&Restart>,
        mut each: Option<PassSection<'_>>,
    ) -> Result<()> {
        let cut = |name: &Path, at| {
            Error::bad_input(name, at, CarProblem::Truncated { inside: "the part that was read before" })
        };
        // An earlier run may have known of another sum.
        self.reads[self.source as usize].sum = self.sum.as_deref().cloned().map(Box::new);
        // What was read behind `offset` comes again.
        (self.done, self.fault, self.padding, self.part_follows) = (false, None, 0, false);
        self.is_next = false;
        // There may be several CARs, each with an end of its own.
        self.end = end.or(self.end.filter(|_| !self.concatenated));
        if let Bytes::File(reader) = &mut self.bytes {
            if reader.len(&self.name)? < offset {
                return Err(cut(&self.name, offset));
            }
            reader.at = offset;
            self.position = offset;
            self.carry.clear();
            return Ok(());
        }
        let behind = std::mem::take(&mut self.behind);
        self.carry.extend(behind);
        if let Some(restart) = restart.filter(|_| each.is_none() || self.position > offset) {
            self.begin_at(restart, offset)?;
            each = None;
        }
        if self.position > offset {
            // Read beyond it to be compared, and nothing to begin again with.
            return Err(cut(&self.name, offset));
        }
        let mut scratch = vec![0; FIRST_READ];
        let (mut passing, mut left) = (Vec::new(), 0_u64);
        while self.position < offset {
            if self.carry.is_empty() {
                let filled = self.bytes.fill(&mut scratch, &self.name)?;
                self.carry.extend_from_slice(&scratch[..filled]);
            }
            let take = self.carry.len().min(usize::try_from(offset - self.position).unwrap_or(usize::MAX));
            if take == 0 {
                return Err(cut(&self.name, self.position));
            }
            if let Some(checksum) = &mut self.checksum {
                checksum.write(&self.carry[..take]);
            }
            if let Some(each) = &mut each {
                passing.extend_from_slice(&self.carry[..take]);
                loop {
                    // Of a block that is passed over nothing is kept.
                    let over = passing.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    passing.drain(..over);
                    left -= over as u64;
                    let passed = self.pass(&passing, each)?;
                    passing.drain(..passed);
                    match self.over.as_ref().map(|over| over.is_next(&passing)) {
                        Some(Next::This(place)) if left == 0 => left = place.total,
                        _ => break,
                    }
                }
            }
            self.carry.drain(..take);
            self.position += take as u64;
        }
        self.cut_carry();
        Ok(())
    }

    /// Hands the whole sections at the front of `bytes` to `each`; how many bytes these are.
    fn pass(&self, bytes: &[u8], each: &mut PassSection<'_>) -> Result<usize> {
        let Limits { max_block, fits, .. } = self.limits;
        let mut at = 0;
        loop {
            if self.concatenated && begins_header(&bytes[at..]) == Begins::Header {
                match read_header(&bytes[at..], None) {
                    Ok(HeaderStep::Header(header)) => at += header.blocks_start as usize,
                    Ok(HeaderStep::NeedMore(_)) => return Ok(at),
                    Err((problem, _)) => return Err(Error::bad_input(&self.name, self.position, problem)),
                }
                continue;
            }
            let rest = bytes.get(at..).unwrap_or_default();
            if self.over.as_ref().is_some_and(|over| !matches!(over.is_next(rest), Next::Another)) {
                return Ok(at);
            }
            match next_section(bytes, at, max_block.min(fits)) {
                Ok(Step::Section(section)) => {
                    each(bytes, section)?;
                    at = section.end;
                }
                Ok(_) => return Ok(at),
                Err((problem, _)) => return Err(Error::bad_input(&self.name, self.position, problem)),
            }
        }
    }

    /// What was found at the end; meaningful when [`Chunks::next`] has returned `None`.
    pub fn tail(&self) -> Tail {
        let earlier = self.reads.iter().take(self.source as usize).map(|read| read.padding).sum::<u64>();
        Tail { padding: earlier + self.padding }
    }

    /// The next chunk, in `spare` when it is large enough; `None` at the clean end of the last source.
    pub fn next(&mut self, mut spare: Option<Buffer>) -> Result<Option<Chunk>> {
        loop {
            let next = self.next_here(spare.take())?;
            if next.is_some() || self.broken || self.source + 1 >= self.sources() {
                return Ok(next);
            }
            self.reads();
            // After an error nothing more is read.
            let next = self.go_to(self.source + 1);
            self.unless_broken(next)?;
        }
    }

    fn unless_broken<T>(&mut self, outcome: Result<T>) -> Result<T> {
        self.broken |= outcome.is_err();
        outcome
    }

    /// The next chunk of this source; `None` at its clean end.
    pub fn next_here(&mut self, mut spare: Option<Buffer>) -> Result<Option<Chunk>> {
        loop {
            if let Some(fault) = self.fault.take() {
                return self.unless_broken(Err(fault));
            }
            if self.done || self.broken {
                return Ok(None);
            }
            if self.part_follows {
                let begun = self.begin_part();
                self.unless_broken(begun)?;
            }
            let outcome = self.read_chunk(spare.take());
            let outcome = self.unless_broken(outcome)?;
            if outcome.is_none() && std::mem::take(&mut self.is_next) {
                let passed = self.pass_next();
                self.unless_broken(passed)?;
                continue;
            }
            if outcome.is_none() && self.part_follows {
                continue;
            }
            self.done |= outcome.is_none();
            return Ok(outcome);
        }
    }

    /// Reads the section at the front of `carry`, which is in no chunk.
    fn pass_next(&mut self) -> Result<()> {
        let Some(mut over) = self.over.take() else { return Ok(()) };
        let outcome = self.pass_in_pieces(&mut over);
        self.over = Some(over);
        outcome
    }

    fn pass_in_pieces(&mut self, over: &mut PassOver) -> Result<()> {
        let read = std::mem::take(&mut self.carry);
        let Next::This(place) = over.is_next(&read) else { return Ok(()) };
        let total = usize::try_from(place.total).unwrap_or(usize::MAX);
        let (mine, rest) = read.split_at(read.len().min(total));
        let mut block = over.begin();
        block.write(mine.get(place.head..).unwrap_or_default());
        if let Some(checksum) = &mut self.checksum {
            checksum.write(mine);
        }
        let mut done = mine.len() as u64;
        let mut piece = vec![0; PIECE];
        while done < place.total {
            let window = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.position + done));
            let want = (place.total - done).min(window).min(PIECE as u64) as usize;
            let filled = self.bytes.fill(&mut piece[..want], &self.name)?;
            if filled == 0 {
                return Err(Error::bad_input(
                    &self.name,
                    self.position + done,
                    CarProblem::Truncated { inside: "a block" },
                ));
            }
            if let Some(map) = self.bytes.map() {
                map.release((self.bytes.consumed() as usize).saturating_sub(filled), filled);
            }
            block.write(&piece[..filled]);
            if let Some(checksum) = &mut self.checksum {
                checksum.write(&piece[..filled]);
            }
            done += filled as u64;
        }
        over.end(block).map_err(|problem| Error::bad_input(&self.name, self.position, problem))?;
        self.carry = rest.to_vec();
        self.position += place.total;
        self.taken += place.total;
        Ok(())
    }

    /// From now on chunks are mapped, where a source is a plain file.
    pub fn map(&mut self) {
        self.maps = true;
        if let Bytes::File(reader) = &mut self.bytes
            && let Ok(bytes) = reader.len(&self.name)
            && let Ok(len) = usize::try_from(bytes)
            && self.end.is_none_or(|end| end <= bytes)
            && self.position <= bytes
            && let Some(map) = Mapped::new(&reader.file, len, &self.name)
        {
            map.advise(memmap2::Advice::Sequential);
            self.carry = Vec::new();
            (reader.map, reader.at) = (Some(Arc::new(map)), self.position);
        }
    }

    /// From now on threads read a plain file ahead of the one that frames it.
    ///
    /// # Errors
    /// [`Error::Io`]: the system refuses a thread.
    pub fn start_readers(&mut self) -> Result<()> {
        self.has_readers = true;
        match &mut self.bytes {
            Bytes::File(reader) if reader.map.is_none() => reader.start_threads(&self.name),
            Bytes::File(_) | Bytes::Stream(_) => Ok(()),
        }
    }

    /// Whether chunks of this source are mapped.
    pub fn is_mapped(&self) -> bool {
        self.bytes.map().is_some()
    }

    /// The next chunk of a mapped file: as many whole sections as fill a chunk.
    fn mapped_chunk(&mut self) -> Result<Option<Chunk>> {
        let Bytes::File(reader) = &mut self.bytes else { return Ok(None) };
        reader.advise();
        let Some(map) = reader.map.clone() else { return Ok(None) };
        let start = usize::try_from(reader.at).unwrap_or(usize::MAX).min(map.len());
        let until = self.end.and_then(|end| usize::try_from(end).ok()).unwrap_or(map.len()).clamp(start, map.len());
        let mut window = self.limits.chunk;
        loop {
            let bytes = &map[start..until.min(start.saturating_add(window))];
            let data_ends = start + bytes.len() == until;
            let framed = self.frame(bytes);
            map.check()?;
            if framed.starts.is_empty() && framed.problem.is_none() && !framed.stops() && !data_ends {
                // One section is longer than the chunk.
                window = framed.needed as usize;
                continue;
            }
            if framed.over && framed.starts.is_empty() {
                // Nothing of a mapped file is carried from chunk to chunk.
                self.carry = bytes.get(..framed.needed as usize).unwrap_or_default().to_vec();
                self.bytes.seek((start + self.carry.len()) as u64);
                self.is_next = true;
                return Ok(None);
            }
            let behind = start + framed.len;
            self.bytes.seek(if framed.padding { until } else { behind } as u64);
            let rest = if framed.padding { &map[behind..until] } else { &bytes[framed.len..] };
            let fault = self.check_rest(&framed, rest, data_ends, false);
            let bytes = ChunkBytes::Mapped { map: Arc::clone(&map), at: start, len: framed.len };
            return self.hand_out(bytes, framed.starts, fault);
        }
    }

    fn read_chunk(&mut self, spare: Option<Buffer>) -> Result<Option<Chunk>> {
        if self.is_mapped() {
            return self.mapped_chunk();
        }
        let (least, carry) = (self.limits.chunk, self.carry.len());
        let fits = |buffer: &Buffer| buffer.len() >= least && buffer.len() > carry;
        let mut buffer = match spare.filter(fits) {
            Some(buffer) => buffer,
            None => Buffer::new(least.max(carry + 1))?,
        };
        let mut filled = self.carry.len();
        buffer[..filled].copy_from_slice(&self.carry);
        loop {
            let window = self.end.map_or(u64::MAX, |end| end - self.position);
            let want = buffer.len().min(usize::try_from(window).unwrap_or(usize::MAX));
            if want > filled {
                filled += self.bytes.fill(&mut buffer[filled..want], &self.name)?;
            }
            let data_ends = filled < want || filled as u64 == window;
            let framed = self.frame(&buffer[..filled]);
            let rest = &buffer[framed.len..filled];
            if framed.over && framed.starts.is_empty() {
                self.carry.clear();
                self.carry.extend_from_slice(rest);
                self.is_next = true;
                return Ok(None);
            }
            let fault = self.check_rest(&framed, rest, data_ends, filled < want && self.end.is_some());
            if !framed.starts.is_empty() || fault.is_err() || framed.stops() || data_ends {
                // Behind the data of a CARv2 `carry` has been set.
                if self.end.is_none() || !data_ends || framed.over {
                    self.carry.clear();
                    if fault.is_ok() && !self.done {
                        self.carry.extend_from_slice(rest);
                    }
                }
                let bytes = ChunkBytes::Read { buffer, len: framed.len };
                return self.hand_out(bytes, framed.starts, fault);
            }
            // One section is longer than the chunk: it gets a buffer of exactly its size, which the system fills with
            // memory only as the data comes.
            let needed = framed.needed as usize;
            let mut larger = Buffer::new(needed)?;
            larger[..filled].copy_from_slice(&buffer[..filled]);
            buffer = larger;
        }
    }

    /// Checks `rest`, which follows the whole sections: `data_ends` says that the data ends with it, `short` that this
    /// is before the end in the header.
    fn check_rest(&mut self, framed: &Framed, rest: &[u8], data_ends: bool, short: bool) -> Result<()> {
        if let Some((problem, at)) = &framed.problem {
            return Err(Error::bad_input(&self.name, self.position + *at as u64, problem.clone()));
        }
        if framed.over {
            return Ok(());
        }
        let behind = self.position + framed.len as u64;
        if framed.padding {
            self.take_padding(rest, behind)?;
            return self.finish(behind);
        }
        if framed.header {
            return self.expect_part(behind);
        }
        if short {
            return Err(self.cut(rest, framed.len, "the data that its CARv2 header promises"));
        }
        match data_ends {
            true if rest.is_empty() => self.finish(behind),
            true => Err(self.cut(rest, framed.len, "a section")),
            false => Ok(()),
        }
    }

    /// Hands out the sections that were found; a fault behind them waits until they have been taken.
    fn hand_out(&mut self, bytes: ChunkBytes, starts: Vec<u32>, fault: Result<()>) -> Result<Option<Chunk>> {
        if starts.is_empty() {
            return fault.map(|()| None);
        }
        self.fault = fault.err();
        let (index, base) = (self.next_index, self.position);
        self.next_index += 1;
        self.position += bytes.len() as u64;
        self.taken += bytes.len() as u64;
        if let Some(checksum) = &mut self.checksum {
            checksum.write(&bytes);
        }
        let (source, name) = (self.source, Arc::clone(&self.name));
        Ok(Some(Chunk { index, source, name, base, bytes, starts }))
    }

    /// Hops over whole sections.
    fn frame(&self, bytes: &[u8]) -> Framed {
        let Limits { max_block, fits, budget, .. } = self.limits;
        let starts = Vec::with_capacity(bytes.len() / 512);
        let mut framed =
            Framed { starts, len: 0, needed: 0, padding: false, header: false, over: false, problem: None };
        while framed.len < bytes.len() {
            let at = framed.len;
            prefetch_ahead(bytes, at);
            let (len, len_bytes) = match varint::read(&bytes[at..], "a section's length") {
                Ok(Some(found)) => found,
                Ok(None) => {
                    framed.needed = bytes.len() as u64 + 1;
                    break;
                }
                Err(problem) => {
                    framed.problem = Some((problem, at));
                    break;
                }
            };
            if len == 0 {
                framed.padding = true;
                break;
            }
            // One compare, of a byte that is in the cache: see `begins_header`.
            if bytes.get(at + len_bytes).is_some_and(|&first| first >= 0xa0) && self.end.is_none() {
                match begins_header(&bytes[at..]) {
                    Begins::Header => {
                        framed.header = true;
                        break;
                    }
                    // A whole section of fewer bytes is none.
                    Begins::NeedMore if len > (bytes.len() - at - len_bytes) as u64 => {
                        framed.needed = bytes.len() as u64 + 1;
                        break;
                    }
                    Begins::NeedMore | Begins::Other => {}
                }
            }
            match self.over.as_ref().map(|over| over.is_next(&bytes[at..])) {
                Some(Next::This(place)) => {
                    (framed.over, framed.needed) = (true, place.head as u64);
                    break;
                }
                Some(Next::Cut) => {
                    framed.problem = next_section(bytes, at, u64::MAX).err();
                    framed.needed = bytes.len() as u64 + 1;
                    break;
                }
                Some(Next::Another) | None => {}
            }
            if len > max_block {
                framed.problem = Some((CarProblem::BlockTooLarge { len, max: max_block }, at));
                break;
            }
            if len > fits {
                let needs = budget.saturating_mul(len).div_ceil(fits.max(1)).next_multiple_of(64 << 20);
                framed.problem = Some((CarProblem::BlockOverBudget { len, budget, needs }, at));
                break;
            }
            let end = at + len_bytes + len as usize;
            if end > bytes.len() {
                // The part of the CID that is here may already be wrong.
                framed.problem = next_section(bytes, at, max_block).err();
                framed.needed = end as u64;
                break;
            }
            framed.starts.push(at as u32);
            framed.len = end;
        }
        framed
    }

    /// The data ends inside `rest`, which begins at `skipped` of the buffer: says what is cut, at the byte where it ends.
    fn cut(&self, rest: &[u8], skipped: usize, fallback: &'static str) -> Error {
        let inside = match next_section(rest, 0, self.limits.max_block) {
            Ok(Step::Cut { inside, .. }) => inside,
            _ => fallback,
        };
        let end = self.position + (skipped + rest.len()) as u64;
        Error::bad_input(&self.name, end, CarProblem::Truncated { inside })
    }

    /// Null padding begins: where the caller allows it, it is the end of the blocks, and only zeros may follow.
    fn take_padding(&mut self, rest: &[u8], at: u64) -> Result<()> {
        if self.limits.null_padding == NullPadding::Error {
            return Err(Error::bad_input(&self.name, at, CarProblem::NullPadding));
        }
        let mut offset = at;
        let mut check = |bytes: &[u8]| match bytes.iter().position(|&byte| byte != 0) {
            Some(found) => Err(Error::bad_input(&self.name, offset + found as u64, CarProblem::DataAfterPadding)),
            None => {
                offset += bytes.len() as u64;
                Ok(())
            }
        };
        check(rest)?;
        let mut scratch = vec![0; FIRST_READ];
        loop {
            let window = self.end.map_or(u64::MAX, |end| end.saturating_sub(at + self.padding + rest.len() as u64));
            let want = scratch.len().min(usize::try_from(window).unwrap_or(usize::MAX));
            let filled = self.bytes.fill(&mut scratch[..want], &self.name)?;
            check(&scratch[..filled])?;
            self.padding += filled as u64;
            if filled < scratch.len() {
                break;
            }
        }
        self.padding += rest.len() as u64;
        let found = at + self.padding;
        if self.end.is_some_and(|end| found < end) {
            let inside = "the data that its CARv2 header promises";
            return Err(Error::bad_input(&self.name, found, CarProblem::Truncated { inside }));
        }
        Ok(())
    }

    /// The header of one more CAR stands at `at`.
    fn expect_part(&mut self, at: u64) -> Result<()> {
        if !self.concatenated {
            return Err(Error::bad_input(&self.name, at, CarProblem::Concatenated));
        }
        self.part_follows = true;
        Ok(())
    }

    /// The blocks of a CAR are over at `at`. What follows (a CARv2's index) is read only where that proves the compression
    /// whole, or is one more CAR.
    fn finish(&mut self, at: u64) -> Result<()> {
        if let Some(end) = self.end {
            let mut behind = std::mem::take(&mut self.behind);
            if behind.len() < FIRST_READ {
                let have = behind.len();
                behind.resize(FIRST_READ, 0);
                self.bytes.seek(end + have as u64);
                let filled = self.bytes.fill(&mut behind[have..], &self.name)?;
                behind.truncate(have + filled);
            }
            if begins_header(&behind) == Begins::Header && (at == end || !self.concatenated) {
                self.expect_part(end)?;
                self.bytes.seek(end + behind.len() as u64);
                self.carry = behind;
                return Ok(());
            }
            if self.concatenated && !self.index_is_last && !behind.is_empty() {
                return Err(Error::bad_input(&self.name, end, CarProblem::IndexInConcatenation));
            }
            // The header says where the data end. It may be damaged, so what is neither padding nor index is told.
            let unspoken = usize::try_from(self.index_at.saturating_sub(end)).unwrap_or(usize::MAX);
            if let Some(found) = behind.iter().take(unspoken).position(|&byte| byte != 0) {
                self.unspoken.get_or_insert((Arc::clone(&self.name), end + found as u64));
            }
        }
        self.done = true;
        self.carry = Vec::new();
        if let Bytes::Stream(stream) = &mut self.bytes {
            let mut scratch = vec![0; FIRST_READ];
            while stream.fill(&mut scratch)? > 0 {}
        }
        Ok(())
    }
}

struct Framed {
    starts: Vec<u32>,
    /// Bytes of whole sections.
    len: usize,
    /// Bytes the buffer must hold before the next section is whole.
    needed: u64,
    /// Whether null padding follows.
    padding: bool,
    /// Whether the header of one more CAR follows.
    header: bool,
    /// Whether the block that is in no chunk follows; `needed` is then where it begins in its section.
    over: bool,
    /// What is wrong behind the whole sections, and where in the buffer.
    problem: Option<(CarProblem, usize)>,
}

impl Framed {
    /// Whether no section can follow in a chunk.
    fn stops(&self) -> bool {
        self.padding || self.header || self.over
    }
}

/// The error for a file whose beginning is no header. A file without any field of a header is no CAR.
fn no_header(name: &Path, head: &[u8], ends: bool, problem: CarProblem, at: u64) -> Error {
    let is_cut = head.len() < LEAST_HEAD && matches!(problem, CarProblem::Truncated { .. });
    let problem = match problem {
        CarProblem::NotACar { .. } if is_block_log(head, ends) => {
            CarProblem::Foreign { what: "a block log", hint: "leave --format car out" }
        }
        CarProblem::NotACar { .. } => problem,
        _ if is_cut || foreign::has_header_fields(head) => problem,
        _ => return Error::bad_input(name, 0, CarProblem::NotACar { reason: problem.to_string() }),
    };
    Error::bad_input(name, at, problem)
}

#[cfg(test)]
mod tests;
