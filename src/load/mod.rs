//! Importing a snapshot into a database.
//!
//! [`import()`] runs the steps, each of which has a file here. Two loaders, chosen by the preset, share them: `ingest` builds
//! SST files and lets RocksDB ingest them, `memtable` writes batches and compacts. `car` and `block_log` have the code for
//! one kind of source, `records` that for streams of any program, `rebuild` copies a database, `sink` has the code for one kind of write path.

mod block_log;
pub(crate) mod built;
mod callbacks;
mod car;
mod checkpoint;
mod column_families;
mod commit;
mod compact;
mod context;
mod disk_space;
mod entry;
mod existing;
mod identity;
mod import;
mod ingest;
mod journal;
pub(crate) mod leftovers;
mod links;
mod old_database;
mod open;
mod options;
mod phase_weights;
pub(crate) mod planner;
mod rebuild;
mod record_streams;
mod records;
mod resume;
mod seed;
mod sink;
mod source_identity;
mod sources;
mod target;
mod uploads;
mod validate;

pub(crate) use crate::report::Plan;
pub(crate) use crate::source::car::no_snapshot_in;
pub(crate) use built::SstFile;
pub use entry::{import, plan};
pub(crate) use entry::{import_and_publish, plan_and_warn};
pub(crate) use import::hint_after_interruption;
pub use leftovers::clean;
pub(crate) use options::Indexes;
pub use options::{Duplicates, F3Data, Format, ImportOptions, Links, LogOptions, PlanChoice, Unfinished};
pub(crate) use seed::{Fetch, Seed, bundle_of_unfinished, seed, seed_file_name};
pub(crate) use sources::{has_snapshot_name, holds_snapshots, snapshots_in};
pub(crate) use uploads::Publish;
