//! Sorting blocks by key: once, before RocksDB gets them.
//!
//! Keys are routed into partitions whose order is the order of the keys (`router`), so partitions are sorted each on
//! its own and never merged. What stays in memory is sorted as 16-byte `entries`; what does not is spilled
//! (`spill`). A partition that is larger than planned is sorted in runs that are merged (`runs`). Where a file ends is said by
//! `borders`.

pub(crate) mod borders;
pub(crate) mod entries;
pub mod key;
pub(crate) mod pieces;
pub(crate) mod referred;
pub(crate) mod router;
pub(crate) mod runs;
pub(crate) mod spill;
