//! Writing the parts that make a zstd-compressed CAR a `.forest.car.zst`: small frames and an index behind them.
//!
//! ```text
//! frame             the CAR's header, alone
//! frame ..          whole sections; closed after about 8 KiB of compressed bytes, no content size, no checksum
//! skippable frame   50 2a 4d 18 | u32 length | index              more of them when one cannot hold the index
//! skippable frame   50 2a 4d 18 | 08 00 00 00 | u64 offset of the index, behind the head of its first frame
//! ```
//!
//! Integers are little-endian. No section spans two frames, so the index can name a frame, and frames can be unpacked
//! side by side. Readers that do not know the index skip it. The format is that of Forest
//! (<https://github.com/ChainSafe/forest>); the form of its files was checked byte by byte against one of them.
//!
//! Reading is not here: see `source::input`.

mod frames;
mod index;

pub use frames::{Frame, LEVEL, Packer, stored_frame};
pub use index::{Index, slot_hash};
