//! From a snapshot to a database that stands under its name.
//!
//! [`import`] is the whole way. Behind one interface stand two loaders, chosen by the preset: `ingest` (read, build,
//! ingest, settle) and `memtable` (read and write, settle, check). Each step has a file here.

mod blocks;
mod build;
mod descriptors;
mod feed;
mod import;
mod ingest;
mod job;
mod ledger;
mod memtable;
mod options;
mod plan;
mod publish;
mod read;
mod target;

pub use import::{Outcome, import};
pub use options::{ImportOptions, PlanChoice};
pub use plan::{MemtablePlan, Plan};

fn interrupted() -> crate::error::Error {
    crate::error::Error::Interrupted { hint: "nothing stands under the final name; run the same command again".into() }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
