//! The number of files that an import will have open at once. It is checked before the import starts.

use crate::error::{Error, Result};
use crate::load::options::ImportOptions;
use crate::report::Plan;
use crate::rocks::option_map::{Group, OptionMap};
use crate::rocks::options;

/// Descriptors beside SST files: the standard streams, the source, RocksDB's log, lock, MANIFEST and WALs, directories.
const BESIDE: u64 = 40;

/// A number of an option map, or RocksDB's default.
pub(in crate::load) fn number(map: &OptionMap, group: Group, name: &str) -> Result<i64> {
    let value = match map.get(group, name) {
        Some(value) => Some(value),
        None => options::defaults()?.get(group, name),
    };
    Ok(value.and_then(|value| value.parse().ok()).unwrap_or_default())
}

/// The files that the ingest loader has open at once.
pub(in crate::load) fn of_ingest(plan: &Plan, loading: &OptionMap) -> Result<u64> {
    let building = plan.threads as u64;
    let partitions = plan.sort().filter(|sort| sort.spill).map_or(0, |sort| 1 << sort.partitions.bits);
    let bytes = plan.expected_bytes.unwrap_or_default();
    let ssts = bytes.div_ceil(plan.sst_target(bytes).max(1));
    let open = match number(loading, Group::Db, "max_open_files")? {
        limit @ 0.. => ssts.min(limit as u64),
        _ => ssts,
    };
    Ok(BESIDE + (building + partitions).max(open))
}

/// The files that the memtable loader has open at once, with `level0` files at level 0 before the final compaction.
pub(in crate::load) fn of_memtable(plan: &Plan, loading: &OptionMap, level0: u64) -> Result<u64> {
    let target = number(loading, Group::Cf, "target_file_size_base")?.max(1) as u64;
    let all = level0 + plan.expected_bytes.unwrap_or_default().div_ceil(target);
    // A compaction of level 0 keeps all of its files open, whatever the limit of open files is.
    let open = match number(loading, Group::Db, "max_open_files")? {
        limit @ 0.. => all.min(limit as u64).max(level0),
        _ => all,
    };
    Ok(BESIDE + plan.threads as u64 + open)
}

/// Checks that this process may open as many files.
pub(in crate::load) fn check(needed: u64, limit: u64, options: &ImportOptions) -> Result<()> {
    if needed <= limit {
        return Ok(());
    }
    Err(Error::State {
        path: options.db.clone(),
        reason: format!("needs {needed} open files at once, and this process may have {limit}"),
        hint: format!(
            "raise the limit (ulimit -n {needed}; ulimit -Hn shows how far), or let there be fewer files: larger SSTs or write buffers, a smaller \
             max_open_files"
        ),
    })
}
