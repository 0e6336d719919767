//! Sorting of blocks by key, before RocksDB gets them.
//!
//! `router` assigns keys to partitions whose order is the order of the keys, so each partition is sorted alone and
//! never merged. Sections in memory are sorted as 16-byte `entries`. The rest is spilled (`spill`). A partition that is
//! larger than planned is sorted in runs that are merged (`runs`). `borders` determines where a file ends.

pub(crate) mod borders;
pub(crate) mod entries;
pub(crate) mod fixed;
pub mod key;
pub(crate) mod marks;
pub(crate) mod pieces;
pub(crate) mod references;
pub(crate) mod router;
pub(crate) mod runs;
pub(crate) mod sections;
pub(crate) mod shard;
pub(crate) mod spill;
