//! CAR, content-addressable archives, versions 1 and 2.
//!
//! ```text
//! CARv1   varint length | dag-cbor {roots: [CID], version: 1}          the header
//!         varint length | CID | block                                  a section, repeated to the end
//!
//! CARv2   0a a1 67 "version" 02                                        11 bytes
//!         16 B characteristics | u64 data offset | u64 data size | u64 index offset     little-endian
//!         ... padding ... | a CARv1, exactly `data size` bytes | ... | index (ignored)
//! ```
//!
//! Specifications: <https://ipld.io/specs/transport/car/carv1/> and `/carv2/`. Input is not
//! trusted: lengths have limits, numbers must be minimal, and truncated data is an error.

mod bytes;
pub(crate) mod chunk;
pub(crate) mod chunks;
mod cid;
mod directory;
mod framing;
mod header;
mod open_car;
mod problem;
mod read_ahead;
mod section;
pub(crate) mod skipped_block;
pub(crate) mod sources;
pub(crate) mod varint;

pub(in crate::source) use bytes::Bytes;
pub(crate) use chunk::{Chunk, ChunkBytes, prefetch_ahead};
pub(crate) use chunks::{Chunks, Limits, Tail};
pub use cid::RawCid;
pub(crate) use directory::{cars_in, has_car_name, no_snapshot_in};
pub use header::{Header, HeaderStep, header_bytes, read_header};
pub use problem::CarProblem;
pub use section::{CidSpan, Section, Step, next_section, read_cid};
pub(crate) use skipped_block::{MAX_METADATA, Metadata, NextSection, SkippedBlock, SkippedCount};
pub(crate) use sources::{Following, SourceRead};

/// The longest header that is read, in bytes: go-car's limit.
pub const MAX_HEADER: u64 = 32 << 20;

/// Most bytes of the roots of several headers together: the record of an import has each twice, as text.
pub(crate) const MAX_ROOTS: u64 = 8 << 20;

/// Most bytes of the roots in the record of an import, which is read up to 64 MiB.
pub(crate) const MAX_RECORDED_ROOTS: u64 = 60 << 20;

/// Default limit of a block in bytes.
pub const DEFAULT_MAX_BLOCK: u64 = (1 << 31) - 1;

/// Highest limit of a block in bytes: an SST's data block is addressed with 32 bits.
pub const HIGHEST_MAX_BLOCK: u64 = 3 << 30;

/// The meaning of a section of length zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum NullPadding {
    /// Damage. The default, as in go-car.
    #[default]
    Error,
    /// The end of the blocks; only zeros may follow.
    Eof,
}
