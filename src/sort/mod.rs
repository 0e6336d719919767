//! Sorting of blocks by key, before RocksDB gets them.
//!
//! `router` assigns keys to partitions whose order is the order of the keys, so each partition is sorted alone and
//! never merged. Sections in memory are sorted as 16-byte `entries`. The rest is spilled (`spill`). A partition that is
//! larger than planned is sorted in runs that are merged (`runs`). `borders` determines where a file ends.

pub(crate) mod borders;
pub(crate) mod entries;
pub mod key;
pub(crate) mod pieces;
pub(crate) mod placed_key;
pub(crate) mod prefixes;
pub(crate) mod record_set;
pub(crate) mod references;
pub(crate) mod router;
pub(crate) mod runs;
pub(crate) mod sections;
pub(crate) mod shard;
pub(crate) mod spill;

pub(crate) use borders::{Borders, slice_bits};
pub(crate) use entries::{BlockArena, SortEntry, Unsorted};
pub(crate) use key::{KeyLayout, Record};
pub(crate) use pieces::PartitionBuffers;
pub(crate) use references::{Reference, ReferencedSource, ReferencedSources};
pub(crate) use router::{ClassCounts, PartitionGroup, Route, Router};
pub(crate) use runs::Runs;
pub(crate) use shard::Shard;
pub(crate) use spill::{
    IN_FLIGHT, LARGE, PartitionExtent, SourceMark, Spill, add_mark, is_partition, no_partition, source_at,
};
