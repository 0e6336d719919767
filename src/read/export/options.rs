use std::path::{Path, PathBuf};

use derive_setters::Setters;

use crate::error::{Error, Result};
use crate::progress::CancellationToken;
use crate::read::access::{Location, Resources};
use crate::report::{EXPORT_SCHEMA, ExportReport};
use crate::rocks::{Reader, ReaderOptions};
use crate::source::car::RawCid;

/// Minimum memory of an export, in bytes.
const MIN_MEMORY: u64 = 32 << 20;

/// The exported blocks and their order.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Selection {
    /// Everything that the roots link to, depth first, in the order in which nodes write their snapshots.
    #[default]
    Linked,
    /// Every record in key order. Requires CIDs as keys.
    All,
    /// The blocks whose CIDs are in a file, one per line; `-` is standard input.
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
pub enum ExportFormat {
    /// A plain CARv1.
    #[default]
    Car,
    /// A CARv1 in zstd frames of about 1 MiB of content, with checksums.
    CarZst,
    /// A CARv1 in small zstd frames followed by an index, which Forest reads without decompressing.
    ForestCarZst,
    /// A block log. An Antelope log includes the bytes before its first block.
    Log,
    /// A block log in zstd frames of about 1 MiB of content, with checksums.
    LogZst,
}

impl ExportFormat {
    pub(crate) const ALL: [Self; 5] = [Self::Car, Self::CarZst, Self::ForestCarZst, Self::Log, Self::LogZst];

    /// Returns the name, which is also the usual suffix of a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::CarZst => "car.zst",
            Self::ForestCarZst => "forest.car.zst",
            Self::Log => "log",
            Self::LogZst => "log.zst",
        }
    }

    pub(crate) fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::LogZst)
    }

    /// Returns the format of a stream, a device or a pipe, which have no suffix.
    pub(crate) fn of_stream(is_log: bool) -> Self {
        if is_log { Self::Log } else { Self::Car }
    }

    /// Returns the format of a file by its suffix. A block log may have only the suffix `.zst`, as nodes name it.
    pub(crate) fn of_name(path: &Path, is_log: bool) -> Result<Self> {
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            return Ok(Self::of_stream(is_log));
        }
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let ends_in = |format: &Self| name.ends_with(&format!(".{}", format.name()));
        let found = Self::ALL.into_iter().filter(|format| format.is_log() == is_log).rev().find(ends_in);
        let (bare_name, bare_format) =
            name.strip_suffix(".zst").map_or((&*name, Self::Log), |bare| (bare, Self::LogZst));
        let bare = || (is_log && !bare_name.contains('.')).then_some(bare_format);
        found.or_else(bare).ok_or_else(|| Error::Usage {
            reason: format!("the suffix of {} is not a format that this database can be exported to", path.display()),
            hint: if is_log {
                "use the suffix .log, .log.zst, .zst or none, or pass --format log or log.zst"
            } else {
                "use the suffix .car, .car.zst or .forest.car.zst, or pass --format"
            }
            .into(),
        })
    }
}

/// Options of an export.
#[derive(Debug, Clone, Default, Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The database.
    #[setters(into)]
    pub(crate) db: PathBuf,
    /// The exported blocks. Defaults to everything that the roots link to.
    pub(crate) selection: Selection,
    /// The roots, which are the first blocks and are in the header. Defaults to the roots of the import, or to the
    /// first CID of a list.
    pub(crate) roots: Vec<RawCid>,
    /// First block of a log. Defaults to the first in the database.
    pub(crate) from: Option<u32>,
    /// Last block of a log. Defaults to the last in the database.
    pub(crate) to: Option<u32>,
    /// The file format. Defaults to the format of the file's suffix.
    pub(crate) format: Option<ExportFormat>,
    /// Replaces an existing file. Defaults to `false`.
    pub(crate) replace: bool,
    /// Commits the file even if blocks are missing. Defaults to `false`.
    pub(crate) allow_missing: bool,
    /// Blocks named by headers below this epoch may be missing. Defaults to none.
    pub(crate) allow_missing_below: Option<u64>,
    /// Resources of the export.
    pub(crate) resources: Resources,
    /// Location of the blocks.
    pub(crate) location: Location,
}

impl ExportOptions {
    /// Creates an export of everything that the roots of `db` link to, or of all blocks of a log.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self { db: db.into(), ..Self::default() }
    }

    /// Sets the token that cancels the export.
    pub fn stop(mut self, stop: CancellationToken) -> Self {
        self.resources.stop = stop;
        self
    }

    /// Refuses options that have no effect on an export of this kind.
    pub(super) fn check(&self, is_log: bool) -> Result<()> {
        let has_format = |of_log: bool| self.format.is_some_and(|format| format.is_log() == of_log);
        let of_cars = [
            (!self.roots.is_empty(), "a root"),
            (self.selection == Selection::All, "the selection of all blocks"),
            (matches!(self.selection, Selection::Listed(_)), "a list of CIDs"),
            (self.allow_missing, "allowing missing blocks"),
            (self.allow_missing_below.is_some(), "an epoch below which blocks may be missing"),
            (has_format(false), "the format of a CAR"),
            (self.location.key.is_some(), "a key layout"),
            (self.location.column_family.is_some(), "a column family"),
        ];
        let of_logs = [
            (self.from.is_some(), "a first block"),
            (self.to.is_some(), "a last block"),
            (has_format(true), "the format of a block log"),
        ];
        let (refused, kind, hint) = match is_log {
            true => (&of_cars[..], "block log", "all blocks are exported, or those between --from and --to"),
            false => (&of_logs[..], "CAR", "--root, --all and --cids choose blocks of a CAR"),
        };
        refused.iter().find(|(given, _)| *given).map_or(Ok(()), |(_, option)| {
            let reason = format!("{option} has no effect on the export of a {kind}");
            Err(Error::Usage { reason, hint: format!("omit it; {hint}").into() })
        })
    }

    pub(super) fn memory(&self) -> Result<u64> {
        Ok(self.resources.memory_budget()?.max(MIN_MEMORY))
    }

    /// Opens the database for reading with an eighth of the memory as cache.
    pub(super) fn reader(&self) -> Result<Reader> {
        let cache = usize::try_from(self.memory()? / 8).unwrap_or(usize::MAX);
        Reader::open(&self.db, &ReaderOptions { cache, open_files: -1, ..ReaderOptions::once() })
    }

    pub(super) fn report(&self, format: ExportFormat, file: &Path) -> ExportReport {
        ExportReport {
            schema: EXPORT_SCHEMA.into(),
            db: self.db.display().to_string(),
            file: file.display().to_string(),
            format: format.name().into(),
            ..ExportReport::default()
        }
    }
}

/// The error of a cancelled export.
pub(super) fn interrupted() -> Error {
    Error::Interrupted { hint: "no file was written under that name; run it again".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_names_the_format() {
        for (name, format) in [
            ("a.car", ExportFormat::Car),
            ("a.forest.car.zst", ExportFormat::ForestCarZst),
            ("dir/A.CAR.ZST", ExportFormat::CarZst),
            ("forest.car.zst", ExportFormat::CarZst),
            ("block_log", ExportFormat::Log),
            ("blocks.log", ExportFormat::Log),
            ("blocks.LOG.zst", ExportFormat::LogZst),
            ("block_log.zst", ExportFormat::LogZst),
            ("/dev/null", ExportFormat::Car),
        ] {
            assert_eq!(ExportFormat::of_name(Path::new(name), format.is_log()).expect(name), format, "{name}");
        }
        for name in ["a.car.gz", "a.tar", "a.zst", "anything", "a.car.", "car"] {
            let error = ExportFormat::of_name(Path::new(name), false).expect_err(name);
            assert_eq!(error.exit(), crate::Exit::Usage);
            assert!(error.hint().contains(".car, .car.zst or .forest.car.zst"), "{error}");
            let error = ExportFormat::of_name(&Path::new(name).with_extension("gz"), true).expect_err(name);
            assert!(error.hint().contains(".log, .log.zst, .zst or none"), "{error}");
        }
    }
}
