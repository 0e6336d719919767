//! The choice of a plan before an import starts.

mod choose;
mod dictionaries;
mod limits;
mod memtable;
mod plan;

pub(in crate::load) use choose::{WORKER_FIXED, piece_bytes_for};
#[cfg(test)]
pub(crate) use choose::{choose, for_log};
pub(in crate::load) use dictionaries::{beside_dictionaries, dictionary_bytes};
pub use limits::MIN_MEMORY;
pub(in crate::load) use limits::{check_memory, excess_memory, share_memory};
pub(in crate::load) use memtable::unflushed_bytes;
pub(in crate::load) use plan::{Planned, fit_plan_to_journal, plan, threads};
