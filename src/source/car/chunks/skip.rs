//! Reads the block that is in no chunk, in pieces.

use std::hash::Hasher;

use super::Chunks;
use crate::error::{Error, Result};
use crate::source::car::metadata::{MAX_METADATA, Metadata};
use crate::source::car::skipped_block::{NextSection, SkippedBlock, SkippedCount};
use crate::source::car::{CarProblem, RawCid, Step, next_section};

/// Bytes of the block that are read at once.
const PIECE: usize = 1 << 20;

impl Chunks {
    /// Leaves the F3 data of a snapshot of version 2 out of all chunks, if the first block of a source is one of its `roots` and
    /// names such data. They are read in pieces, counted, and hashed if `verify` is set.
    ///
    /// # Errors
    /// [`Error::BadInput`], [`Error::Io`]: the source cannot be read.
    pub fn skip_f3_data(&mut self, roots: &[RawCid], verify: bool) -> Result<()> {
        self.skip_f3 = Some(verify);
        let section = loop {
            let missing = match next_section(&self.carry, 0, MAX_METADATA as u64) {
                Ok(Step::Section(section)) => break section,
                Ok(Step::Cut { missing, .. }) => missing,
                // The reader reports the fault.
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
            self.skipped_block = Metadata::read(block).and_then(|metadata| SkippedBlock::new(metadata.f3?, verify));
        }
        Ok(())
    }

    /// Restores the count of an earlier run, which read this source up to the position.
    pub fn resume_skipped_block(&mut self, known: Option<&SkippedCount>) {
        if let Some(block) = &mut self.skipped_block {
            let none = SkippedCount { cid: block.cid.to_string(), ..SkippedCount::default() };
            block.count = known.filter(|known| known.cid == none.cid).cloned().unwrap_or(none);
        }
    }

    /// Reads the section at the front of `carry`, which is in no chunk.
    pub(super) fn read_skipped_block(&mut self) -> Result<()> {
        let Some(mut block) = self.skipped_block.take() else { return Ok(()) };
        let outcome = self.read_in_pieces(&mut block);
        self.skipped_block = Some(block);
        outcome
    }

    fn read_in_pieces(&mut self, block: &mut SkippedBlock) -> Result<()> {
        let read = std::mem::take(&mut self.carry);
        let NextSection::Skipped(place) = block.is_next(&read) else { return Ok(()) };
        let total = usize::try_from(place.total).unwrap_or(usize::MAX);
        let (mine, rest) = read.split_at(read.len().min(total));
        let mut state = block.begin();
        state.write(mine.get(place.head..).unwrap_or_default());
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
            state.write(&piece[..filled]);
            if let Some(checksum) = &mut self.checksum {
                checksum.write(&piece[..filled]);
            }
            done += filled as u64;
        }
        block.end(state).map_err(|problem| Error::bad_input(&self.name, self.position, problem))?;
        self.carry = rest.to_vec();
        self.position += place.total;
        self.taken += place.total;
        Ok(())
    }
}
