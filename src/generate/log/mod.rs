//! Generated block logs of any size of Steem, Hive and Antelope chains.
//!
//! Numbers, links, ids and merkle roots are correct, transactions have real kinds and sizes, and compression about
//! halves a log. The same [`LogSpec`] gives the same blocks on every machine, with any number of threads. A block has
//! about 5.5 KiB on average, like the first 20 million blocks of Steem (110 GB).
//!
//! A node would not accept the chain: signatures and keys are noise, accounts do not have what is spent, and the blocks
//! that transactions refer to do not exist.
//!
//! ```
//! use bedload::testing::blocks::chain::Family;
//! use bedload::testing::generate::log::{LogSpec, files, layouts, write};
//!
//! let (mut log, mut entries) = (Vec::new(), Vec::new());
//! let summary = write(&LogSpec::new(Family::Steem, 100 << 10), &mut log, |entry| {
//!     entries.push(*entry);
//!     Ok(())
//! })?;
//! assert_eq!(summary.blocks, entries.len() as u64);
//! let index = layouts::index(files::IndexKind::Words, &entries);
//! assert_eq!(index.len(), 8 * entries.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod antelope;
mod antelope_transactions;
mod bytes;
mod dictionaries;
pub mod files;
#[cfg(any(test, feature = "testing"))]
pub mod layouts;
mod line;
mod pack;
mod steem;
mod steem_operations;
#[cfg(test)]
mod tests;
mod words;

use std::io::{self, Write};

use super::random::Noise;
use crate::blocks::chain::{Family, Id};
use crate::error::{Error, Result};
#[cfg(any(test, feature = "testing"))]
use crate::progress::Silent;
use crate::progress::{Phase, Progress};

pub use dictionaries::read_dictionaries;
pub use pack::Dictionaries;

/// The default version of an Antelope log.
pub const VERSION: u32 = 3;
/// The default first Savanna block of a log of version 3.
pub const SAVANNA_FROM: u32 = 10_001;

/// A block log to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSpec {
    family: Family,
    size: u64,
    seed: u64,
    /// Of an Antelope log; 0 for the others.
    version: u32,
    first_block: u32,
    savanna_from: Option<u32>,
    dictionaries: Dictionaries,
}

/// One block of a generated log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    pub number: u32,
    pub id: Id,
    /// The word after the block: its position in bits 0 to 47 (Hive; all bits otherwise), and how it is packed.
    pub word: u64,
    /// Bytes of the stored block, without the word.
    pub len: u32,
}

/// The result of generating a block log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct LogSummary {
    /// Which chain.
    pub family: Family,
    /// The version of an Antelope log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The chain id of an Antelope log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<Id>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the same log without compression.
    pub raw_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Number of the first block.
    pub first: u32,
    /// Number of the last block.
    pub last: u32,
    /// Id of the last block.
    pub head: Id,
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
            return Err(Error::Usage {
                reason: format!("the block log of {} has no version", self.family),
                hint: "versions are for --profile antelope".into(),
            });
        }
        if !(1..=antelope::PRUNABLE).contains(&version) {
            return Err(Error::Usage {
                reason: format!("there is no block log of version {version}"),
                hint: "give a version of 1 to 4".into(),
            });
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
            Family::Hive => files::IndexKind::Artifacts(files::Artifacts::V1_1),
        }
    }

    /// Starts with another block than 1: a partial Antelope log, or a later part of a split Hive log.
    pub fn first_block(self, number: u32) -> Result<Self> {
        let reason = match (number, self.family, self.version) {
            (0, _, _) => "there is no block 0".into(),
            (1, _, _) => return Ok(self),
            (_, Family::Steem, _) => "the block log of steem starts with block 1".into(),
            (_, Family::Antelope, 1) => "a block log of version 1 starts with block 1".into(),
            _ => return Ok(Self { first_block: number, ..self }),
        };
        Err(Error::Usage {
            reason,
            hint: "leave out --first-block, or take --profile antelope of version 2 to 4".into(),
        })
    }

    /// Dictionaries for about half of the packed blocks of a Hive log. A block takes the one of its million, or the last.
    pub fn dictionaries(self, dictionaries: Dictionaries) -> Result<Self> {
        if self.family != Family::Hive {
            return Err(Error::Usage {
                reason: format!("blocks of {} are not compressed", self.family),
                hint: "dictionaries are for --profile hive".into(),
            });
        }
        Ok(Self { dictionaries, ..self })
    }

    /// The id before the first block: zeros before block 1, otherwise a number and noise.
    fn first_parent(&self) -> Id {
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
    fn entry_overhead(&self) -> usize {
        if self.version == antelope::PRUNABLE { 4 + 1 + 8 } else { 8 }
    }
}

/// Generates a log. `each` receives every block just before it is written, in order.
///
/// Uses all threads of the current rayon pool and about 10 MiB of memory per thread.
#[cfg(any(test, feature = "testing"))]
pub fn write<W: Write + Send>(
    spec: &LogSpec,
    out: &mut W,
    each: impl FnMut(&LogEntry) -> io::Result<()> + Send,
) -> io::Result<LogSummary> {
    write_with(spec, out, each, &Progress::new(&Silent))
}

pub(crate) fn write_with<W: Write + Send>(
    spec: &LogSpec,
    out: &mut W,
    mut each: impl FnMut(&LogEntry) -> io::Result<()> + Send,
    progress: &Progress<'_>,
) -> io::Result<LogSummary> {
    progress.begin(Phase::Generate, Some(spec.size));
    let genesis = (spec.family == Family::Antelope).then(|| antelope::Genesis::new(spec.seed));
    let preamble = genesis.as_ref().map_or(Vec::new(), |genesis| genesis.preamble(spec.version, spec.first_block));
    out.write_all(&preamble)?;
    let (chain, bytes) = line::run(spec, preamble.len() as u64, out, &mut each, progress)?;
    out.flush()?;
    Ok(LogSummary {
        family: spec.family,
        version: genesis.is_some().then_some(spec.version),
        chain_id: genesis.map(|genesis| genesis.chain_id.into()),
        bytes,
        raw_bytes: chain.raw_bytes,
        blocks: chain.blocks,
        transactions: chain.transactions,
        first: spec.first_block,
        last: chain.previous.number(),
        head: chain.previous,
    })
}
