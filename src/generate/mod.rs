//! Generated snapshots of any size, for benchmarks and tests without a download.
//!
//! A generated CAR has the block sizes of a real network, DAG-CBOR with links, correct hashes, and about the redundancy
//! of real state. The same [`Spec`] gives the same blocks in the same order on every machine, with any number of
//! threads and in every [`Format`]. The bytes of compressed formats depend on the version of zstd.
//!
//! ```text
//! header | chunk 0: leaves, repeats, inner blocks, root, header | chunk 1: .. | .. | last chunk: .., head tipset
//! ```
//!
//! Children come before their parents. Links lead from the roots, the head tipset, to every block: from a header to the
//! header before and to the chunk's tree, from an inner block to 16 blocks of the level below.
//!
//! A node cannot execute the state: keys, balances and signatures are noise.
//!
//! ```
//! use bedload::testing::generate::{Profile, Spec, write};
//!
//! let spec = Spec::new(Profile::Mainnet, 200 << 10).seed(1).duplicates(5)?;
//! let mut car = std::io::Cursor::new(Vec::new());
//! let summary = write(&spec, &mut car)?;
//! assert_eq!(summary.bytes, car.into_inner().len() as u64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod cbor;
mod chunk;
mod envelope;
mod line;
pub mod log;
mod pipeline;
mod plan;
mod profile;
pub(crate) mod random;
mod spec;
mod spine;
#[cfg(test)]
mod tests;

use std::io::{self, Seek, SeekFrom, Write};

#[cfg(any(test, feature = "testing"))]
use crate::progress::Silent;
use crate::progress::{Phase, PhaseWeights, Progress};

pub use line::Summary;
pub use profile::Profile;
pub(crate) use random::Noise;
pub use spec::{DUPLICATES_MAX, Format, Spec};

use spine::Spine;

/// The version of the JSON of summaries. It changes when a field changes its meaning or goes.
pub const SCHEMA: &str = "bedload-generate-1";

/// Generates a snapshot from the current position of `out` to the position afterwards. The header, which names the last
/// blocks, is written again at the end.
///
/// Uses all threads of the current rayon pool and about 10 MiB of memory per thread, more for
/// [`Format::ForestCarZst`].
#[cfg(any(test, feature = "testing"))]
pub fn write<W: Write + Seek + Send>(spec: &Spec, out: &mut W) -> io::Result<Summary> {
    write_with(spec, out, &Progress::new(&Silent))
}

pub(crate) fn write_with<W: Write + Seek + Send>(
    spec: &Spec,
    out: &mut W,
    progress: &Progress<'_>,
) -> io::Result<Summary> {
    progress.begin(Phase::Generate, Some(spec.size));
    let spine = Spine::new(spec);
    let start = out.stream_position()?;
    let blank = envelope::prelude(spec.format, &spine.blank_roots(), 0);
    out.write_all(&blank)?;
    let made = line::run(spec, &spine, out, blank.len() as u64, progress)?;
    let end = out.stream_position()?;
    out.seek(SeekFrom::Start(start))?;
    out.write_all(&envelope::prelude(spec.format, &made.roots, made.car_bytes))?;
    out.seek(SeekFrom::Start(end))?;
    Ok(made)
}

/// Generates the bytes of [`write_with()`] for a target that cannot seek, such as a pipe. It makes all blocks twice,
/// first to know the roots: this pass is [`Phase::Plan`].
pub(crate) fn write_stream_with<W: Write + Send>(
    spec: &Spec,
    out: &mut W,
    progress: &Progress<'_>,
) -> io::Result<Summary> {
    let phases = vec![(Phase::Plan, 1.0), (Phase::Generate, 1.0)];
    progress.expect(PhaseWeights { phases, ..PhaseWeights::default() });
    progress.begin(Phase::Plan, Some(spec.size));
    let spine = Spine::new(spec);
    let first_pass = line::run(&spec.clone().format(Format::Car), &spine, &mut io::sink(), 0, progress)?;
    progress.begin(Phase::Generate, Some(spec.size));
    let prelude = envelope::prelude(spec.format, &first_pass.roots, first_pass.car_bytes);
    out.write_all(&prelude)?;
    let made = line::run(spec, &spine, out, prelude.len() as u64, progress)?;
    out.flush()?;
    Ok(made)
}
