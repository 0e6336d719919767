//! Skips the part of the sources that an earlier run read.

use std::hash::Hasher;
use std::path::Path;

use super::{NextRead, OpenCar};
use crate::error::{Error, Result};
use crate::source::car::bytes::Bytes;
use crate::source::car::framing::Limits;
use crate::source::car::header::{Begins, begins_header};
use crate::source::car::section::VisitSection;
use crate::source::car::{CarProblem, HeaderStep, NextSection, Step, next_section, read_header};
use crate::source::input::Restart;

const PIECE: usize = 64 << 10;

impl OpenCar {
    /// Returns the last place at or before the position where a later run may begin to decompress a stream.
    pub fn restart(&self) -> Option<Restart> {
        match &self.bytes {
            Bytes::Stream(stream) => stream.restart(self.position),
            Bytes::File(_) => None,
        }
    }

    /// Opens a stream again at `restart`, if that saves reading or the stream is past `offset`.
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

    /// Continues at `offset`; see [`Chunks::skip_to`](crate::source::car::chunks::Chunks::skip_to).
    pub fn skip_to(
        &mut self,
        offset: u64,
        end: Option<u64>,
        restart: Option<&Restart>,
        mut each: Option<VisitSection<'_>>,
    ) -> Result<()> {
        let cut = |name: &Path, at| {
            Error::bad_input(name, at, CarProblem::Truncated { inside: "the part that was read before" })
        };
        // The bytes after `offset` are read again.
        (self.next, self.padding) = (NextRead::Sections, 0);
        // Each of several CARs has its own end.
        self.data.end = end.or(self.data.end.filter(|_| !self.modes.concatenated));
        if let Bytes::File(reader) = &mut self.bytes {
            if reader.len(&self.name)? < offset {
                return Err(cut(&self.name, offset));
            }
            reader.at = offset;
            self.position = offset;
            self.carry.clear();
            return Ok(());
        }
        self.carry.append(&mut self.data.after);
        if let Some(restart) = restart.filter(|_| each.is_none() || self.position > offset) {
            self.begin_at(restart, offset)?;
            each = None;
        }
        if self.position > offset {
            // The stream was read past `offset`, and cannot be opened again.
            return Err(cut(&self.name, offset));
        }
        let mut scratch = vec![0; PIECE];
        let (mut unvisited, mut left) = (Vec::new(), 0_u64);
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
                unvisited.extend_from_slice(&self.carry[..take]);
                loop {
                    // Nothing of a skipped block is kept.
                    let drop = unvisited.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    unvisited.drain(..drop);
                    left -= drop as u64;
                    let visited = self.visit_sections(&unvisited, each)?;
                    unvisited.drain(..visited);
                    match self.skipped_block.as_ref().map(|block| block.is_next(&unvisited)) {
                        Some(NextSection::Skipped { total, .. }) if left == 0 => left = total,
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

    /// Passes the whole sections at the front of `bytes` to `each`, and returns their length.
    fn visit_sections(&self, bytes: &[u8], each: &mut VisitSection<'_>) -> Result<usize> {
        let Limits { max_block, fits, .. } = self.modes.limits;
        let mut at = 0;
        loop {
            if self.modes.concatenated && begins_header(&bytes[at..]) == Begins::Header {
                match read_header(&bytes[at..], None) {
                    Ok(HeaderStep::Header(header)) => at += header.blocks_start as usize,
                    Ok(HeaderStep::NeedMore(_)) => return Ok(at),
                    Err((problem, _)) => return Err(Error::bad_input(&self.name, self.position, problem)),
                }
                continue;
            }
            let rest = bytes.get(at..).unwrap_or_default();
            if self.skipped_block.as_ref().is_some_and(|block| !matches!(block.is_next(rest), NextSection::Other)) {
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
}
