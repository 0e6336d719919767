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
pub mod files;
#[cfg(any(test, feature = "testing"))]
pub mod layouts;
mod line;
mod pack;
mod spec;
mod steem;
mod steem_operations;
#[cfg(test)]
mod tests;
mod words;

use std::io::{self, Write};

use crate::blocks::chain::Family;
#[cfg(any(test, feature = "testing"))]
use crate::progress::Silent;
use crate::progress::{Phase, Progress};

pub use files::LogEntry;
pub use line::LogSummary;
pub use pack::{Dictionaries, read_dictionaries};
pub use spec::LogSpec;

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
    let mut made = LogSummary {
        family: spec.family,
        version: genesis.is_some().then_some(spec.version),
        chain_id: genesis.map(|genesis| genesis.chain_id.into()),
        bytes: preamble.len() as u64,
        raw_bytes: preamble.len() as u64,
        blocks: 0,
        transactions: 0,
        first: spec.first_block,
        last: spec.first_block - 1,
        head: spec.first_parent(),
    };
    line::run(spec, &mut made, out, &mut each, progress)?;
    out.flush()?;
    Ok(made)
}
