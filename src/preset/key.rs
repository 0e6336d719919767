//! The full name of an option: `load.cf.write_buffer_size` is stage, scope and name.

use std::fmt;
use std::path::PathBuf;

use crate::rocks::option_map::Group;

/// The way of records into the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loader {
    /// Sorted, built into SST files outside of the database, ingested at the last level.
    Ingest,
    /// Written in batches to memtables, then compacted.
    Memtable,
}

/// When an option is effective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// While importing only.
    Load,
    /// In the finished database, and while importing unless `load` overrides it.
    Node,
}

/// The RocksDB structure that has an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Db,
    Cf,
    Table,
    /// `WriteOptions`, and how batches are made.
    Write,
    /// `IngestExternalFileOptions`, and how SST files are made.
    Ingest,
    /// `CompactRangeOptions` of the final compaction.
    Compaction,
}

macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ }) => {
        impl $type {
            #[allow(dead_code, reason = "not every type is listed by the program")]
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name),+ })
            }
        }
    };
}

names!(Loader { Ingest = "ingest", Memtable = "memtable" });
names!(Stage { Load = "load", Node = "node" });
names!(Scope { Db = "db", Cf = "cf", Table = "table", Write = "write", Ingest = "ingest", Compaction = "compaction" });

impl Scope {
    /// The group of RocksDB's option parser, for the scopes it reads.
    pub fn group(self) -> Option<Group> {
        match self {
            Self::Db => Some(Group::Db),
            Self::Cf => Some(Group::Cf),
            Self::Table => Some(Group::Table),
            Self::Write | Self::Ingest | Self::Compaction => None,
        }
    }
}

impl From<Group> for Scope {
    fn from(group: Group) -> Self {
        match group {
            Group::Db => Self::Db,
            Group::Cf => Self::Cf,
            Group::Table => Self::Table,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub stage: Stage,
    pub scope: Scope,
    /// RocksDB's name, or a row of the registry. A field of a structure is `option.field`.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.stage, self.scope, self.name)
    }
}

impl serde::Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A preset and the line. The file of a built-in preset is a name.
    Preset(PathBuf, usize),
    OptionsFile(PathBuf, usize),
    UserConfig(PathBuf, usize),
    /// The argument of [`crate::Overrides::set`], and of `--set`.
    Override(String),
}

impl Origin {
    /// The line in its file; 0 if it has no file.
    pub(crate) fn line(&self) -> usize {
        match self {
            Self::Preset(_, line) | Self::OptionsFile(_, line) | Self::UserConfig(_, line) => *line,
            Self::Override(_) => 0,
        }
    }

    /// The precedence of the layer. A higher one overrides a lower one.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Preset(..) => 0,
            Self::UserConfig(..) => 1,
            Self::OptionsFile(..) => 2,
            Self::Override(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preset(file, line) | Self::OptionsFile(file, line) | Self::UserConfig(file, line) => {
                write!(f, "{}:{line}", file.display())
            }
            Self::Override(argument) => write!(f, "option {argument}"),
        }
    }
}

impl serde::Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
