//! From a snapshot to a database that stands under its name.
//!
//! [`import`] does all of it. Two loaders, chosen by the preset, share its steps: `ingest` reads, builds SST files and
//! lets RocksDB ingest them; `memtable` writes batches and compacts. Each step has a file here; `car` and `block_log`
//! have what only one kind of source needs, `sink` what takes records.

mod block_log;
mod built;
mod car;
mod checkpoint;
mod column_families;
mod commit;
mod compact;
mod context;
mod database_state;
mod disk_space;
mod existing;
mod file_limits;
mod identity;
mod import;
mod ingest;
mod journal;
mod open;
mod options;
mod phase_weights;
pub(crate) mod planner;
mod resume;
mod sink;
mod target;
mod validate;

pub use crate::report::{LogPlan, MemtablePlan, Method, PartitionPlan, Plan, SortPlan, Space};
pub use import::{Outcome, import};
pub(crate) use journal::JournalBench;
pub use options::{Format, ImportOptions, LogOptions, PlanChoice};
