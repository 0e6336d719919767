//! Steem and Hive.

pub(super) mod batch;
pub(super) mod header;
mod known_roots;
pub(super) mod operations;
pub(super) mod transactions;
mod types;
