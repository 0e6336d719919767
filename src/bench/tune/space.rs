//! What may be changed: one option at a time, a few values each, around what the preset has.

use super::super::matrix::Variant;
use crate::error::Result;
use crate::os::resources;
use crate::preset::{self, Loader, Machine, Overrides, Preset};
use crate::report::tune::{Change, Goal};

/// Some changes at once; none is the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Sorted by option, each of which is there once.
    pub changes: Vec<Change>,
}

impl Candidate {
    /// Its name: the changes, without stage and scope.
    pub fn name(&self) -> String {
        let short = |change: &Change| {
            format!("{}={}", change.option.rsplit('.').next().unwrap_or(&change.option), change.value)
        };
        if self.changes.is_empty() {
            "start".into()
        } else {
            self.changes.iter().map(short).collect::<Vec<_>>().join(", ")
        }
    }

    /// Both together; `None` when they change the same option.
    pub(super) fn with(&self, other: &Self) -> Option<Self> {
        if self.changes.iter().any(|change| other.changes.iter().any(|it| it.option == change.option)) {
            return None;
        }
        let mut changes: Vec<Change> = self.changes.iter().chain(&other.changes).cloned().collect();
        changes.sort();
        Some(Self { changes })
    }

    /// The preset with these changes.
    pub(super) fn variant(&self, preset: &str) -> Variant {
        let (set, arguments) = self
            .changes
            .iter()
            .map(|change| (change.option.contains('.'), format!("{}={}", change.option, change.value)))
            .partition::<Vec<_>, _>(|(is_option, _)| *is_option);
        let texts = |list: Vec<(bool, String)>| list.into_iter().map(|(_, text)| text).collect();
        Variant { name: self.name(), preset: preset.to_owned(), set: texts(set), arguments: texts(arguments) }
    }
}

/// What the finished database is built with, and what that costs to read and to build.
const DATABASE: [(&str, &[&str]); 4] = [
    ("node.table.block_size", &["4K", "8K", "16K", "32K", "64K"]),
    ("node.table.filter_policy", &["bloom:10", "bloom:14", "ribbon:10", "null"]),
    ("node.cf.compression", &["kNoCompression", "kLZ4Compression", "kZSTD"]),
    ("node.table.data_block_index_type", &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
];

/// How the ingest loader works.
const INGEST: [(&str, &[&str]); 1] = [("load.ingest.sst_size", &["32M", "64M", "128M", "256M", "512M"])];

/// How the memtable loader works.
const MEMTABLE: [(&str, &[&str]); 7] = [
    ("load.cf.write_buffer_size", &["32M", "64M", "128M", "256M", "512M"]),
    ("load.cf.max_write_buffer_number", &["2", "4", "6", "8"]),
    ("load.cf.memtable_factory", &["skip_list", "vector"]),
    ("load.cf.disable_auto_compactions", &["true", "false"]),
    ("load.cf.target_file_size_base", &["64M", "256M"]),
    ("load.write.batch_bytes", &["256K", "1M", "4M"]),
    ("load.write.disable_wal", &["true"]),
];

/// Shares of the machine's memory that a budget may be; half of it is what an import takes unless the caller says otherwise.
const BUDGETS: [(u64, u64); 4] = [(1, 32), (1, 16), (1, 8), (1, 4)];

/// All single changes that RocksDB takes and that change anything.
///
/// # Errors
/// [`Error::Preset`](crate::Error::Preset), [`Error::Usage`](crate::Error::Usage) or [`Error::Io`](crate::Error::Io):
/// there is no such preset, or it cannot be read.
pub fn candidates(word: &str, goal: Goal) -> Result<Vec<Candidate>> {
    let preset = Preset::find(word)?;
    let start = preset::resolve(&preset, &Overrides::default())?;
    let machine = Machine::here();
    let threads: Vec<String> = [machine.cores / 2, machine.cores, machine.cores * 2]
        .into_iter()
        .filter(|&threads| threads > 0)
        .map(|threads| threads.to_string())
        .collect();
    let threads: Vec<&str> = threads.iter().map(String::as_str).collect();

    let mut knobs: Vec<(&str, &[&str])> = DATABASE.to_vec();
    match preset.loader {
        Loader::Ingest => {
            knobs.extend(INGEST);
            knobs.push(("load.ingest.threads", &threads));
        }
        Loader::Memtable => {
            knobs.extend(MEMTABLE);
            knobs.push(("load.write.writer_threads", &threads));
            knobs.push(("load.compaction.max_subcompactions", &threads));
        }
    }
    let mut found = Vec::new();
    for (option, values) in knobs {
        for value in values {
            let set = vec![format!("{option}={value}")];
            // A value that RocksDB does not take together with the others is no candidate.
            let Ok(changed) = preset::resolve(&preset, &Overrides { set, ..Overrides::default() }) else { continue };
            if !preset::diff(&start, &changed).is_empty() {
                found.push(one(option, value));
            }
        }
    }
    // A budget of memory is no option of RocksDB's: it costs speed and is worth trying where memory is what counts.
    if goal == Goal::Memory
        && preset.loader == Loader::Ingest
        && let Some(memory) = resources::memory()
    {
        for (share, of) in BUDGETS {
            let mib = (memory / of * share) >> 20;
            if mib >= 64 {
                found.push(one("memory", &format!("{mib}M")));
            }
        }
    }
    Ok(found)
}

fn one(option: &str, value: &str) -> Candidate {
    Candidate { changes: vec![Change { option: option.to_owned(), value: value.to_owned() }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(preset: &str, goal: Goal) -> Vec<String> {
        candidates(preset, goal).expect("built in").iter().map(Candidate::name).collect()
    }

    #[test]
    fn every_candidate_changes_something_and_what_the_preset_has_is_none() {
        let ingest = names("ingest", Goal::Total);
        assert!(ingest.contains(&"block_size=4K".to_owned()), "{ingest:?}");
        assert!(ingest.contains(&"sst_size=64M".to_owned()), "{ingest:?}");
        assert!(!ingest.contains(&"block_size=16K".to_owned()), "ingest has it: {ingest:?}");
        assert!(
            !ingest.iter().any(|name| name.starts_with("memory=") || name.starts_with("write_buffer")),
            "{ingest:?}"
        );
        let memtable = names("memtable", Goal::Total);
        assert!(memtable.contains(&"write_buffer_size=64M".to_owned()), "{memtable:?}");
        assert!(!memtable.iter().any(|name| name.starts_with("sst_size")), "{memtable:?}");
    }

    #[test]
    fn a_budget_of_memory_is_tried_where_memory_counts() {
        assert!(names("ingest", Goal::Memory).iter().any(|name| name.starts_with("memory=")));
    }

    #[test]
    fn changes_of_the_same_option_do_not_go_together() {
        let (a, b, c) = (one("x.y.z", "1"), one("x.y.z", "2"), one("memory", "1G"));
        assert_eq!(a.with(&b), None);
        let both = a.with(&c).expect("different ones");
        assert_eq!(both, c.with(&a).expect("in either order"));
        assert_eq!(both.name(), "memory=1G, z=1");
        assert_eq!(both.variant("ingest").words().join(" "), "--preset ingest --set x.y.z=1 --memory 1G");
        assert_eq!(Candidate::default().name(), "start");
    }
}
