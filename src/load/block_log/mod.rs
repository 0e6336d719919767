//! Loading of block logs. Only ids of transactions are sorted, because blocks come in the order of their keys.
//!
//! ```text
//!   ranges of the log ──► read, unpack, check links ──► SSTs of `default` and `block_ids`, one set a range
//!                                   └─ ids of transactions ──► partitions ──► sorted, SSTs of `transactions`
//! ```
//!
//! Ids of blocks begin with the block's number, so `block_ids` is in order as well. A range that is built is durable:
//! after a crash the others are built.
//!
//! With the memtable loader the records go into batches instead of files.

mod build;
pub(super) mod load;
mod read;
mod transactions;
