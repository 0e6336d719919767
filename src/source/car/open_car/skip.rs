//! Reads the block that is in no chunk, in pieces.

use super::OpenCar;
use crate::error::{Error, Result};
use crate::source::car::{CarProblem, MAX_METADATA, Metadata, NextSection, RawCid, SkippedBlock, Step, next_section};

const PIECE: usize = 1 << 20;

impl OpenCar {
    /// Finds the F3 data of a snapshot of version 2, if the first block is one of the `roots` and names such data.
    pub fn find_f3_data(&mut self, roots: &[RawCid]) -> Result<()> {
        let section = loop {
            let missing = match next_section(&self.carry, 0, MAX_METADATA as u64) {
                Ok(Step::Section(section)) => break section,
                Ok(Step::Cut { missing, .. }) => missing,
                // The reader reports the fault.
                Ok(_) | Err(_) => return Ok(()),
            };
            let filled = self.carry.len();
            let window = self.window(self.position + filled as u64);
            self.carry.resize(filled + window.min(missing as usize), 0);
            let more = self.bytes.fill(&mut self.carry[filled..], &self.name)?;
            self.carry.truncate(filled + more);
            if more == 0 {
                return Ok(());
            }
        };
        let (cid, block) = section.body(&self.carry).split_at(section.cid.len as usize);
        if roots.iter().any(|root| root.as_bytes() == cid) {
            self.skipped_block =
                Metadata::read(block).and_then(|metadata| SkippedBlock::new(metadata.f3?, self.modes.skip_f3?));
        }
        Ok(())
    }

    /// Reads the section at the front of `carry`, which is in no chunk, and returns its length.
    pub fn read_skipped_block(&mut self) -> Result<u64> {
        let Some(mut block) = self.skipped_block.take() else { return Ok(0) };
        let outcome = self.read_in_pieces(&mut block);
        self.skipped_block = Some(block);
        outcome
    }

    fn read_in_pieces(&mut self, block: &mut SkippedBlock) -> Result<u64> {
        let read = std::mem::take(&mut self.carry);
        let NextSection::Skipped { head, total } = block.is_next(&read) else { return Ok(0) };
        let (mine, rest) = read.split_at(read.len().min(total as usize));
        let mut state = block.begin();
        state.write(mine.get(head..).unwrap_or_default());
        self.add_to_checksum(mine);
        let mut done = mine.len() as u64;
        let mut piece = vec![0; PIECE];
        while done < total {
            let want = PIECE.min(self.window(self.position + done)).min((total - done) as usize);
            let filled = self.bytes.fill(&mut piece[..want], &self.name)?;
            if filled == 0 {
                let problem = CarProblem::Truncated { inside: "a block" };
                return Err(Error::bad_input(&self.name, self.position + done, problem));
            }
            if let Some(map) = self.bytes.map() {
                map.release((self.bytes.consumed() as usize).saturating_sub(filled), filled);
            }
            state.write(&piece[..filled]);
            self.add_to_checksum(&piece[..filled]);
            done += filled as u64;
        }
        block.end(state).map_err(|problem| Error::bad_input(&self.name, self.position, problem))?;
        self.carry = rest.to_vec();
        self.position += total;
        Ok(total)
    }
}
