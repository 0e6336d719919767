//! A resolved preset as the loaders use it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::key::{Key, Loader, Origin, Scope, Stage};
use super::machine::Machine;
use super::problem::PresetProblem;
use super::registry::{self, RegistryRow, ValueKind};
use crate::rocks::option_map::{Group, OptionMap, field_of, fields_of};
use crate::rocks::options_while_importing;
use crate::rocks::releases::Release;
use crate::rocks::settings::{CompactionSettings, IngestSettings, WriteSettings};

const RECYCLED: &str = "recycle_log_file_num";

const PRECLUDE: &str = "preclude_last_level_data_seconds";

/// A preset with its overrides, checked with RocksDB.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub preset: String,
    /// The place that names the preset.
    pub(crate) choice: String,
    pub summary: String,
    pub loader: Loader,
    pub machine: Machine,
    /// Notes about values that RocksDB adjusts, and options that were left out.
    pub notes: Vec<String>,
    pub(super) settings: BTreeMap<Key, Setting>,
    pub(super) defaults: &'static OptionMap,
    /// The directories in which options are tried, best first.
    pub(crate) places: Vec<PathBuf>,
}

/// An option with its plain value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The option.
    pub key: Key,
    /// Its value: plain numbers, RocksDB's words.
    pub value: String,
    /// Its value as it was written, e.g. `cores`.
    pub written: String,
    pub reason: Option<String>,
    /// The place that sets it.
    pub origin: Origin,
    /// The shorthand that sets it.
    pub via: Option<&'static str>,
}

impl Setting {
    pub(super) fn unusable(&self, reason: String) -> PresetProblem {
        let Self { key, value, origin, .. } = self.clone();
        let hint = "change it or leave it out; `bedload presets explain` shows the options of a preset";
        PresetProblem::BadValue { at: origin, key, value, reason, hint }
    }

    pub(super) fn refused(&self, value: String, message: String, defaults: &OptionMap) -> PresetProblem {
        let Self { key, origin, .. } = self.clone();
        let default = key.scope.group().and_then(|group| default_of(defaults, group, &key.name));
        let default = default.unwrap_or_default().to_owned();
        PresetProblem::Refused { at: origin, key, value, message, default }
    }
}

/// One option of the finished database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OptionRow {
    /// `scope.option`, under RocksDB's own name.
    pub option: String,
    /// The value, read back from RocksDB.
    pub value: String,
    /// RocksDB's default.
    pub default: String,
    /// The origin of the value; `null` if RocksDB chose it.
    pub from: Option<String>,
}

impl Resolved {
    /// All settings, shorthands and structures expanded, by stage, scope and name.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.settings.values()
    }

    /// The finished database's options, for RocksDB's parser.
    pub fn node(&self) -> OptionMap {
        self.map(Stage::Node)
    }

    /// The options while importing, also of SST files: those of `node`, overridden by those of `load`.
    pub fn loading(&self) -> OptionMap {
        let load = self.map(Stage::Load);
        // RocksDB reads ingested files once, and the import checks every column family.
        let own = if self.loader == Loader::Ingest { options_while_importing() } else { OptionMap::default() };
        let mut loading = self.node().overlaid(&own).overlaid(&load);
        // RocksDB refuses it for writes without a WAL.
        if load.get(Group::Db, RECYCLED).is_none() {
            loading.remove(Group::Db, RECYCLED);
        }
        loading
    }

    /// The options for the final compaction of the memtable loader: those of loading with the node's compaction style
    /// and levels. Without a style RocksDB compacts nothing. Automatic compaction stays off.
    pub fn compacting(&self) -> OptionMap {
        let (node, mut compacting) = (self.node(), self.loading());
        for name in ["compaction_style", "num_levels"] {
            compacting.remove(Group::Cf, name);
            if let Some(value) = node.get(Group::Cf, name) {
                compacting.set(Group::Cf, name, value);
            }
        }
        // This option would keep the newest records above the last level.
        if compacting.get(Group::Cf, PRECLUDE).is_some() {
            compacting.set(Group::Cf, PRECLUDE, "0");
        }
        compacting
    }

    /// The oldest RocksDB that is known to read files of the import and of the node.
    pub fn oldest_rocksdb(&self) -> Release {
        Release::reading(&self.loading(), self.defaults).max(Release::reading(&self.node(), self.defaults))
    }

    fn map(&self, stage: Stage) -> OptionMap {
        let settings = self.settings().filter(|setting| setting.key.stage == stage);
        settings.filter_map(|Setting { key, value, .. }| Some((key.scope.group()?, &key.name, value))).collect()
    }

    /// Bytes at which the ingest loader finishes an SST file.
    pub fn sst_size(&self) -> u64 {
        self.number(Scope::Ingest, "sst_size")
    }

    /// SST files that the ingest loader builds at the same time.
    pub fn sst_threads(&self) -> usize {
        self.number(Scope::Ingest, "threads") as usize
    }

    /// Bytes at which the memtable loader writes a batch.
    pub fn batch_bytes(&self) -> u64 {
        self.number(Scope::Write, "batch_bytes")
    }

    /// Records at which the memtable loader writes a batch.
    pub fn batch_count(&self) -> u64 {
        self.number(Scope::Write, "batch_count")
    }

    pub fn writer_threads(&self) -> usize {
        self.number(Scope::Write, "writer_threads") as usize
    }

    pub fn write(&self) -> WriteSettings {
        self.typed(Scope::Write)
    }

    pub fn ingest(&self) -> IngestSettings {
        self.typed(Scope::Ingest)
    }

    /// True if everything is compacted at the end.
    pub fn final_compaction(&self) -> bool {
        self.flag(Scope::Compaction, "final")
    }

    pub fn compaction(&self) -> CompactionSettings {
        self.typed(Scope::Compaction)
    }

    /// Every option that was set or that differs from RocksDB's default. `effective` has the values of the finished
    /// database's OPTIONS file.
    pub fn effective_node(&self, effective: &OptionMap) -> Vec<OptionRow> {
        let mut rows: BTreeMap<(Scope, String), OptionRow> = BTreeMap::new();
        let mut add = |group: Group, name: &str, value: &str, from: Option<&Origin>| {
            let option = format!("{group}.{name}");
            let default = default_of(self.defaults, group, name).unwrap_or_default().to_owned();
            let row = OptionRow { option, value: value.to_owned(), default, from: from.map(ToString::to_string) };
            rows.insert((Scope::from(group), name.to_owned()), row);
        };
        for (group, name, value) in effective.iter() {
            match (fields_of(value), self.defaults.get(group, name).and_then(fields_of)) {
                (Some(fields), Some(defaults)) => {
                    let changed = fields.iter().filter(|field| !defaults.contains(field));
                    changed.for_each(|(field, value)| add(group, &format!("{name}.{field}"), value, None));
                }
                _ if self.defaults.get(group, name) != Some(value) => add(group, name, value, None),
                _ => {}
            }
        }
        for Setting { key, value, origin, .. } in self.settings().filter(|setting| setting.key.stage == Stage::Node) {
            if let Some(group) = key.scope.group() {
                add(group, &key.name, default_of(effective, group, &key.name).unwrap_or(value), Some(origin));
            }
        }
        rows.into_values().collect()
    }

    pub(super) fn text(&self, scope: Scope, name: &'static str) -> &str {
        let key = Key { stage: Stage::Load, scope, name: name.to_owned() };
        let default = || registry::find(scope, name).map_or("", |row| row.default);
        self.settings.get(&key).map_or_else(default, |setting| &setting.value)
    }

    /// Fills a structure of RocksDB with the options of a scope.
    fn typed<T: serde::de::DeserializeOwned>(&self, scope: Scope) -> T {
        let value = |row: &RegistryRow| match row.kind {
            ValueKind::Bool => self.flag(scope, row.name).into(),
            ValueKind::Choice(_) => self.text(scope, row.name).into(),
            ValueKind::Count(..0) => self.text(scope, row.name).parse().unwrap_or(-1).into(),
            ValueKind::Size | ValueKind::Count(_) => self.number(scope, row.name).into(),
        };
        let rows = registry::ROWS.iter().filter(|row| row.scope == scope);
        let fields: serde_json::Map<String, serde_json::Value> =
            rows.map(|row| (row.name.to_owned(), value(row))).collect();
        serde_json::from_value(fields.into()).expect("the registry has every field with its type")
    }

    fn flag(&self, scope: Scope, name: &'static str) -> bool {
        self.text(scope, name) == "true"
    }

    fn number(&self, scope: Scope, name: &'static str) -> u64 {
        self.machine.parse(self.text(scope, name)).ok().and_then(|number| number.try_into().ok()).unwrap_or(0)
    }
}

/// The value of an option, or of a field of a structure, in a map with whole structures.
pub(super) fn default_of<'a>(map: &'a OptionMap, group: Group, name: &str) -> Option<&'a str> {
    match name.split_once('.') {
        None => map.get(group, name),
        Some((option, field)) => field_of(map.get(group, option)?, field),
    }
}

/// True if RocksDB keeps a value. It writes ids of objects in full: `skip_list` as `SkipListFactory`, `bloomfilter:10`
/// as `{id=bloomfilter:10:false;..}`.
pub(super) fn agrees(asked: &str, kept: &str) -> bool {
    if asked == kept {
        return true;
    }
    if asked.parse::<i128>().is_ok() && kept.parse::<i128>().is_ok() {
        return false;
    }
    if let (Ok(asked), Ok(kept)) = (asked.parse::<f64>(), kept.parse::<f64>()) {
        // RocksDB writes six digits after the point.
        return (asked - kept).abs() <= 1e-6;
    }
    let id = |text: &str| {
        let id = field_of(text, "id").unwrap_or(text).replace('_', "").to_ascii_lowercase();
        id.trim_end_matches("factory").trim_end_matches("rep").to_owned()
    };
    let (asked, kept) = (id(asked), id(kept));
    kept == asked || kept.starts_with(&format!("{asked}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_mean_the_same_agree() {
        for (asked, kept) in [
            ("7", "7"),
            ("0.75", "0.750000"),
            ("10", "10.000000"),
            ("skip_list", "SkipListFactory"),
            ("vector", "{id=VectorRepFactory;count=0;}"),
            ("bloomfilter:10", "{id=bloomfilter:10:false;bloom_before_level=2147483647;}"),
            ("ribbonfilter:10", "{id=ribbonfilter:10:0;bloom_before_level=0;}"),
        ] {
            assert!(agrees(asked, kept), "{asked} and {kept}");
        }
        for (asked, kept) in [
            ("7", "8"),
            ("18446744073709551615", "18446744073709551614"),
            ("vector", "SkipListFactory"),
            ("bloomfilter:1", "{id=bloomfilter:10:false;}"),
            ("kZSTD", "kLZ4Compression"),
            ("true", "false"),
        ] {
            assert!(!agrees(asked, kept), "{asked} and {kept}");
        }
    }
}
