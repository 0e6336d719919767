//! Older releases of RocksDB: which of them read the files of a database, and OPTIONS files for them.

use std::fmt;
use std::sync::LazyLock;

use super::{Group, OptionMap, OptionsFile, VERSION, field_of, fields_of};

/// All options of RocksDB 7.8: the OPTIONS file of an empty database with a Bloom filter.
const OPTIONS_7_8: &str = include_str!("OPTIONS-7.8");

/// How filters are built, not how they are read. RocksDB changed its default after 9.8, so older files have a value for it.
const DECOUPLE: &str = "decouple_partitioned_filters";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(u32, u32);

impl Release {
    /// The oldest release that tests open databases with.
    pub const OLDEST: Self = Self(7, 8);
    /// The first releases that read `format_version` 6, and 7, which is the default.
    const FORMATS: [Self; 2] = [Self(8, 6), Self(10, 4)];

    pub fn built_in() -> Self {
        VERSION.rsplit_once('.').and_then(|(text, _)| Self::parse(text)).unwrap_or(Self(u32::MAX, u32::MAX))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        let release = Self(major.parse().ok()?, minor.parse().ok()?);
        (release.to_string() == text).then_some(release)
    }

    /// The release that wrote an OPTIONS file, if it is known.
    pub fn of_writer(file: &OptionsFile) -> Option<Self> {
        Self::parse(file.rocksdb_version.as_ref()?.rsplit_once('.')?.0)
    }

    /// The oldest release that is known to read SST files built with these options.
    pub fn reading(map: &OptionMap, defaults: &OptionMap) -> Self {
        let newer = |(group, name, value): (Group, &str, &str)| {
            let option = name.split('.').next().unwrap_or(name);
            // RocksDB does not write the cache to OPTIONS, and reading depends on neither.
            group == Group::Table
                && of_old().get(group, option).is_none()
                && name != "block_cache"
                && name != DECOUPLE
                // An option that RocksDB has no more is of an old release.
                && defaults.get(group, name).is_some_and(|default| default != value)
        };
        if map.iter().any(newer) {
            return Self::built_in();
        }
        let version =
            |map: &OptionMap| map.get(Group::Table, "format_version").and_then(|text| text.parse::<u32>().ok());
        match version(map).or_else(|| version(defaults)) {
            Some(..6) => Self::OLDEST,
            Some(6) => Self::FORMATS[0],
            Some(7) => Self::FORMATS[1],
            _ => Self::built_in(),
        }
    }

    /// True if the release does not read the default format.
    pub fn is_old(self) -> bool {
        self < Self::FORMATS[1]
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl serde::Serialize for Release {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn of_old() -> &'static OptionMap {
    static OLD: LazyLock<OptionMap> = LazyLock::new(|| OptionsFile::of_one_family(OPTIONS_7_8));
    &OLD
}

/// The text of an OPTIONS file without options and fields that RocksDB 7.8 does not know, for which it refuses the
/// file. Only those with the default value are left out.
pub fn loadable_by_old(text: &str, defaults: &OptionMap) -> String {
    let mut group = None;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(title) = trimmed.strip_prefix('[') {
            group = OptionsFile::default().open_section(title.trim_end_matches(']'));
        }
        match (group, trimmed.split_once('=')) {
            (Some(group), Some((name, value))) if !trimmed.starts_with(['#', '[']) => {
                if let Some(value) = old_value(group, name, value, defaults) {
                    kept.push_str(&format!("  {name}={value}\n"));
                }
            }
            _ => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    kept
}

/// The value of an option for RocksDB 7.8; `None` if it does not know the option and the value is the default.
fn old_value(group: Group, name: &str, value: &str, defaults: &OptionMap) -> Option<String> {
    let default = defaults.get(group, name);
    let Some(old) = of_old().get(group, name) else {
        return (name != DECOUPLE && default != Some(value)).then(|| value.to_owned());
    };
    let (Some(fields), Some(_), None) = (fields_of(value), fields_of(old), field_of(value, "id")) else {
        return Some(value.to_owned());
    };
    let stays = |(field, value): &(&str, &str)| {
        field_of(old, field).is_some() || default.and_then(|default| field_of(default, field)) != Some(*value)
    };
    let fields: String = fields.into_iter().filter(stays).map(|(field, value)| format!("{field}={value};")).collect();
    Some(format!("{{{fields}}}"))
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;

    #[test]
    fn oldest_reader_follows_format_and_options() {
        let defaults = options::defaults();
        let of = |entries: &[(Group, &str, &str)]| {
            let mut map = OptionMap::default();
            for (group, name, value) in entries {
                map.set(*group, *name, *value);
            }
            Release::reading(&map, defaults).to_string()
        };
        assert_eq!(of(&[]), "10.4", "the default");
        for (format, release) in [("2", "7.8"), ("5", "7.8"), ("6", "8.6"), ("7", "10.4"), ("8", "11.12")] {
            assert_eq!(of(&[(Group::Table, "format_version", format)]), release, "{format}");
        }
        let five = (Group::Table, "format_version", "5");
        assert_eq!(of(&[five, (Group::Table, "separate_key_value_in_data_block", "true")]), "11.12");
        assert_eq!(of(&[five, (Group::Table, "separate_key_value_in_data_block", "false")]), "7.8");
        assert_eq!(of(&[five, (Group::Table, DECOUPLE, "false")]), "7.8");
        assert_eq!(of(&[five, (Group::Table, "block_cache", "1"), (Group::Cf, "default_temperature", "kHot")]), "7.8");
    }

    #[test]
    fn an_old_rocksdbs_file_loses_only_defaults() {
        let defaults = options::defaults();
        let text = "# head\n[Version]\n  rocksdb_version=11.12.0\n[DBOptions]\n  async_wal_precreate=false\n  \
            open_files_async=true\n  max_open_files=5\n  \n[CFOptions \"ids\"]\n  \
            compression_opts={checksum=false;auto_skip=true;level=32767;}\n  memtable_factory={id=VectorRepFactory;count=0;}\n";
        let expected = "# head\n[Version]\n  rocksdb_version=11.12.0\n[DBOptions]\n  open_files_async=true\n  \
            max_open_files=5\n  \n[CFOptions \"ids\"]\n  compression_opts={auto_skip=true;level=32767;}\n  \
            memtable_factory={id=VectorRepFactory;count=0;}\n";
        assert_eq!(loadable_by_old(text, defaults), expected);
        assert_eq!(loadable_by_old(expected, defaults), expected, "nothing more");
    }
}
