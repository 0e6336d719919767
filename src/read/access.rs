//! Options that all read commands share: resources, and where the blocks of a database are stored.

use std::path::PathBuf;

use derive_setters::Setters;

use crate::os::resources;
use crate::progress::CancellationToken;
use crate::report::KeyFrom;
use crate::report::record::ImportRecord;
use crate::sort::key::KeyLayout;

/// Memory where the system does not say how much there is, in bytes.
const SOME_MEMORY: u64 = 1 << 30;

/// The resources of a command. The defaults depend on the machine.
#[derive(Debug, Clone, Default, Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct Resources {
    /// Threads that work. Defaults to the number of cores.
    pub(crate) threads: Option<usize>,
    /// Memory in bytes. Defaults to a quarter of what the machine, or its cgroup, has.
    pub(crate) memory: Option<u64>,
    /// The directory for data beyond the memory budget. Defaults to the system's directory for temporary files.
    pub(crate) work_dir: Option<PathBuf>,
    /// Cancelled by the caller to end it.
    pub(crate) stop: CancellationToken,
}

impl Resources {
    pub(super) fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(crate::parallel::cores).max(1)
    }

    pub(super) fn memory_budget(&self) -> u64 {
        self.memory.or_else(|| resources::memory().map(|all| all / 4)).unwrap_or(SOME_MEMORY)
    }

    pub(super) fn scratch_parent(&self) -> PathBuf {
        self.work_dir.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Where a database stores its blocks. Defaults to what `BEDLOAD.json` records; without that file, under their CIDs in
/// the column family `default`.
#[derive(Debug, Clone, Default, Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct Location {
    /// What blocks are stored under.
    pub(crate) key: Option<KeyLayout>,
    /// The column family that holds them.
    pub(crate) column_family: Option<String>,
}

impl Location {
    /// What blocks are stored under, and how that is known.
    pub(super) fn layout(&self, record: Option<&ImportRecord>) -> (KeyLayout, KeyFrom) {
        match (self.key, record) {
            (Some(key), _) => (key, KeyFrom::Caller),
            (None, Some(record)) => (record.key, KeyFrom::Record),
            (None, None) => (KeyLayout::default(), KeyFrom::Assumed),
        }
    }

    /// The column family.
    pub(super) fn family(&self, record: Option<&ImportRecord>) -> String {
        let recorded = || record.map(|record| record.column_family.clone());
        self.column_family.clone().or_else(recorded).unwrap_or_else(|| "default".into())
    }
}
