//! Reads the next sections of a source, mapped or not.

use std::sync::Arc;

use super::{NextRead, OpenCar};
use crate::error::{Error, Result};
use crate::os::buffer::Buffer;
use crate::source::car::bytes::Bytes;
use crate::source::car::framing::{FramedSections, Stop, frame};
use crate::source::car::{CarProblem, Chunk, ChunkBytes, Step, next_section};

impl OpenCar {
    pub fn map(&mut self) {
        let len = self.size.unwrap_or_default();
        if self.data.end.is_none_or(|end| end <= len) {
            self.bytes.start_map(self.position, &self.name);
        }
        if self.is_mapped() {
            self.carry = Vec::new();
        }
    }

    /// Starts threads that read a plain file ahead, unless it is mapped.
    pub fn start_readers(&mut self) -> Result<()> {
        match &mut self.bytes {
            Bytes::File(reader) if reader.map.is_none() => reader.start_threads(&self.name),
            Bytes::File(_) | Bytes::Stream(_) => Ok(()),
        }
    }

    pub fn is_mapped(&self) -> bool {
        self.bytes.map().is_some()
    }

    /// Returns the next sections of a mapped file: as many as fill a chunk.
    fn mapped_sections(&mut self) -> Result<Option<Chunk>> {
        let Bytes::File(reader) = &mut self.bytes else { return Ok(None) };
        reader.advise();
        let Some(map) = reader.map.clone() else { return Ok(None) };
        let start = usize::try_from(reader.at).unwrap_or(usize::MAX).min(map.len());
        let until =
            self.data.end.and_then(|end| usize::try_from(end).ok()).unwrap_or(map.len()).clamp(start, map.len());
        let limits = self.modes.limits;
        let mut window = limits.chunk;
        loop {
            let bytes = &map[start..until.min(start.saturating_add(window))];
            let data_ends = start + bytes.len() == until;
            let framed = frame(bytes, &limits, self.data.end.is_none(), self.skipped_block.as_ref());
            map.check()?;
            if framed.starts.is_empty() && framed.problem.is_none() && framed.stop.is_none() && !data_ends {
                // One section is longer than the chunk.
                window = framed.needed as usize;
                continue;
            }
            if framed.stop == Some(Stop::SkippedBlock) && framed.starts.is_empty() {
                self.carry = bytes.get(..framed.needed as usize).unwrap_or_default().to_vec();
                self.bytes.seek((start + self.carry.len()) as u64);
                self.next = NextRead::SkippedBlock;
                return Ok(None);
            }
            let end = start + framed.len;
            self.bytes.seek(if framed.stop == Some(Stop::Padding) { until } else { end } as u64);
            let rest = if framed.stop == Some(Stop::Padding) { &map[end..until] } else { &bytes[framed.len..] };
            let fault = self.check_rest(&framed, rest, data_ends, false);
            let bytes = ChunkBytes::Mapped { map: Arc::clone(&map), at: start, len: framed.len };
            return self.hand_out(bytes, framed.starts, fault);
        }
    }

    /// Returns the next whole sections, in `spare` if it is large enough. `None`: see `next`.
    pub fn read_sections(&mut self, spare: Option<Buffer>) -> Result<Option<Chunk>> {
        if self.is_mapped() {
            return self.mapped_sections();
        }
        let limits = self.modes.limits;
        let (least, carry) = (limits.chunk, self.carry.len());
        let fits = |buffer: &Buffer| buffer.len() >= least && buffer.len() > carry;
        let mut buffer = match spare.filter(fits) {
            Some(buffer) => buffer,
            None => Buffer::new(least.max(carry + 1))?,
        };
        let mut filled = self.carry.len();
        buffer[..filled].copy_from_slice(&self.carry);
        loop {
            let window = self.window(self.position);
            let want = buffer.len().min(window);
            if want > filled {
                filled += self.bytes.fill(&mut buffer[filled..want], &self.name)?;
            }
            let data_ends = filled < want || filled == window;
            let framed = frame(&buffer[..filled], &limits, self.data.end.is_none(), self.skipped_block.as_ref());
            let rest = &buffer[framed.len..filled];
            if framed.stop == Some(Stop::SkippedBlock) && framed.starts.is_empty() {
                self.carry.clear();
                self.carry.extend_from_slice(rest);
                self.next = NextRead::SkippedBlock;
                return Ok(None);
            }
            let fault = self.check_rest(&framed, rest, data_ends, filled < want && self.data.end.is_some());
            if !framed.starts.is_empty() || fault.is_err() || framed.stop.is_some() || data_ends {
                // At the end of the data of a CARv2, `carry` has been set.
                if self.data.end.is_none() || !data_ends || framed.stop == Some(Stop::SkippedBlock) {
                    self.carry.clear();
                    if fault.is_ok() && !matches!(self.next, NextRead::End) {
                        self.carry.extend_from_slice(rest);
                    }
                }
                let bytes = ChunkBytes::Read { buffer, len: framed.len };
                return self.hand_out(bytes, framed.starts, fault);
            }
            // One section is longer than the chunk. The system backs its buffer with memory only as data arrives.
            let needed = framed.needed as usize;
            let mut larger = Buffer::new(needed)?;
            larger[..filled].copy_from_slice(&buffer[..filled]);
            buffer = larger;
        }
    }

    /// Checks `rest`, the bytes after the whole sections. If `data_ends`, the data ends with them; if `short`, before the end
    /// in the header.
    fn check_rest(&mut self, framed: &FramedSections, rest: &[u8], data_ends: bool, short: bool) -> Result<()> {
        if let Some((problem, at)) = &framed.problem {
            return Err(Error::bad_input(&self.name, self.position + *at as u64, problem.clone()));
        }
        if framed.stop == Some(Stop::SkippedBlock) {
            return Ok(());
        }
        let end = self.position + framed.len as u64;
        if framed.stop == Some(Stop::Padding) {
            self.take_padding(rest, end)?;
            return self.finish(end);
        }
        if framed.stop == Some(Stop::Header) {
            return self.expect_part(end);
        }
        if short {
            return Err(self.cut(rest, framed.len, "the data that its CARv2 header promises"));
        }
        match data_ends {
            true if rest.is_empty() => self.finish(end),
            true => Err(self.cut(rest, framed.len, "a section")),
            false => Ok(()),
        }
    }

    /// Hands out the sections, without index and source. A fault after them is reported by the next call.
    fn hand_out(&mut self, bytes: ChunkBytes, starts: Vec<u32>, fault: Result<()>) -> Result<Option<Chunk>> {
        if starts.is_empty() {
            return fault.map(|()| None);
        }
        if let Err(error) = fault {
            self.next = NextRead::Fault(error);
        }
        let base = self.position;
        self.position += bytes.len() as u64;
        self.add_to_checksum(&bytes);
        Ok(Some(Chunk { index: 0, source: 0, name: Arc::clone(&self.name), base, bytes, starts }))
    }

    /// Returns the error for data that end inside `rest`, which begins at `skipped` in the buffer.
    fn cut(&self, rest: &[u8], skipped: usize, fallback: &'static str) -> Error {
        let inside = match next_section(rest, 0, self.modes.limits.max_block) {
            Ok(Step::Cut { inside, .. }) => inside,
            _ => fallback,
        };
        let end = self.position + (skipped + rest.len()) as u64;
        Error::bad_input(&self.name, end, CarProblem::Truncated { inside })
    }
}
