//! Steem and Hive.

pub(super) mod batch;
mod field;
pub(super) mod header;
pub(super) mod json;
mod known_roots;
mod operations;
pub(super) mod transactions;
mod types;
