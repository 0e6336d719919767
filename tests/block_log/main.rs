//! Imports and exports of block logs.

#[path = "../common/mod.rs"]
mod common;

mod bad_logs;
mod export;
mod flipped_bits;
mod log_formats;
mod memtables;
mod resume;
