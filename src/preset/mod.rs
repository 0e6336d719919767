//! Presets: named sets of RocksDB's options for loading and for the finished database.
//!
//! A preset is a file of data (`configs/*.toml`): a loader, and options under RocksDB's own names for two stages, `load`
//! (while importing) and `node` (the finished database; also while importing wherever `load` does not say otherwise, so
//! that SST files are built as the node wants them). [`resolve()`] applies the overrides, checks every name and value
//! with RocksDB, and yields the options of the loaders.
//!
//! Precedence, highest first: `--set`, `--options-file` (which replaces all of `node` below it), environment
//! (`BEDLOAD_SET_LOAD_CF_WRITE_BUFFER_SIZE=64M`; `BEDLOAD_PRESET`), the user's configuration
//! (`~/.config/bedload/config.toml`), the preset, RocksDB's default.
//!
//! No type of RocksDB appears here; `rocks` turns option maps and settings into RocksDB's.

mod builtin;
mod diff;
mod effects;
mod explain;
mod ineffective;
mod key;
mod lints;
mod machine;
mod overrides;
pub(crate) mod parse;
mod problem;
pub(crate) mod quantity;
pub mod registry;
mod resolve;
mod resolved;
mod shorthand;
mod validate;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

pub use diff::{Difference, diff};
pub use explain::explain;
#[cfg(feature = "testing")]
pub use key::Stage;
pub use key::{Loader, Origin};
pub use machine::Machine;
pub use overrides::Overrides;
pub use parse::Assignment;
pub use problem::PresetProblem;
pub use resolve::resolve;
pub use resolved::{EffectiveOption, Resolved};

use crate::error::{Error, Result};
use parse::Role;

/// The preset of CARs when the user names none.
pub const DEFAULT: &str = "ingest";

/// The preset of block logs when the user names none.
pub const DEFAULT_OF_LOGS: &str = "block-log";

/// A preset as it was written: names and values have not been checked yet.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// What it is for, in a line.
    pub summary: String,
    /// The loader it is made for.
    pub loader: Loader,
    /// Its options, in the order of the file.
    pub assignments: Vec<Assignment>,
    /// The file as it is.
    pub text: Cow<'static, str>,
}

impl Preset {
    /// The names of the presets that are built in, sorted, the default one first.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::PRESETS.iter().map(|(name, _)| *name)
    }

    /// A preset that is built in.
    ///
    /// # Errors
    /// [`Error::Preset`] with [`PresetProblem::NoSuchPreset`]: there is none of that name.
    pub fn builtin(name: &str) -> Result<Self> {
        let Some((name, text)) = builtin::PRESETS.iter().find(|(known, _)| *known == name) else {
            let nearest = problem::nearest_of(name, Self::builtin_names()).map(str::to_owned);
            return Err(PresetProblem::NoSuchPreset { name: name.into(), nearest }.into());
        };
        Self::parse(Cow::Borrowed(text), &PathBuf::from(format!("{name}.toml")))
    }

    /// A preset in a file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Usage`]: the file cannot be read as text; [`Error::Preset`]: it is not of the form of a
    /// preset.
    pub fn from_file(path: &Path) -> Result<Self> {
        Self::parse(Cow::Owned(parse::read(path)?), path)
    }

    /// A preset by its name or, where the word has a slash or ends in `.toml`, by its path.
    ///
    /// # Errors
    /// As [`Preset::builtin`] and [`Preset::from_file`].
    pub fn find(word: &str) -> Result<Self> {
        let path = Path::new(word);
        if word.contains('/') || path.extension().is_some_and(|extension| extension == "toml") {
            Self::from_file(path)
        } else {
            Self::builtin(word)
        }
    }

    fn parse(text: Cow<'static, str>, file: &Path) -> Result<Self> {
        let document = parse::document(&text, file, Role::Preset)?;
        let missing = |what: &str| PresetProblem::Form {
            at: Origin::Preset { file: file.to_owned(), line: 1 },
            reason: format!("the preset has no `{what}`"),
        };
        let name = match document.name {
            Some(name) => name,
            None => file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).ok_or_else(|| missing("name"))?,
        };
        let loader = document.loader.ok_or_else(|| missing("loader"))?;
        Ok(Self {
            name,
            summary: document.summary.unwrap_or_default(),
            loader,
            assignments: document.assignments,
            text,
        })
    }
}

impl From<PresetProblem> for Error {
    fn from(problem: PresetProblem) -> Self {
        Self::Preset(problem.into())
    }
}

#[cfg(test)]
mod tests;
