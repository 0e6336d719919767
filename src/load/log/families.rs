//! The column families of a database made from a log, and what each is made for.

use super::super::job::Job;
use crate::error::Result;
use crate::rocks::SstOptions;
use crate::rocks::option_map::{Group, OptionMap};

/// Finds blocks by their ids.
pub(crate) const BLOCK_IDS: &str = "block_ids";

/// Finds transactions by their ids.
pub(crate) const TRANSACTIONS: &str = "transactions";

/// What families of ids have instead of what the preset says about blocks, with the reason.
const OF_IDS: [(Group, &str, &str); 3] = [
    // Most ids that are asked for are not there, or are those of the other family.
    (Group::Table, "filter_policy", "bloomfilter:10:false"),
    // Records of a few bytes: a larger block would be searched for long.
    (Group::Table, "block_size", "16384"),
    // Hashes do not shrink.
    (Group::Cf, "compression", "kNoCompression"),
];

/// The families of an import, and their options.
pub(super) struct Families {
    /// Name, options while loading, options of the finished database; blocks first.
    all: Vec<(&'static str, OptionMap, OptionMap)>,
}

impl Families {
    pub fn new(job: &Job<'_>) -> Self {
        let (loading, node) = (job.loading.clone(), job.preset.node());
        let of_ids = |map: &OptionMap| {
            let mut map = map.clone();
            OF_IDS.iter().for_each(|(group, name, value)| map.set(*group, *name, *value));
            map
        };
        let log = &job.options.log;
        let mut all = Vec::new();
        if !log.no_id_index {
            all.push((BLOCK_IDS, of_ids(&loading), of_ids(&node)));
        }
        if log.index_transactions {
            all.push((TRANSACTIONS, of_ids(&loading), of_ids(&node)));
        }
        all.insert(0, ("default", loading, node));
        Self { all }
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|(name, ..)| *name)
    }

    /// Their options while loading.
    pub fn loading(&self) -> Vec<(&str, &OptionMap)> {
        self.all.iter().map(|(name, loading, _)| (*name, loading)).collect()
    }

    /// Those of the finished database.
    pub fn node(&self) -> Vec<(&str, &OptionMap)> {
        self.all.iter().map(|(name, _, node)| (*name, node)).collect()
    }

    /// What files of a family are built with; `None` when it is not made.
    pub fn sst(&self, job: &Job<'_>, family: &str) -> Result<Option<SstOptions>> {
        let found = self.all.iter().find(|(name, ..)| *name == family);
        found.map(|(_, loading, _)| SstOptions::new(loading, &job.target.sst)).transpose()
    }
}
