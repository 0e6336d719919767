//! What the behaviour tests share: CARs built byte by byte by code of their own, runs of the real binary, and a plain
//! model of what a database must hold.
//!
//! Nothing here calls the library under test: what is compared was made another way.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod car;
pub mod crash;
pub mod database;
pub mod fault;
pub mod log;
pub mod model;
pub mod run;
pub mod terminal;

/// The folder of real snapshots; `None`, said loudly, where it is absent.
pub fn fixtures() -> Option<std::path::PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures");
    let named = std::env::var_os("BEDLOAD_FIXTURES").map(std::path::PathBuf::from);
    let found = [Some(beside), named].into_iter().flatten().find(|dir| dir.join("expected.jsonl").is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no real snapshots here; BEDLOAD_FIXTURES names the folder that has expected.jsonl");
    }
    found
}

/// Whether this process may do everything.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
