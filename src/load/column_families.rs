//! The column families of an import, and the options of each for loading, for the final compaction and for the node.

use crate::error::Result;
use crate::load::context::Job;
use crate::load::planner::dictionary_bytes;
use crate::preset::Resolved;
use crate::report::Plan;
use crate::rocks::{FamilyFacts, Group, OptionMap, SstOptions, options_while_importing};
use crate::schema::{BLOCK_IDS, DEFAULT, TRANSACTIONS};

/// The options in which families of ids differ from families of blocks.
const OF_IDS: [(Group, &str, &str); 3] = [
    // Most ids that are looked up are missing, or are those of the other family.
    (Group::Table, "filter_policy", "bloomfilter:10:false"),
    // Larger blocks of small records are slow to search.
    (Group::Table, "block_size", "16384"),
    // Hashes do not shrink.
    (Group::Cf, "compression", "kNoCompression"),
];

/// The options of a database that merges runs of records.
const OF_RUNS: [(Group, &str, &str); 6] = [
    (Group::Cf, "compression", "kNoCompression"),
    (Group::Cf, "disable_auto_compactions", "true"),
    // Each run that overlaps with others gets a level of its own, of which a merge reads one file at a time.
    (Group::Cf, "num_levels", "128"),
    (Group::Cf, "level_compaction_dynamic_level_bytes", "false"),
    (Group::Cf, "level0_stop_writes_trigger", "1000000"),
    // Keys that share long beginnings must not make large indexes.
    (Group::Table, "index_block_restart_interval", "16"),
];

/// The least and the largest block of runs, in bytes. A merge has a block of each run in memory.
const RUN_BLOCK: (u64, u64) = (16 << 10, 64 << 10);

pub(in crate::load) struct ColumnFamilies<'a> {
    all: Vec<FamilyOptions<'a>>,
    /// Number of families that are loaded. RocksDB requires the others.
    loaded: usize,
}

/// A column family of another database, with the options of its copy.
pub(in crate::load) struct CopiedFamily {
    pub facts: FamilyFacts,
    pub preset: Resolved,
}

/// The presets of families by their names.
pub(in crate::load) fn presets_of(families: &[CopiedFamily]) -> Vec<(String, Resolved)> {
    families.iter().map(|family| (family.facts.name.clone(), family.preset.clone())).collect()
}

struct FamilyOptions<'a> {
    name: &'a str,
    loading: OptionMap,
    compacting: OptionMap,
    node: OptionMap,
}

/// Bytes of a block of runs.
pub(in crate::load) fn run_block(memory: u64) -> u64 {
    (memory / 4096).clamp(RUN_BLOCK.0, RUN_BLOCK.1)
}

impl<'a> ColumnFamilies<'a> {
    pub fn of_car(job: &Job<'a>) -> Self {
        let own = job.options.column_family.as_str();
        let names = std::iter::once(own).chain((own != DEFAULT).then_some(DEFAULT));
        Self { all: names.map(|name| FamilyOptions::of_blocks(job, name)).collect(), loaded: 1 }
    }

    /// The families of a log: blocks, and the indexes of ids.
    pub fn of_log(job: &Job<'_>) -> Self {
        let log = &job.options.log;
        let ids = log.indexes.ids.then_some(BLOCK_IDS);
        let transactions = log.indexes.transactions.then_some(TRANSACTIONS);
        let found_by = ids.into_iter().chain(transactions).map(|name| FamilyOptions::of_ids(job, name));
        let all: Vec<_> = std::iter::once(FamilyOptions::of_blocks(job, DEFAULT)).chain(found_by).collect();
        Self { loaded: all.len(), all }
    }

    /// The families of a database that is copied. RocksDB requires `default`.
    pub fn of_database(copied: &'a [CopiedFamily], plan: &Plan) -> Self {
        let mut all: Vec<_> = copied.iter().map(|family| FamilyOptions::of_copy(family, plan)).collect();
        let loaded = all.len();
        if let Some(first) = copied.iter().find(|_| all.iter().all(|family| family.name != DEFAULT)) {
            all.push(FamilyOptions { name: DEFAULT, ..FamilyOptions::of_copy(first, plan) });
        }
        Self { all, loaded }
    }

    /// The families of a database that merges runs of records. Each run that overlaps with others gets a level of its own.
    pub fn of_runs(names: &'a [String], memory: u64) -> Self {
        let mut map = options_while_importing().overlaid(&OF_RUNS.into_iter().collect());
        map.set(Group::Table, "block_size", run_block(memory).to_string());
        let options = |name| FamilyOptions { name, loading: map.clone(), compacting: map.clone(), node: map.clone() };
        let default = names.iter().all(|name| name != DEFAULT).then_some(DEFAULT);
        let all = names.iter().map(String::as_str).chain(default).map(options).collect();
        Self { all, loaded: names.len() }
    }

    /// The families with the options of the memtable loader: a cancelled import does not flush memtables, which can take long.
    /// Their blocks are read again.
    pub fn written_to(mut self) -> Self {
        for FamilyOptions { loading, compacting, .. } in &mut self.all {
            loading.set(Group::Db, "avoid_flush_during_shutdown", "true");
            compacting.set(Group::Db, "avoid_flush_during_shutdown", "true");
        }
        self
    }

    /// The names of the loaded families, blocks first.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.all.iter().take(self.loaded).map(|family| family.name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    pub fn loading(&self) -> Vec<(&str, &OptionMap)> {
        self.all.iter().map(|family| (family.name, &family.loading)).collect()
    }

    pub fn compacting(&self) -> Vec<(&str, &OptionMap)> {
        self.all.iter().map(|family| (family.name, &family.compacting)).collect()
    }

    pub fn node(&self) -> Vec<(&str, &OptionMap)> {
        self.all.iter().map(|family| (family.name, &family.node)).collect()
    }

    /// The loaded families, each with the options of its files.
    pub fn sst(&self, job: &Job<'_>) -> Result<Vec<(&'a str, SstOptions)>> {
        let options =
            |family: &FamilyOptions<'a>| Ok((family.name, SstOptions::new(&family.loading, &job.target.sst)?));
        self.all.iter().take(self.loaded).map(options).collect()
    }
}

impl<'a> FamilyOptions<'a> {
    fn of_blocks(job: &Job<'_>, name: &'a str) -> Self {
        let (loading, compacting, node) = (job.loading.clone(), job.preset.compacting(), job.preset.node());
        Self { name, loading, compacting, node }.within(job.plan)
    }

    /// The options with dictionaries that fit the memory of a plan.
    fn within(mut self, plan: &Plan) -> Self {
        self.loading.bound_dictionaries(dictionary_bytes(plan));
        self.compacting.bound_dictionaries(dictionary_bytes(plan));
        self
    }

    fn of_copy(CopiedFamily { facts, preset }: &'a CopiedFamily, plan: &Plan) -> Self {
        let mut family =
            Self { name: &facts.name, loading: preset.loading(), compacting: preset.compacting(), node: preset.node() };
        if facts.is_reversed() {
            for map in [&mut family.loading, &mut family.compacting, &mut family.node] {
                map.set(Group::Cf, "comparator", &facts.comparator);
            }
        }
        family.within(plan)
    }

    fn of_ids(job: &Job<'_>, name: &'a str) -> Self {
        let mut family = Self::of_blocks(job, name);
        for map in [&mut family.loading, &mut family.compacting, &mut family.node] {
            OF_IDS.iter().for_each(|(group, name, value)| map.set(*group, *name, *value));
        }
        family
    }
}
