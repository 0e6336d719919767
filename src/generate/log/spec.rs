//! The choices for a block log.

use super::super::random::Noise;
use super::pack::Dictionaries;
use super::{antelope, files};
use crate::blocks::chain::{Family, Id};
use crate::error::{Error, Result};

pub const VERSION: u32 = 3;
/// The default first Savanna block of a log of version 3.
pub const SAVANNA_FROM: u32 = 10_001;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSpec {
    pub(super) family: Family,
    pub(super) size: u64,
    pub(super) seed: u64,
    /// Of an Antelope log; 0 for the others.
    pub(super) version: u32,
    pub(super) first_block: u32,
    pub(super) savanna_from: Option<u32>,
    pub(super) dictionaries: Dictionaries,
}

impl LogSpec {
    /// A log of up to `size` bytes without compression, at least one block; seed 0; from block 1.
    ///
    /// One in eight blocks of Hive is raw, the others are zstd frames. An Antelope log has version [`VERSION`] and
    /// Savanna blocks from [`SAVANNA_FROM`] on.
    pub fn new(family: Family, size: u64) -> Self {
        let (version, savanna_from) = match family {
            Family::Steem | Family::Hive => (0, None),
            Family::Antelope => (VERSION, Some(SAVANNA_FROM)),
        };
        Self { family, size, seed: 0, version, first_block: 1, savanna_from, dictionaries: Dictionaries::new() }
    }

    /// Another seed gives other blocks. Defaults to 0.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The version of an Antelope log, 1 to 4. Savanna blocks are only in version 3.
    pub fn version(self, version: u32) -> Result<Self> {
        if self.family != Family::Antelope {
            let reason = format!("the block log of {} has no version", self.family);
            return Err(Error::usage(reason, "versions are for --profile antelope"));
        }
        if !(1..=antelope::PRUNABLE).contains(&version) {
            return Err(Error::usage(
                format!("there is no block log of version {version}"),
                "give a version of 1 to 4",
            ));
        }
        let savanna_from = self.savanna_from.filter(|_| version == VERSION);
        Ok(Self { version, savanna_from, ..self })
    }

    /// The first Savanna block of an Antelope log of version 3; `None` for none.
    #[must_use]
    #[cfg(any(test, feature = "testing"))]
    pub fn savanna_from(self, block: Option<u32>) -> Self {
        Self { savanna_from: block.filter(|_| self.version == VERSION), ..self }
    }

    /// The usual index of a log of this family: words for Steem and Antelope, artifacts 1.1 for Hive.
    pub fn index_kind(&self) -> files::IndexKind {
        match self.family {
            Family::Steem | Family::Antelope => files::IndexKind::Words,
            Family::Hive => files::IndexKind::Artifacts1_1,
        }
    }

    /// Starts with another block than 1: a partial Antelope log, or a later part of a split Hive log.
    pub fn first_block(self, number: u32) -> Result<Self> {
        let reason = match (number, self.family, self.version) {
            (0, _, _) => "there is no block 0",
            (1, _, _) => return Ok(self),
            (_, Family::Steem, _) => "the block log of steem starts with block 1",
            (_, Family::Antelope, 1) => "a block log of version 1 starts with block 1",
            _ => return Ok(Self { first_block: number, ..self }),
        };
        Err(Error::usage(reason, "leave out --first-block, or take --profile antelope of version 2 to 4"))
    }

    /// Dictionaries for about half of the packed blocks of a Hive log. A block takes the one of its million, or the last.
    pub fn dictionaries(self, dictionaries: Dictionaries) -> Result<Self> {
        if self.family != Family::Hive {
            let reason = format!("blocks of {} are not compressed", self.family);
            return Err(Error::usage(reason, "dictionaries are for --profile hive"));
        }
        Ok(Self { dictionaries, ..self })
    }

    /// The id before the first block: zeros before block 1, otherwise a number and noise.
    pub(super) fn first_parent(&self) -> Id {
        let mut bytes = [0; 32];
        if self.first_block > 1 {
            Noise::new(self.seed, 6).fill(&mut bytes);
        }
        let id = match self.family {
            Family::Steem | Family::Hive => Id::from_slice(&bytes[..20]),
            Family::Antelope => Id::from_slice(&bytes),
        };
        id.unwrap_or(Id::from(bytes)).numbered(self.first_block - 1)
    }

    /// Bytes of an entry beside the block.
    pub(super) fn entry_overhead(&self) -> usize {
        if self.version == antelope::PRUNABLE { 4 + 1 + 8 } else { 8 }
    }
}
