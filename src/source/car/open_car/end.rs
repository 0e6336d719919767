//! The end of a CAR: null padding, a CARv2 index, one more CAR, or the end of the source.

use super::{NextRead, OpenCar};
use crate::error::{Error, InputKind, Result};
use crate::source::StatedProblem;
use crate::source::car::bytes::Bytes;
use crate::source::car::header::{Begins, begins_header};
use crate::source::car::{CarProblem, NullPadding};

const PIECE: usize = 64 << 10;

impl OpenCar {
    /// Reads null padding, if the caller accepts it, to the end of the blocks.
    pub(super) fn take_padding(&mut self, rest: &[u8], at: u64) -> Result<()> {
        if self.modes.limits.null_padding == NullPadding::Error {
            let hint = "`--null-padding eof` takes it as the end of the snapshot";
            let reason = "null padding: a section of length zero";
            return Err(Error::bad_input(&self.name, at, StatedProblem::new(InputKind::Unsupported, reason, hint)));
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
        let mut scratch = vec![0; PIECE];
        loop {
            let want = scratch.len().min(self.window(at + self.padding + rest.len() as u64));
            let filled = self.bytes.fill(&mut scratch[..want], &self.name)?;
            check(&scratch[..filled])?;
            self.padding += filled as u64;
            if filled < scratch.len() {
                break;
            }
        }
        self.padding += rest.len() as u64;
        let found = at + self.padding;
        if self.data.end.is_some_and(|end| found < end) {
            let inside = "the data that its CARv2 header promises";
            return Err(Error::bad_input(&self.name, found, CarProblem::Truncated { inside }));
        }
        Ok(())
    }

    /// Sets the next step for the header of one more CAR at `at`.
    pub(super) fn expect_part(&mut self, at: u64) -> Result<()> {
        if !self.modes.concatenated {
            let hint = "import it with: bedload import {file} --db DIR --concatenated";
            let reason = "two CARs in one file: here the header of another one begins";
            return Err(Error::bad_input(&self.name, at, StatedProblem::new(InputKind::Unsupported, reason, hint)));
        }
        self.next = NextRead::Header;
        Ok(())
    }

    /// Ends the CAR whose blocks end at `at`. The bytes after it are read only to find one more CAR, or to prove that the
    /// compression is complete.
    pub(super) fn finish(&mut self, at: u64) -> Result<()> {
        if let Some(end) = self.data.end {
            let mut following = std::mem::take(&mut self.data.after);
            if following.len() < PIECE {
                let have = following.len();
                following.resize(PIECE, 0);
                self.bytes.seek(end + have as u64);
                let filled = self.bytes.fill(&mut following[have..], &self.name)?;
                following.truncate(have + filled);
            }
            if begins_header(&following) == Begins::Header && (at == end || !self.modes.concatenated) {
                self.expect_part(end)?;
                self.bytes.seek(end + following.len() as u64);
                self.carry = following;
                return Ok(());
            }
            if self.modes.concatenated && !self.modes.index_is_last && !following.is_empty() {
                let reason = "the bytes after the data of this CARv2 are not a CAR, and their end is unknown";
                let hint = "a CARv2 with an index cannot be joined with others: give each file by its own name";
                let problem = StatedProblem::new(InputKind::Unsupported, reason, hint);
                return Err(Error::bad_input(&self.name, end, problem));
            }
            // The header may be damaged, so bytes that are neither padding nor index are reported.
            let index_at = self.data.index_at.map_or(usize::MAX, |at| at.saturating_sub(end) as usize);
            if let Some(found) = following.iter().take(index_at).position(|&byte| byte != 0) {
                self.data.undeclared.get_or_insert(end + found as u64);
            }
        }
        self.next = NextRead::End;
        self.carry = Vec::new();
        if let Bytes::Stream(stream) = &mut self.bytes {
            let mut scratch = vec![0; PIECE];
            while stream.fill(&mut scratch)? > 0 {}
        }
        Ok(())
    }
}
