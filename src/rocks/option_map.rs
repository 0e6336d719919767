//! Options as text under RocksDB's own names: input of its option parser, and content of its OPTIONS files. Every room
//! may use them.
//!

use std::collections::BTreeMap;
use std::fmt;

/// The sections of an OPTIONS file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// `[DBOptions]`: the database as a whole.
    Db,
    /// `[CFOptions "name"]`: one column family.
    Cf,
    /// `[TableOptions/BlockBasedTable "name"]`: the SST files of a column family.
    Table,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Db => "db",
            Self::Cf => "cf",
            Self::Table => "table",
        })
    }
}

const COMPRESSIONS: [&str; 2] = ["compression_opts", "bottommost_compression_opts"];

/// Options by group and name. A field of a structured option is named `option.field`, e.g. `compression_opts.level`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionMap {
    entries: BTreeMap<(Group, String), String>,
}

impl OptionMap {
    /// Sets an option. A later call for the same name wins.
    pub fn set(&mut self, group: Group, name: impl Into<String>, value: impl Into<String>) {
        self.entries.insert((group, name.into()), value.into());
    }

    pub fn get(&self, group: Group, name: &str) -> Option<&str> {
        self.entries.get(&(group, name.to_owned())).map(String::as_str)
    }

    pub fn remove(&mut self, group: Group, name: &str) -> Option<String> {
        self.entries.remove(&(group, name.to_owned()))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Group, &str, &str)> {
        self.entries.iter().map(|((group, name), value)| (*group, name.as_str(), value.as_str()))
    }

    /// These options, overridden by those of `over`.
    pub fn overlaid(&self, over: &Self) -> Self {
        let mut entries = self.entries.clone();
        entries.extend(over.entries.iter().map(|(key, value)| (key.clone(), value.clone())));
        Self { entries }
    }

    /// A size of a column family. RocksDB takes a negative number for a huge one.
    fn bytes(&self, name: &str) -> u64 {
        self.get(Group::Cf, name).and_then(|bytes| bytes.parse::<i64>().ok()).unwrap_or_default() as u64
    }

    /// True if RocksDB trains dictionaries of compression.
    pub fn trains_dictionaries(&self) -> bool {
        COMPRESSIONS.iter().any(|options| self.bytes(&format!("{options}.max_dict_bytes")) > 0)
    }

    /// Bounds each dictionary, and the samples for it. Otherwise RocksDB keeps a whole file in memory to take samples.
    pub fn bound_dictionaries(&mut self, most: u64) {
        for options in COMPRESSIONS {
            let [size, samples] = ["max_dict_bytes", "max_dict_buffer_bytes"].map(|field| format!("{options}.{field}"));
            if let bytes @ 1.. = self.bytes(&size) {
                // Zero is no limit.
                let limit = Some(self.bytes(&samples)).filter(|&limit| limit > 0);
                self.set(Group::Cf, size, bytes.min(most).to_string());
                self.set(Group::Cf, samples, limit.map_or(most, |limit| limit.min(most)).to_string());
            }
        }
    }

    /// The input of RocksDB's option parser: `name=value;..`, with braces around the fields of a structure and the
    /// table's options.
    pub fn to_parser_string(&self) -> String {
        let group = |group| {
            let mut fields: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            let mut plain = Vec::new();
            for (_, name, value) in self.iter().filter(|(of, ..)| *of == group) {
                match name.split_once('.') {
                    Some((option, field)) => fields.entry(option).or_default().push(assign(field, value)),
                    None => plain.push(assign(name, value)),
                }
            }
            plain.extend(fields.into_iter().map(|(option, fields)| format!("{option}={{{}}}", fields.join(";"))));
            plain
        };
        let mut all = group(Group::Db);
        all.extend(group(Group::Cf));
        let table = group(Group::Table);
        if !table.is_empty() {
            all.push(format!("block_based_table_factory={{{}}}", table.join(";")));
        }
        all.join(";")
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(Group, N, V)> for OptionMap {
    fn from_iter<T: IntoIterator<Item = (Group, N, V)>>(entries: T) -> Self {
        Self { entries: entries.into_iter().map(|(group, name, value)| ((group, name.into()), value.into())).collect() }
    }
}

fn assign(name: &str, value: &str) -> String {
    if value.contains(';') && !value.starts_with('{') {
        format!("{name}={{{value}}}")
    } else {
        format!("{name}={value}")
    }
}

/// Splits `{a=1;b={c=2}}` into names and values at the outermost level; `None` for another form.
pub fn fields_of(value: &str) -> Option<Vec<(&str, &str)>> {
    let inside = value.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut fields = Vec::new();
    let mut depth = 0u32;
    let mut start = 0;
    for (at, byte) in inside.bytes().enumerate().chain([(inside.len(), b';')]) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            b';' if depth == 0 => {
                let field = inside.get(start..at)?.trim();
                start = at + 1;
                if !field.is_empty() {
                    let (name, value) = field.split_once('=')?;
                    fields.push((name.trim(), value.trim()));
                }
            }
            _ => {}
        }
    }
    (depth == 0).then_some(fields)
}

pub fn field_of<'a>(structure: &'a str, name: &str) -> Option<&'a str> {
    fields_of(structure)?.into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
}

/// True if a value in an OPTIONS file is the default. The file may omit fields of a structure.
pub fn says_default(value: &str, default: Option<&str>) -> bool {
    let Some(default) = default else { return false };
    let is_within = |fields: Vec<(&str, &str)>| {
        let all = fields_of(default).unwrap_or_default();
        !fields.is_empty() && fields.iter().all(|field| all.contains(field))
    };
    value == default || fields_of(value).is_some_and(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug: a negative size was no size, and RocksDB allocated 4 GiB.
    #[test]
    fn every_dictionary_is_bounded() {
        for (size, bounded) in [("-5", "100"), ("4294967295", "100"), ("99", "99"), ("0", "0")] {
            let mut map = OptionMap::default();
            map.set(Group::Cf, "compression_opts.max_dict_bytes", size);
            assert_eq!(map.trains_dictionaries(), size != "0", "{size}");
            map.bound_dictionaries(100);
            assert_eq!(map.get(Group::Cf, "compression_opts.max_dict_bytes"), Some(bounded));
            let samples = map.get(Group::Cf, "compression_opts.max_dict_buffer_bytes");
            assert_eq!(samples, (size != "0").then_some("100"), "{size}");
        }
    }

    #[test]
    fn nested_options_are_written_in_braces() {
        let mut map = OptionMap::default();
        map.set(Group::Db, "max_open_files", "-1");
        map.set(Group::Cf, "compression_opts.level", "3");
        map.set(Group::Cf, "compression_opts.parallel_threads", "2");
        map.set(Group::Table, "block_size", "16384");
        assert_eq!(
            map.to_parser_string(),
            "max_open_files=-1;compression_opts={level=3;parallel_threads=2};block_based_table_factory={block_size=16384}"
        );
    }

    #[test]
    fn braces_nest_and_must_balance() {
        assert_eq!(fields_of("{a=1; b={c=2;d=3};}"), Some(vec![("a", "1"), ("b", "{c=2;d=3}")]));
        assert_eq!(fields_of("{}"), Some(vec![]));
        assert_eq!(fields_of("{a=1}}"), None);
        assert_eq!(fields_of("{a={b=1}"), None);
        assert_eq!(fields_of("4:5"), None);
    }

    #[test]
    fn structure_without_fields_can_be_default() {
        let default = Some("{a=1;b={c=2;d=3;};e=4;}");
        for same in ["{a=1;b={c=2;d=3;};e=4;}", "{e=4;a=1;}", "{b={c=2;d=3;};}"] {
            assert!(says_default(same, default), "{same}");
        }
        for other in ["{a=2;}", "{a=1;f=1;}", "{}", "1", "{b={c=2;};}"] {
            assert!(!says_default(other, default), "{other}");
        }
        assert!(says_default("1", Some("1")) && !says_default("1", None) && !says_default("", Some("1")));
    }
}
