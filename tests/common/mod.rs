//! What the behaviour tests share: CARs built byte by byte by code of their own, runs of the real binary, and a plain
//! model of what a database must hold.
//!
//! Nothing here calls the library under test: what is compared was made another way.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod bundle;
pub mod car;
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
pub mod run;
pub mod server;
pub mod store;
pub mod terminal;

use std::io::Write;

use bedload::testing::chain::Family;

/// Says that a test, or a part of it, does not run here. Not by a print macro: the test harness would hide it behind a pass.
pub fn skipped(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Whether this process may do everything.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
