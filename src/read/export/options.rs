//! What to export, and how.

use std::path::{Path, PathBuf};

use derive_setters::Setters;

use crate::error::Error;
use crate::read::access::{Location, Resources};
use crate::source::car::RawCid;

/// The least memory an export works with, in bytes.
pub(super) const MIN_MEMORY: u64 = 32 << 20;

/// Which blocks are exported, and in which order.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Selection {
    /// What the roots lead to, depth first: headers tipset by tipset, below each its messages and its state, as nodes
    /// write their snapshots.
    #[default]
    Linked,
    /// Every record, in the order of keys. Only where these are CIDs.
    All,
    /// The blocks whose CIDs are in a file, one a line; `-` is standard input.
    Listed(PathBuf),
}

impl Selection {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Linked => "linked",
            Self::All => "all",
            Self::Listed(_) => "listed",
        }
    }
}

/// The file format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Format {
    /// A plain CARv1.
    #[default]
    Car,
    /// A CARv1 in zstd frames of about 1 MiB of content, with checksums.
    CarZst,
    /// A CARv1 in small zstd frames with an index behind them, as Forest reads it without unpacking.
    ForestCarZst,
    /// A block log: Antelope's with its head, others from their first block on.
    Log,
    /// A block log in zstd frames of about 1 MiB of content, with checksums.
    LogZst,
}

impl Format {
    /// All formats.
    pub(crate) const ALL: [Self; 5] = [Self::Car, Self::CarZst, Self::ForestCarZst, Self::Log, Self::LogZst];

    /// The name on the command line, which is also the usual ending of a file's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::CarZst => "car.zst",
            Self::ForestCarZst => "forest.car.zst",
            Self::Log => "log",
            Self::LogZst => "log.zst",
        }
    }

    /// Whether a block log is written.
    pub(crate) fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::LogZst)
    }

    /// The format that a file's name ends in; a plain CAR if in none.
    pub(crate) fn of_name(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let wrapped = [Self::ForestCarZst, Self::CarZst];
        wrapped.into_iter().find(|format| name.ends_with(&format!(".{}", format.name()))).unwrap_or_default()
    }

    /// The same of a block log: in zstd when the name ends in `.zst`.
    pub(crate) fn of_log_name(path: &Path) -> Self {
        let is_packed = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zst"));
        if is_packed { Self::LogZst } else { Self::Log }
    }
}

/// What to export, and how.
#[derive(Debug, Clone, Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The database.
    pub db: PathBuf,
    /// Which blocks. Defaults to what the roots lead to.
    pub selection: Selection,
    /// The roots: where to begin, and what the header names. Defaults to those that the import recorded; for a list, to
    /// the first of its CIDs.
    pub roots: Vec<RawCid>,
    /// The first block of a log. Defaults to the first in the database.
    pub from: Option<u32>,
    /// The last block of a log. Defaults to the last in the database.
    pub to: Option<u32>,
    /// The format of the file. Defaults to what its name ends in.
    pub format: Option<Format>,
    /// Replace a file that exists. Defaults to `false`.
    pub replace: bool,
    /// Commit the file even when blocks are missing. Defaults to `false`.
    pub allow_missing: bool,
    /// Blocks named by headers below this epoch may be missing. Defaults to none.
    pub allow_missing_below: Option<u64>,
    /// What the export may use.
    pub resources: Resources,
    /// Where the blocks are.
    pub location: Location,
}

impl ExportOptions {
    /// What the roots of `db` lead to, or all blocks of a log.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self {
            db: db.into(),
            selection: Selection::default(),
            roots: Vec::new(),
            from: None,
            to: None,
            format: None,
            replace: false,
            allow_missing: false,
            allow_missing_below: None,
            resources: Resources::default(),
            location: Location::default(),
        }
    }
}

/// The error for an export that the caller has cancelled.
pub(super) fn interrupted() -> Error {
    Error::Interrupted { hint: "no file was written under that name; run it again".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_names_the_format() {
        for (name, format) in [
            ("a.car", Format::Car),
            ("a.forest.car.zst", Format::ForestCarZst),
            ("dir/A.CAR.ZST", Format::CarZst),
            ("forest.car.zst", Format::CarZst),
            ("anything", Format::Car),
        ] {
            assert_eq!(Format::of_name(Path::new(name)), format, "{name}");
        }
    }
}
