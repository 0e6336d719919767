//! RocksDB's OPTIONS files: the options that a database was opened with.
//!
//! ```text
//! # This is a RocksDB option file. ..
//! [Version]
//!   rocksdb_version=11.12.0
//!   options_file_version=1.1
//! [DBOptions]
//!   max_open_files=-1
//! [CFOptions "default"]
//!   compression=kLZ4Compression
//!   compression_opts={level=32767;..}
//! [TableOptions/BlockBasedTable "default"]
//!   block_size=4096
//! ```
//!
//! Format: RocksDB's wiki, "RocksDB Options File". Every database keeps its latest two files `OPTIONS-<number>`.

use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::{Group, OptionMap};
use crate::error::{Error, Result, StateKind};
use crate::os::files::{open_regular, read_regular, write_synced};

/// Largest OPTIONS file that is read. One with a thousand column families is smaller.
pub(crate) const MAX_FILE: u64 = 16 << 20;

/// Bytes in which an OPTIONS file has its first section.
const HEAD: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionsFile {
    /// The version that wrote it, e.g. `11.12.0`.
    pub rocksdb_version: Option<String>,
    pub db: Vec<Line>,
    pub families: Vec<FamilyOptions>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FamilyOptions {
    pub name: String,
    pub cf: Vec<Line>,
    /// The name after `TableOptions/`, e.g. `BlockBasedTable`.
    pub table_format: Option<String>,
    pub table: Vec<Line>,
}

/// `name=value` and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    pub value: String,
    pub line: usize,
}

impl OptionsFile {
    pub fn read(path: &Path) -> Result<Self> {
        let hint = "name the OPTIONS-<number> file in the node's database directory";
        let shown = path.display();
        let invalid = |why: &dyn Display| Error::usage(format!("{shown} is not a RocksDB OPTIONS file: {why}"), hint);
        let bytes = read_regular(path, MAX_FILE).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => invalid(&error),
            _ => Error::io("read", path)(error),
        })?;
        let text = String::from_utf8(bytes).map_err(|error| invalid(&error))?;
        Self::parse(&text).map_err(|(line, why)| invalid(&format!("line {line}: {why}")))
    }

    /// True if the file begins as an OPTIONS file does: comments, then `[Version]`.
    pub(crate) fn is_one(path: &Path) -> bool {
        let Ok(mut file) = open_regular(path) else { return false };
        let mut head = [0; HEAD];
        let read = file.read(&mut head).unwrap_or_default();
        let head = String::from_utf8_lossy(&head[..read]);
        let first = head.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        first == Some("[Version]")
    }

    /// Returns the path of an OPTIONS file; of a database directory, its latest one.
    pub fn find(path: &Path) -> Result<PathBuf> {
        if path.is_dir() { Self::latest_path(path) } else { Ok(path.to_owned()) }
    }

    pub fn latest(dir: &Path) -> Result<Self> {
        Self::read(&Self::latest_path(dir)?)
    }

    /// The latest one of a database, if it has one. Damage is that of the database.
    pub(super) fn of_database(dir: &Path) -> Result<Option<Self>> {
        let Ok(path) = Self::latest_path(dir) else { return Ok(None) };
        Self::read(&path).map(Some).map_err(|error| match error {
            Error::Usage { reason, .. } => {
                Error::Rocks { action: "read", path, message: format!("Corruption: {reason}") }
            }
            other => other,
        })
    }

    pub fn latest_path(dir: &Path) -> Result<PathBuf> {
        let mut newest: Option<(u64, PathBuf)> = None;
        for entry in fs::read_dir(dir).map_err(Error::io("read", dir))? {
            let path = entry.map_err(Error::io("read", dir))?.path();
            newest = newest.max(Self::number(&path).zip(Some(path)));
        }
        let hint = "name the directory of a RocksDB database";
        let none = || Error::state(dir, StateKind::NoDatabase, "there is no OPTIONS file in it", hint);
        newest.map(|(_, path)| path).ok_or_else(none)
    }

    /// Sets options of the database in its latest OPTIONS file.
    pub(super) fn set_in_database<'a>(dir: &Path, options: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
        let path = Self::latest_path(dir)?;
        let bytes = read_regular(&path, MAX_FILE).map_err(Error::io("read", &path))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let file = Self::parse(&text).unwrap_or_default();
        for (name, value) in options {
            let known = file.db.iter().find(|known| known.name == name).and_then(|known| lines.get_mut(known.line - 1));
            let line = known.ok_or_else(|| Error::broken_invariant(format_args!("an OPTIONS file without {name}")))?;
            *line = format!("  {name}={value}");
        }
        lines.push(String::new());
        write_synced(dir, &path.file_name().unwrap_or_default().to_string_lossy(), lines.join("\n").as_bytes())
    }

    pub(crate) fn number(path: &Path) -> Option<u64> {
        path.file_name()?.to_str()?.strip_prefix("OPTIONS-")?.parse().ok()
    }

    /// Parses a text. An error has the number of a line.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut file = Self::default();
        let mut group = None;
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(title) = line.strip_prefix('[') {
                let title = title.strip_suffix(']').ok_or_else(|| (at, "a section title without `]`".to_owned()))?;
                group = file.open_section(title);
                continue;
            }
            let (name, value) = line.split_once('=').ok_or_else(|| (at, format!("`{line}` is not `name=value`")))?;
            let entry = Line { name: name.trim().into(), value: value.trim().into(), line: at };
            match (group, file.families.last_mut()) {
                (None, _) if entry.name == "rocksdb_version" => file.rocksdb_version = Some(entry.value),
                (Some(Group::Db), _) => file.db.push(entry),
                (Some(Group::Cf), Some(family)) => family.cf.push(entry),
                (Some(Group::Table), Some(family)) => family.table.push(entry),
                _ => {}
            }
        }
        if file.rocksdb_version.is_none() || file.families.is_empty() {
            return Err((1, "it has no [Version] or no [CFOptions] section".into()));
        }
        Ok(file)
    }

    pub(super) fn open_section(&mut self, title: &str) -> Option<Group> {
        let (kind, argument) = title.split_once(' ').unwrap_or((title, ""));
        let argument = argument.trim();
        let argument = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(argument);
        match kind.split_once('/').unwrap_or((kind, "")) {
            ("DBOptions", _) => Some(Group::Db),
            ("CFOptions", _) => {
                self.families.push(FamilyOptions { name: unescaped(argument), ..FamilyOptions::default() });
                Some(Group::Cf)
            }
            ("TableOptions", format) => {
                if let Some(family) = self.families.last_mut() {
                    family.table_format = Some(format.into());
                }
                Some(Group::Table)
            }
            _ => None,
        }
    }

    /// The options of a text that is known to be good.
    pub(super) fn of_one_family(text: &str) -> OptionMap {
        let file = Self::parse(text).unwrap_or_default();
        file.family("default").map(|family| file.options(family)).unwrap_or_default()
    }

    pub fn family(&self, name: &str) -> Option<&FamilyOptions> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The options of the database and of a column family. Structures stay whole.
    pub fn options(&self, family: &FamilyOptions) -> OptionMap {
        let groups = [(Group::Db, &self.db), (Group::Cf, &family.cf), (Group::Table, &family.table)];
        groups.into_iter().flat_map(|(group, lines)| lines.iter().map(move |it| (group, &it.name, &it.value))).collect()
    }
}

/// Returns the name of a column family, in which RocksDB escapes some characters.
fn unescaped(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|c| match c {
                'n' => '\n',
                'r' => '\r',
                other => other,
            })),
            c => name.push(c),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# head\n[Version]\n  rocksdb_version=9.1.1\n[DBOptions]\n  max_open_files=-1\n\
        [CFOptions \"default\"]\n  compression=kLZ4Compression\n  \n\
        [TableOptions/BlockBasedTable \"default\"]\n  block_size=16384\n[CFOptions \"ids\"]\n  num_levels=7\n";

    #[test]
    fn sections_names_values_and_lines_are_kept() {
        let file = OptionsFile::parse(FILE).expect("a good file");
        assert_eq!(file.rocksdb_version.as_deref(), Some("9.1.1"));
        assert_eq!(file.db, [Line { name: "max_open_files".into(), value: "-1".into(), line: 5 }]);
        let family = file.family("default").expect("the family is there");
        assert_eq!(family.table_format.as_deref(), Some("BlockBasedTable"));
        let map = file.options(family);
        assert_eq!(map.get(Group::Table, "block_size"), Some("16384"));
        assert_eq!(map.get(Group::Cf, "num_levels"), None, "another family's option");
        assert_eq!(file.families.len(), 2);
    }

    #[test]
    fn invalid_options_file_is_reported_with_line() {
        let error = OptionsFile::parse("[Version]\n  rocksdb_version\n").expect_err("no value");
        assert_eq!(error, (2, "`rocksdb_version` is not `name=value`".into()));
        let error = OptionsFile::parse("hello=1\n").expect_err("no sections");
        assert_eq!(error.1, "it has no [Version] or no [CFOptions] section");
    }

    #[test]
    fn the_highest_number_is_the_latest() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, version) in [("OPTIONS-000009", "9.0.0"), ("OPTIONS-000010", "10.0.0"), ("OPTIONS-x", "1")] {
            fs::write(dir.path().join(name), FILE.replace("9.1.1", version)).expect("written");
        }
        let file = OptionsFile::latest(dir.path()).expect("read");
        assert_eq!(file.rocksdb_version.as_deref(), Some("10.0.0"));
    }
}
