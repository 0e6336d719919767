//! From a snapshot to a database that stands under its name.
//!
//! [`import`] is the whole way. Behind one interface stand two loaders, chosen by the preset: `ingest` (read, build,
//! ingest, settle) and `memtable` (read and write, settle, check). Each step has a file here.

mod blocks;
mod build;
mod choices;
mod descriptors;
mod durable;
mod existing;
mod families;
mod feed;
mod identity;
mod import;
mod ingest;
mod job;
mod journal;
mod ledger;
mod log;
mod memtable;
mod options;
mod phase_weights;
pub(crate) mod planner;
mod publish;
mod read;
mod space;
mod target;

pub use crate::report::{LogPlan, MemtablePlan, Plan, Space};
pub use import::{Outcome, import};
pub(crate) use journal::JournalBench;
pub use options::{Format, ImportOptions, LogOptions, PlanChoice};

/// Locks, also after a panic elsewhere: what is locked here is whole at any time.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn interrupted() -> crate::error::Error {
    crate::error::Error::Interrupted { hint: "run the same command again to go on from here".into() }
}
