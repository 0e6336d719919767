//! Helpers of the behaviour tests: CARs built byte by byte, runs of the real binary, and a plain model of the expected
//! database.
//!
//! Nothing here calls the library under test: expected values are computed independently.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod bundle;
pub mod car;
pub mod chance;
pub mod crash;
pub mod database;
pub mod disk;
pub mod export;
pub mod fault;
pub mod fixtures;
pub mod log;
pub mod log_blocks;
pub mod log_export;
pub mod model;
pub mod presets;
pub mod process;
pub mod run;
mod skipped;
pub mod snapshots;
pub mod store;
pub mod terminal;

use bedload::testing::blocks::chain::Family;

pub use skipped::skipped;

/// True if this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
