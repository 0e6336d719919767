//! Validates options one by one: checks names and values, and expands shorthands and structures into single options.

use super::catalogue;
use super::key::{Key, Loader, Origin, Stage};
use super::names;
use super::parse::Assignment;
use super::problem::{PresetProblem, nearest_of};
use super::registry::{self, Owner, RegistryRow, ValueKind};
use super::resolved::{Resolved, Setting, default_of};
use super::shorthand;
use crate::error::Result;
use crate::rocks::option_map::{Group, field_of, fields_of};
use crate::rocks::options::{self, Refusal};

/// Options that are paths. The program that opens the database sets them.
const PLACES: &[&str] = &["wal_dir", "db_log_dir", "db_paths", "cf_paths"];

/// RocksDB's names for its filters in the OPTIONS files of its versions, where the bits of a key may be missing.
const BLOOM_NAMES: &[&str] = &["bloom", "bloomfilter", "rocksdb.BloomFilter", "rocksdb.BuiltinBloomFilter"];
const RIBBON_NAMES: &[&str] = &["ribbon", "ribbonfilter", "rocksdb.RibbonFilter"];

/// Bits of a key where an OPTIONS file names a filter without them.
pub(super) const USUAL_BITS: &str = "10";

/// The filter that a value names without the bits of a key: `bloom` or `ribbon`. RocksDB builds no filter from such a value.
pub(super) fn filter_without_bits(value: &str) -> Option<&'static str> {
    match field_of(value, "id").unwrap_or(value) {
        name if BLOOM_NAMES.contains(&name) => Some("bloom"),
        name if RIBBON_NAMES.contains(&name) => Some("ribbon"),
        _ => None,
    }
}

/// RocksDB's name for a filter policy, which presets may write as `bloom:10`, `ribbon:10` or `none`. Only an OPTIONS file
/// may leave out the bits of a key.
fn filter_policy(assignment: &Assignment) -> Result<String, String> {
    let value = &assignment.value;
    let written = match filter_without_bits(value) {
        None => value.clone(),
        Some(kind) if matches!(assignment.origin, Origin::OptionsFile(..)) => format!("{kind}:{USUAL_BITS}"),
        Some(kind) => return Err(format!("it needs the bits of a key: `{kind}:{USUAL_BITS}`")),
    };
    Ok(match written.split_once(':').unwrap_or((&written, "")) {
        ("none", "") => "nullptr".into(),
        ("bloom", bits) => format!("bloomfilter:{bits}"),
        ("ribbon", bits) => format!("ribbonfilter:{bits}"),
        _ => written,
    })
}

/// Plain names of compressions, and RocksDB's names.
const COMPRESSIONS: &[(&str, &str)] = &[
    ("none", "kNoCompression"),
    ("snappy", "kSnappyCompression"),
    ("zlib", "kZlibCompression"),
    ("bzip2", "kBZip2Compression"),
    ("lz4", "kLZ4Compression"),
    ("lz4hc", "kLZ4HCCompression"),
    ("zstd", "kZSTD"),
];

/// Options whose value is a compression.
const OF_COMPRESSION: &[&str] = &["compression", "bottommost_compression", "blob_compression_type", "wal_compression"];

/// RocksDB's name for a compression that may be written by its plain name.
fn compression(value: &str) -> Result<String, String> {
    match COMPRESSIONS.iter().find(|(plain, _)| plain.eq_ignore_ascii_case(value)) {
        Some((_, word)) => Ok((*word).to_owned()),
        // Other names are rare, for example that of a plug-in.
        None if value.starts_with('k') => Ok(value.to_owned()),
        None => {
            let words = COMPRESSIONS.iter().map(|(plain, word)| format!("{plain} ({word})"));
            Err(format!("it is one of {}", words.collect::<Vec<_>>().join(", ")))
        }
    }
}

impl Resolved {
    /// Validates an option. Returns several settings for a shorthand or a structure.
    pub(super) fn validate(&self, assignment: &Assignment) -> Result<Vec<Setting>> {
        let settings = self.expand(assignment)?;
        for setting in &settings {
            let Key { stage, scope, name } = &setting.key;
            // One of the options of a shorthand may have no effect with the loader; the others have.
            if (*stage, self.loader) == (Stage::Load, Loader::Ingest)
                && setting.via.is_none()
                && let Some(reason) = catalogue::why_ineffective(*scope, name)
            {
                return Err(self.no_effect(&setting.key, &setting.origin, reason).into());
            }
            if let Some(reason) = catalogue::refusal(&setting.key, &setting.value) {
                return Err(setting.unusable(reason).into());
            }
            if let Some(group) = scope.group() {
                options::check(&[(group, name, &setting.value)].into_iter().collect())
                    .map_err(|Refusal(message)| setting.refused(setting.value.clone(), message, self.defaults))?;
            }
        }
        Ok(settings)
    }

    fn expand(&self, assignment: &Assignment) -> Result<Vec<Setting>> {
        let Key { stage, scope, name } = &assignment.key;
        if let Some(row) = registry::find(*scope, name) {
            return self.of_registry(assignment, row);
        }
        let Some(group) = scope.group() else { return Err(self.unknown(assignment).into()) };
        if PLACES.contains(&name.as_str()) {
            let reason =
                "it places files outside of the database; the program that opens the database says where they are";
            return Err(bad_value(assignment, reason.into()).into());
        }
        let default = default_of(self.defaults, group, name).ok_or_else(|| self.unknown(assignment))?;
        if let Some(known) = fields_of(default).filter(|_| !assignment.value.contains("id=")) {
            let Some(fields) = fields_of(&assignment.value) else {
                let first = known.first().map_or("", |(field, _)| *field);
                let reason = format!("it is a structure: name its fields, as in {name}.{first}");
                return Err(bad_value(assignment, reason).into());
            };
            let mut settings = Vec::new();
            for (field, value) in fields {
                let key = Key { stage: *stage, scope: *scope, name: format!("{name}.{field}") };
                settings.extend(self.expand(&Assignment { key, value: value.into(), ..assignment.clone() })?);
            }
            return Ok(settings);
        }
        let value = match (group, name.as_str()) {
            (Group::Table, "filter_policy") => filter_policy(assignment),
            (Group::Cf | Group::Db, name) if OF_COMPRESSION.contains(&name) => compression(&assignment.value),
            _ => self.plain(default, &assignment.value),
        }
        .map_err(|reason| bad_value(assignment, reason))?;
        Ok(vec![setting(assignment, assignment.key.clone(), value, None)])
    }

    fn of_registry(&self, assignment: &Assignment, row: &'static RegistryRow) -> Result<Vec<Setting>> {
        let Key { stage, scope, name } = &assignment.key;
        if *stage == Stage::Node && !row.in_node {
            let nearest = Some(format!("load.{scope}.{name}"));
            return Err(PresetProblem::unknown(&assignment.origin, "option", &assignment.key, nearest).into());
        }
        let written = &assignment.value;
        let within = |least: i64, most: u64| match self.machine.parse(written)? {
            number if (least.into()..=most.into()).contains(&number) => Ok(number.to_string()),
            _ => Err(format!("it is at least {least} and at most {most}")),
        };
        let value = match row.kind {
            ValueKind::Bool => self.plain("false", written),
            ValueKind::Choice(words) if words.contains(&written.as_str()) => Ok(written.clone()),
            ValueKind::Choice(words) => Err(format!("it is one of {}", words.join(", "))),
            ValueKind::Size => within(0, u64::MAX),
            ValueKind::Count(least) => within(least, i32::MAX as u64),
        }
        .map_err(|reason| bad_value(assignment, reason))?;
        if row.loader.is_some_and(|loader| loader != self.loader) && *stage == Stage::Load {
            let reason = match row.loader {
                Some(Loader::Ingest) => "no SST file is built outside of the database",
                _ => "records do not pass through memtables, and nothing is compacted",
            };
            return Err(self.no_effect(&assignment.key, &assignment.origin, reason).into());
        }
        if row.owner != Owner::Shorthand {
            return Ok(vec![setting(assignment, assignment.key.clone(), value, None)]);
        }
        let number = if value == "true" { 1 } else { value.parse().unwrap_or(0) };
        let settings = shorthand::expand(row.name, number).into_iter().map(|(scope, name, value)| {
            let key = Key { stage: *stage, scope, name: name.into() };
            setting(assignment, key, value, Some(row.name))
        });
        Ok(settings.collect())
    }

    /// Turns words and units into what RocksDB reads, by the form of its default.
    fn plain(&self, default: &str, value: &str) -> Result<String, String> {
        match (default, value) {
            ("true" | "false", "true" | "1") => Ok("true".into()),
            ("true" | "false", "false" | "0") => Ok("false".into()),
            ("true" | "false", _) => Err("it is `true` or `false`".into()),
            _ if default.parse::<i128>().is_ok() => self.machine.parse(value).map(|number| number.to_string()),
            _ if !default.contains('.') || default.parse::<f64>().is_err() => Ok(value.into()),
            _ if value.parse().is_ok_and(f64::is_finite) => Ok(value.into()),
            _ => Err("a number is needed, without a unit".into()),
        }
    }

    fn no_effect(&self, key: &Key, at: &Origin, reason: &'static str) -> PresetProblem {
        PresetProblem::NoEffect { at: at.clone(), key: key.clone(), loader: self.loader, reason }
    }

    fn unknown(&self, assignment: &Assignment) -> PresetProblem {
        let Key { stage, scope, name } = &assignment.key;
        let known = names::known(*stage, self.defaults).into_iter();
        let (here, elsewhere): (Vec<_>, Vec<_>) = known.partition(|(of, _)| of == scope);
        // The same name in another scope is more likely than another name in this one.
        let nearest = elsewhere
            .iter()
            .find(|(scope, other)| other == name || *name == format!("{scope}.{other}"))
            .or_else(|| {
                let all = || here.iter().chain(&elsewhere);
                let best = nearest_of(name, all().map(|(_, name)| name.as_str()))?;
                all().find(|(_, name)| name == best)
            })
            .map(|(scope, name)| format!("{stage}.{scope}.{name}"));
        let nearest = names::of_family(&assignment.key.to_string(), &assignment.origin).or(nearest);
        PresetProblem::unknown(&assignment.origin, "option", &assignment.key, nearest)
    }
}

fn setting(assignment: &Assignment, key: Key, value: String, via: Option<&'static str>) -> Setting {
    let Assignment { value: written, reason, origin, .. } = assignment.clone();
    Setting { key, value, written, reason, origin, via }
}

fn bad_value(assignment: &Assignment, reason: String) -> PresetProblem {
    let Assignment { key, value, origin, .. } = assignment.clone();
    let hint = "a value is true or false, a number (64M is 64 MiB, as RocksDB reads it), or one of RocksDB's own words";
    PresetProblem::BadValue { at: origin, key, value, reason, hint }
}
