//! Forest's form of a zstd-compressed CAR, `.forest.car.zst`: small frames and an index after them.
//!
//! ```text
//! frame             the CAR's header, alone
//! frame ..          whole sections; closed after about 8 KiB of compressed bytes, no content size, no checksum
//! skippable frame   50 2a 4d 18 | u32 length | index              several if one cannot hold the index
//! skippable frame   50 2a 4d 18 | 08 00 00 00 | u64 offset of the index's content
//! ```
//!
//! Integers are little-endian. No section spans two frames, so the index can name a frame, and frames can be
//! decompressed in parallel. Readers that do not know the index skip it. The format is that of Forest
//! (<https://github.com/ChainSafe/forest>), checked byte by byte against one of its files.

mod frames;
mod index;
mod tail;

pub use frames::{Frame, LEVEL, Packer, stored_frame};
pub use index::{Index, slot_hash};
pub(crate) use tail::find_with;
pub use tail::{ForestTail, find};
#[cfg(any(test, feature = "testing"))]
pub use tail::{buckets, find_in};
