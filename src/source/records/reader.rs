//! Cuts a stream into chunks of whole records.

use std::path::Path;
use std::sync::Arc;

use crc_fast::CrcAlgorithm;
use serde::{Deserialize, Serialize};

use super::frame::{Framed, Trailer, frame, key_at, record_at};
use super::header::{MAX_HEADER, RecordFormat, RecordHeader, read_header};
use super::problem::{MAX_KEY, RecordLimits, damaged, wrong};
use super::text;
use crate::error::{Error, InputKind, Result};
use crate::os::buffer::Buffer;
use crate::os::resources::prefetch;
use crate::source::StatedProblem;
use crate::source::car::{Bytes, ChunkBytes};
use crate::source::input::{Input, Remote, Restart};

/// That of zlib, gzip and PNG.
pub const CRC: CrcAlgorithm = CrcAlgorithm::Crc32IsoHdlc;

/// Bytes of the first read of a header.
const HEAD: usize = 4096;

/// A record has two lengths of four bytes. A line of text has twice the bytes of its record, and 10 more.
const FRAME: u64 = 8;
const LINE: u64 = 10;

/// Bytes at the front of a record that are prefetched to read its lengths, and the most of it that are then prefetched.
const FIRST_PREFETCHED: usize = 65;
const MAX_PREFETCHED: usize = 2048;

/// Consecutive whole records of a stream, or lines of text.
pub struct RecordChunk {
    pub name: Arc<Path>,
    /// The offset of the first byte in the decompressed source.
    base: u64,
    /// The column family of the first record.
    family: u16,
    bytes: ChunkBytes,
    /// The CRC-32 of the bytes when they were read.
    crc: u64,
    starts: Vec<u32>,
    switches: Vec<(u32, u16)>,
    is_text: bool,
}

/// A place in a stream, and what is before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordPosition {
    pub offset: u64,
    family: u16,
    records: u64,
    crc: u32,
    /// The place at or before `offset` from which the stream can be unpacked; `None` for its beginning.
    restart: Option<Restart>,
}

pub struct RecordReader {
    pub name: Arc<Path>,
    bytes: Bytes,
    remote: Option<Arc<Remote>>,
    pub header: RecordHeader,
    limits: RecordLimits,
    /// Bytes that were read and belong to no chunk yet.
    carry: Vec<u8>,
    at: RecordPosition,
    has_ended: bool,
    /// The fault after the last chunk.
    fault: Option<Error>,
}

impl RecordReader {
    /// Reads the header of a stream.
    pub fn open(input: Input, format: RecordFormat, mut limits: RecordLimits) -> Result<Self> {
        // Each writer of `kv` makes a trailer.
        limits.allow_no_trailer &= format != RecordFormat::Kv;
        let Input { name, body, remote, .. } = input;
        let (name, mut bytes): (Arc<Path>, _) = (name.into(), Bytes::new(body));
        let mut head = Vec::new();
        let header = loop {
            let filled = head.len();
            head.resize((filled * 2).max(HEAD), 0);
            let read = bytes.fill(&mut head[filled..], &name)?;
            let has_ended = filled + read < head.len();
            head.truncate(filled + read);
            match read_header(&head, format) {
                Ok(Some(header)) => break header,
                Ok(None) if !has_ended && head.len() <= MAX_HEADER => {}
                Ok(None) => {
                    return Err(Error::bad_input(&name, head.len() as u64, damaged("it ends inside its header")));
                }
                Err((at, problem)) => return Err(Error::bad_input(&name, at as u64, problem)),
            }
        };
        if !format.has_trailer() && !limits.allow_no_trailer {
            let reason = "ROCKDUMP has no mark at its end, so a part of it looks complete";
            let hint = "pass --allow-no-trailer if the program that wrote it ended without an error";
            return Err(Error::bad_input(&name, None, StatedProblem::new(InputKind::Unsupported, reason, hint)));
        }
        let carry = head.split_off(header.start);
        let crc = crc_fast::checksum(CRC, &head) as u32;
        let at = RecordPosition { offset: header.start as u64, crc, ..RecordPosition::default() };
        Ok(Self { name, bytes, remote, header, limits, carry, at, has_ended: false, fault: None })
    }

    /// Maps the rest of a plain file of binary records, if possible. Then no chunk has a copy of its bytes.
    pub fn map(&mut self) {
        if self.header.format != RecordFormat::LdbDump {
            self.bytes.start_map(self.at.offset, &self.name);
        }
        if self.bytes.map().is_some() {
            self.carry = Vec::new();
        }
    }

    /// The place of the next chunk.
    pub fn position(&self) -> RecordPosition {
        let restart = match &self.bytes {
            Bytes::Stream(stream) => stream.restart(self.at.offset),
            Bytes::File(_) => None,
        };
        RecordPosition { restart, ..self.at }
    }

    /// The bytes of the compressed source that were read.
    pub fn consumed(&self) -> u64 {
        self.bytes.consumed()
    }

    /// Continues at a place that an earlier run has noted. A stream whose end has no checksum is read up to there, because its
    /// beginning may have changed.
    pub fn skip_to(&mut self, position: RecordPosition) -> Result<()> {
        let has_checksum = self.header.format == RecordFormat::Kv;
        if has_checksum
            && let (Some(restart), Some(remote)) = (&position.restart, &self.remote)
            && let Some(stream) = remote.again(restart)?
        {
            (self.bytes, self.at.offset) = (Bytes::Stream(stream), restart.unpacked);
            self.carry.clear();
        } else if has_checksum && let Bytes::File(_) = self.bytes {
            self.bytes.seek(position.offset);
            (self.at.offset, self.carry) = (position.offset, Vec::new());
        }
        let mut scratch = std::mem::take(&mut self.carry);
        while self.at.offset < position.offset {
            if scratch.is_empty() {
                scratch.resize(self.limits.chunk, 0);
                let filled = self.bytes.fill(&mut scratch, &self.name)?;
                scratch.truncate(filled);
            }
            let left = usize::try_from(position.offset - self.at.offset).unwrap_or(usize::MAX);
            let skipped = scratch.len().min(left);
            if skipped == 0 {
                let problem = damaged("it ends before the place where the import stopped");
                return Err(Error::bad_input(&self.name, self.at.offset, problem));
            }
            self.add_to_crc(&scratch[..skipped]);
            scratch.drain(..skipped);
            self.at.offset += skipped as u64;
        }
        if !has_checksum && self.at.crc != position.crc {
            return Err(Error::bad_input(&self.name, None, damaged("it has changed since the import began")));
        }
        (self.carry, self.at) = (scratch, position);
        Ok(())
    }

    /// Returns the next chunk, or `None` at the end of a whole stream. A stream that is not mapped is read into a `spare` buffer, if
    /// that is large enough.
    pub fn next(&mut self, spare: impl FnOnce() -> Result<Buffer>) -> Result<Option<RecordChunk>> {
        if let Some(fault) = self.fault.take() {
            self.has_ended = true;
            return Err(fault);
        }
        if self.has_ended {
            return Ok(None);
        }
        let next = self.read_chunk(spare);
        self.has_ended |= next.is_err();
        next
    }

    fn read_chunk(&mut self, spare: impl FnOnce() -> Result<Buffer>) -> Result<Option<RecordChunk>> {
        let carried = self.carry.len();
        let mut want = self.limits.chunk.max(carried + 1);
        let mut bytes = match self.bytes.map() {
            Some(map) => ChunkBytes::Mapped { map: Arc::clone(map), at: self.at.offset as usize, len: 0 },
            None => {
                let spare = Some(spare()?).filter(|spare| spare.len() >= want);
                let mut buffer = spare.map_or_else(|| Buffer::new(want), Ok)?;
                buffer[..carried].copy_from_slice(&self.carry);
                want = buffer.len();
                ChunkBytes::Read { buffer, len: carried }
            }
        };
        loop {
            bytes = self.extend(bytes, want)?;
            let data_ends = bytes.len() < want;
            let framed = self.frame(&bytes, data_ends);
            let has_records = framed.len > 0;
            if !has_records && framed.fault.is_none() && framed.trailer.is_none() && !data_ends {
                // One record is longer than the chunk.
                want = framed.needed.max(want + 1);
                continue;
            }
            let before = self.at;
            let crc = self.advance(&bytes[..framed.len], &framed);
            bytes.check()?;
            let ended = self.check_rest(&framed, &bytes[framed.len..], data_ends);
            let chunk = has_records.then(|| self.hand_out(before, bytes, crc, framed));
            return match (chunk, ended) {
                (None, ended) => ended.map(|()| None),
                (Some(chunk), ended) => {
                    self.fault = ended.err();
                    Ok(Some(chunk))
                }
            };
        }
    }

    /// Extends the bytes of a chunk to `want` bytes; fewer at the end of the stream.
    fn extend(&mut self, bytes: ChunkBytes, want: usize) -> Result<ChunkBytes> {
        match bytes {
            ChunkBytes::Read { mut buffer, len } => {
                if buffer.len() < want {
                    let mut larger = Buffer::new(want)?;
                    larger[..len].copy_from_slice(&buffer[..len]);
                    buffer = larger;
                }
                let filled = self.bytes.fill(&mut buffer[len..want], &self.name)?;
                Ok(ChunkBytes::Read { buffer, len: len + filled })
            }
            ChunkBytes::Mapped { map, at, .. } => {
                let at = at.min(map.len());
                let len = want.min(map.len() - at);
                if let Bytes::File(reader) = &mut self.bytes {
                    reader.advise();
                    reader.at = (at + len) as u64;
                }
                map.populate(at, len);
                Ok(ChunkBytes::Mapped { map, at, len })
            }
        }
    }

    fn frame(&mut self, bytes: &[u8], data_ends: bool) -> Framed {
        let families = if self.header.format == RecordFormat::Kv { self.header.families.len() as u32 } else { 0 };
        if self.header.format != RecordFormat::LdbDump {
            return frame(bytes, &self.limits, families);
        }
        let lines = text::whole_lines(bytes);
        // The last line may be the one with the number of records.
        let before = text::whole_lines(bytes.get(..lines.saturating_sub(1)).unwrap_or_default());
        let longest = 2 * (u64::from(MAX_KEY) + self.limits.max_value.min(self.limits.fits)) + 64;
        let mut framed = Framed { len: before, needed: bytes.len() * 2, ..Framed::default() };
        if data_ends && let Some((start, records)) = text::last_line(bytes) {
            framed.len = start;
            framed.trailer = Some(Trailer { records, crc: 0 });
        } else if data_ends && self.limits.allow_no_trailer {
            framed.len = lines;
        } else if before == 0 && bytes.len() as u64 > longest {
            framed.fault = self.limits.refuse(bytes.len() as u64 / 2).map(|problem| (0, problem));
        }
        self.at.records += memchr::memchr_iter(b'\n', &bytes[..framed.len]).count() as u64;
        framed
    }

    /// Checks the bytes after the records.
    fn check_rest(&mut self, framed: &Framed, rest: &[u8], data_ends: bool) -> Result<()> {
        let end = self.at.offset;
        if let Some((at, problem)) = &framed.fault {
            return Err(Error::bad_input(&self.name, end - framed.len as u64 + *at as u64, problem.clone()));
        }
        self.carry.clear();
        if let Some(trailer) = framed.trailer {
            self.has_ended = true;
            return self.check_trailer(framed.needed.saturating_sub(framed.len), trailer, rest);
        }
        if !data_ends {
            if self.bytes.map().is_none() {
                self.carry.extend_from_slice(rest);
            }
            return Ok(());
        }
        self.has_ended = true;
        let is_text = self.header.format == RecordFormat::LdbDump;
        if !rest.is_empty() && !is_text {
            let (needed, left) = (framed.needed.saturating_sub(framed.len), rest.len());
            let reason =
                format!("it ends inside a record, or its trailer, of at least {needed} bytes: it has {left} of them");
            let hint =
                "check the exit code of its producer; if that is 0, check whether a length is big-endian (docs/kv.md)";
            return Err(Error::bad_input(&self.name, end, StatedProblem::new(InputKind::Damaged, reason, hint)));
        }
        if rest.is_empty() && self.limits.allow_no_trailer {
            return Ok(());
        }
        let reason = match is_text {
            true if self.limits.allow_no_trailer => "it ends inside a line: it is cut",
            true => "it has no last line `Keys in range: N` with a line feed: it is cut, or its producer did not end",
            false => "it has no trailer: it is cut, or its producer did not end",
        };
        Err(Error::bad_input(&self.name, end, damaged(reason)))
    }

    /// Compares count and checksum, and checks that nothing follows a trailer of `len` bytes.
    fn check_trailer(&mut self, len: usize, trailer: Trailer, rest: &[u8]) -> Result<()> {
        let RecordPosition { offset: end, records, crc, .. } = self.at;
        let is_kv = self.header.format == RecordFormat::Kv;
        let mut after = [0];
        // The last line of a text ends the text.
        if is_kv && (rest.len() > len || self.bytes.fill(&mut after, &self.name)? > 0) {
            let hint = "give each stream a file of its own, and name all of them";
            let problem = StatedProblem::new(InputKind::Damaged, "more bytes follow the trailer", hint);
            return Err(Error::bad_input(&self.name, end + len as u64, problem));
        }
        if trailer.records != records {
            let reason = format!("its end says that it has {} records, and {records} came", trailer.records);
            let problem = if is_kv { wrong(reason) } else { damaged(reason) };
            return Err(Error::bad_input(&self.name, end, problem));
        }
        if is_kv && trailer.crc != crc {
            let stated = trailer.crc;
            let reason = format!("its CRC-32 is {crc:#010x}, and its trailer says {stated:#010x}");
            return Err(Error::bad_input(&self.name, end, wrong(reason)));
        }
        Ok(())
    }

    /// Moves the position after the records in `bytes`. Returns the CRC-32 of these.
    fn advance(&mut self, bytes: &[u8], framed: &Framed) -> u64 {
        self.at.offset += bytes.len() as u64;
        self.at.records += framed.starts.len() as u64;
        self.at.family = framed.switches.last().map_or(self.at.family, |(_, family)| *family);
        self.add_to_crc(bytes)
    }

    fn add_to_crc(&mut self, bytes: &[u8]) -> u64 {
        let crc = crc_fast::checksum(CRC, bytes);
        self.at.crc = crc_fast::checksum_combine(CRC, self.at.crc.into(), crc, bytes.len() as u64) as u32;
        crc
    }

    fn hand_out(&mut self, before: RecordPosition, mut bytes: ChunkBytes, crc: u64, framed: Framed) -> RecordChunk {
        let Framed { starts, switches, len, .. } = framed;
        bytes.truncate(len);
        let is_text = self.header.format == RecordFormat::LdbDump;
        let (base, family) = (before.offset, before.family);
        RecordChunk { name: Arc::clone(&self.name), base, family, bytes, crc, starts, switches, is_text }
    }
}

impl RecordChunk {
    /// Decodes text. Then the other functions may be called.
    pub fn decode(&mut self, limits: &RecordLimits) -> Result<()> {
        if let ChunkBytes::Read { buffer, len } = &mut self.bytes
            && self.is_text
        {
            let mut records = Vec::with_capacity(*len);
            let decoded = text::decode(&buffer[..*len], limits, &mut records, &mut self.starts);
            decoded.map_err(|(at, problem)| Error::bad_input(&self.name, self.base + at as u64, problem))?;
            buffer[..records.len()].copy_from_slice(&records);
            *len = records.len();
        }
        Ok(())
    }

    /// The key and the value of the record at an offset.
    pub fn record(&self, at: u32) -> (&[u8], &[u8]) {
        record_at(&self.bytes, at as usize).unwrap_or_default()
    }

    /// The key of the record at an offset.
    pub fn key(&self, at: u32) -> &[u8] {
        key_at(&self.bytes, at as usize).unwrap_or_default()
    }

    /// True if a mapped file has not changed since the chunk was read. Called after the digests of its records were computed: if these
    /// are still the same when the records are in their files, all of them have the checksum of the stream.
    pub fn is_unchanged(&self) -> Result<bool> {
        self.check()?;
        let is_mapped = matches!(self.bytes, ChunkBytes::Mapped { .. });
        Ok(!is_mapped || crc_fast::checksum(CRC, &self.bytes) == self.crc)
    }

    /// Checks that everything read so far came from the source.
    pub fn check(&self) -> Result<()> {
        self.bytes.check()
    }

    /// Prefetches the first bytes of the record at an offset, or, once these are in the cache, all of it.
    pub fn prefetch(&self, at: u32, is_begun: bool) {
        let (key, value) = if is_begun { self.record(at) } else { Default::default() };
        let len = (FRAME as usize + key.len() + value.len()).clamp(FIRST_PREFETCHED, MAX_PREFETCHED);
        let rest = self.bytes.get(at as usize..).unwrap_or_default();
        rest[..len.min(rest.len())].iter().step_by(64).for_each(prefetch);
    }

    /// The offset in the source of the record at an offset.
    pub fn offset_of(&self, at: u32) -> u64 {
        if !self.is_text {
            return self.base + u64::from(at);
        }
        let number = self.starts.partition_point(|start| *start < at) as u64;
        self.base + 2 * (u64::from(at) - FRAME * number) + LINE * number
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        self.bytes.memory() + (self.starts.capacity() * size_of::<u32>()) as u64
    }

    /// Frees the list of records. Only text needs it for the offsets of records.
    pub fn forget_records(&mut self) {
        if !self.is_text {
            (self.starts, self.switches) = (Vec::new(), Vec::new());
        }
    }

    /// Moves the bytes into a small buffer if they take less than half of theirs, and returns the old one.
    pub fn shrink(&mut self, new: impl FnOnce(usize) -> Result<Buffer>) -> Result<Option<Buffer>> {
        self.bytes.shrink(new)
    }

    /// Bytes of the records.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Releases the memory, and returns the buffer for another chunk.
    pub fn release(self) -> Option<Buffer> {
        self.bytes.release()
    }

    /// The offsets of the records, each with its column family.
    pub fn records(&self) -> impl Iterator<Item = (u32, u16)> {
        let (mut switches, mut family) = (self.switches.iter().peekable(), self.family);
        (0..).zip(&self.starts).map(move |(number, start)| {
            while let Some((_, next)) = switches.next_if(|(at, _)| *at <= number) {
                family = *next;
            }
            (*start, family)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::source::input::Body;
    use crate::source::records::{put_header, put_record};

    #[test]
    fn mapped_chunk_notices_a_changed_byte() {
        crate::handle_sigbus();
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.kv");
        let mut stream = Vec::new();
        put_header(&mut stream, &["default".to_owned()], false);
        (0..100_u8).for_each(|key| put_record(&mut stream, &[key], &[7; 100]));
        std::fs::write(&path, &stream).expect("written");
        let limits =
            RecordLimits { max_value: 1 << 20, fits: 1 << 20, budget: 1 << 30, chunk: 4096, allow_no_trailer: true };
        let file = File::open(&path).expect("opened");
        let input = Input::plain(&path, stream.len() as u64, Body::File(file));
        let mut reader = RecordReader::open(input, RecordFormat::Kv, limits).expect("a header");
        reader.map();
        let chunk = reader.next(|| Buffer::new(0)).expect("read").expect("a chunk");
        assert!(matches!(chunk.bytes, ChunkBytes::Mapped { .. }), "it is not mapped");
        assert!(chunk.is_unchanged().expect("readable"));
        let file = File::options().write(true).open(&path).expect("opened");
        file.write_all_at(&[8], reader.header.start as u64 + 20).expect("written");
        assert!(!chunk.is_unchanged().expect("readable"));
    }
}
