//! Presets: named sets of RocksDB's options for loading and for the finished database.
//!
//! A preset is a file (`configs/*.toml`) with a loader, and options under RocksDB's own names for two stages: `load`
//! (while importing) and `node` (the finished database, and while importing unless `load` overrides it). [`resolve()`]
//! applies the overrides and checks every name and value with RocksDB.
//!
//! Precedence, highest first: `--set`, `--options-file` (which replaces all of `node` below it), the user's configuration
//! (`~/.config/bedload/config.toml`), the preset, RocksDB's default.
//!
//! No type of RocksDB appears here; `rocks` turns option maps and settings into RocksDB's.

mod builtin;
mod catalogue;
#[cfg(feature = "cli")]
mod diff;
#[cfg(feature = "cli")]
mod explain;
mod key;
mod lints;
pub mod machine;
mod names;
mod overrides;
pub mod parse;
mod problem;
pub mod registry;
mod resolve;
mod resolved;
mod rules;
mod shorthand;
mod validate;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[cfg(feature = "cli")]
pub use diff::{Difference, diff};
#[cfg(feature = "cli")]
pub use explain::explain;
pub use key::{Loader, Origin, Stage};
#[cfg(test)]
use machine::Machine;
pub use overrides::Overrides;
pub use parse::Assignment;
pub(crate) use problem::PresetProblem;
pub(crate) use problem::nearest_of;
pub use resolve::resolve;
pub use resolved::{OptionRow, Resolved};

use crate::error::{Cause, Error, Result};
use crate::os::files::is_same;
use crate::rocks::options;
use crate::rocks::options_file::OptionsFile;
use crate::rocks::releases::Release;
use parse::Role;

/// The most files of a preset, each the base of the one before it.
const MAX_BASES: usize = 8;

pub const DEFAULT: &str = "ingest";

/// A preset as it was written. Names and values are not checked yet.
#[derive(Debug, Clone)]
pub struct Preset {
    pub name: String,
    pub summary: String,
    pub loader: Loader,
    pub base: Option<Box<Preset>>,
    /// Its own options, without those of its base.
    pub assignments: Vec<Assignment>,
    /// The content of its file; empty if it was made for an OPTIONS file.
    pub text: Cow<'static, str>,
}

impl Preset {
    /// The names of the built-in presets, the default one first.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::PRESETS.iter().map(|(name, _)| *name)
    }

    pub(crate) fn main_names() -> impl Iterator<Item = &'static str> {
        Self::builtin_names().take(builtin::LISTED)
    }

    pub fn builtin(name: &str) -> Result<Self> {
        let Some((name, text)) = builtin::PRESETS.iter().find(|(known, _)| *known == name) else {
            let nearest = problem::nearest_of(name, Self::builtin_names()).map(str::to_owned);
            return Err(PresetProblem::NoSuchPreset { name: name.into(), nearest }.into());
        };
        Self::parse(Cow::Borrowed(text), &PathBuf::from(format!("{name}.toml")), &mut Vec::new())
    }

    /// True if the preset and its bases are built in.
    pub(crate) fn is_built_in(&self) -> bool {
        self.layers().iter().all(|preset| matches!(preset.text, Cow::Borrowed(text) if !text.is_empty()))
    }

    pub fn from_file(path: &Path) -> Result<Self> {
        Self::parse(Cow::Owned(parse::read(path)?), path, &mut vec![path.to_owned()])
    }

    /// Finds a preset by its path, if the word has a slash or ends in `.toml`, or by its name.
    pub fn find(word: &str) -> Result<Self> {
        if options_file(word).is_some() {
            let reason = format!("{word} has options of RocksDB, and is not a preset");
            return Err(Error::usage(reason, format!("give it with --options-file {word}")));
        }
        file_of(word).map_or_else(|| Self::builtin(word), Self::from_file)
    }

    /// The base for an OPTIONS file: the `load` options of `like`, and no `node` options.
    pub(crate) fn for_options_file(file: &Path, like: Option<&Self>) -> Self {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let assignments = like.map_or_else(Vec::new, Self::all_assignments);
        Self {
            name,
            summary: "options from an OPTIONS file".into(),
            loader: like.map_or(Loader::Ingest, |like| like.loader),
            base: None,
            assignments: assignments.into_iter().filter(|assignment| assignment.key.stage == Stage::Load).collect(),
            text: Cow::Borrowed(""),
        }
    }

    /// This preset and its bases, the lowest first.
    pub(crate) fn layers(&self) -> Vec<&Self> {
        let mut layers: Vec<&Self> = std::iter::successors(Some(self), |preset| preset.base.as_deref()).collect();
        layers.reverse();
        layers
    }

    /// Its options and those of its bases. The highest value of an option wins.
    pub(crate) fn all_assignments(&self) -> Vec<Assignment> {
        let mut all: Vec<Assignment> = Vec::new();
        let mut places = HashMap::new();
        for assignment in self.layers().into_iter().flat_map(|preset| &preset.assignments) {
            let place = *places.entry(&assignment.key).or_insert(all.len());
            match all.get_mut(place) {
                Some(known) => known.clone_from(assignment),
                None => all.push(assignment.clone()),
            }
        }
        all
    }

    pub(crate) fn all_text(&self) -> String {
        self.layers().into_iter().map(|preset| &*preset.text).collect::<Vec<_>>().join("\n")
    }

    /// The oldest RocksDB that is known to read its databases, without overrides.
    pub(crate) fn oldest_rocksdb(&self) -> Release {
        let entries = self.all_assignments().into_iter();
        let map = entries.filter_map(|one| Some((one.key.scope.group()?, one.key.name, one.value))).collect();
        Release::reading(&map, options::defaults())
    }

    /// Parses a preset. `files` are the files that led to it.
    fn parse(text: Cow<'static, str>, file: &Path, files: &mut Vec<PathBuf>) -> Result<Self> {
        let document = parse::document(&text, file, Role::Preset)?;
        let start = Origin::Preset(file.to_owned(), 1);
        let missing = |what: &str| PresetProblem::form(&start, format!("the preset has no `{what}`"));
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = document.name.or(stem).ok_or_else(|| missing("name"))?;
        let mut loader = document.loader;
        let mut base = None;
        if let Some((word, at)) = document.base {
            let found = Self::base(&word, &at, file, files)?;
            if loader.is_some_and(|loader| loader != found.loader) {
                let reason =
                    format!("`{word}` has the loader `{}`: leave `loader` out, or take another `base`", found.loader);
                return Err(PresetProblem::form(&at, reason).into());
            }
            loader = Some(found.loader);
            base = Some(Box::new(found));
        }
        let loader = loader.ok_or_else(|| missing("loader"))?;
        let summary = document.summary.unwrap_or_default();
        Ok(Self { name, summary, loader, base, assignments: document.assignments, text })
    }

    /// Finds the base of the preset in `file`. A relative path begins at the folder of `file`.
    fn base(word: &str, at: &Origin, file: &Path, files: &mut Vec<PathBuf>) -> Result<Self> {
        let Some(path) = file_of(word) else {
            return Self::builtin(word).map_err(|_| {
                let nearest = problem::nearest_of(word, Self::builtin_names()).map(str::to_owned);
                PresetProblem::unknown(at, "preset", word, nearest).into()
            });
        };
        let path = file.parent().unwrap_or(Path::new("")).join(path);
        if files.iter().any(|other| is_same(other, &path)) {
            return Err(PresetProblem::form(at, format!("`{word}` is based on this preset itself")).into());
        }
        if files.len() >= MAX_BASES {
            let reason = format!("a chain of bases has at most {MAX_BASES} presets");
            return Err(PresetProblem::form(at, reason).into());
        }
        files.push(path.clone());
        Self::parse(Cow::Owned(parse::read(&path)?), &path, files)
    }
}

/// The path, if the word names an OPTIONS file of RocksDB or a database, whose latest one it is.
pub(crate) fn options_file(word: &str) -> Option<PathBuf> {
    let is_builtin = Preset::builtin_names().any(|name| name == word);
    let path = OptionsFile::find(Path::new(word)).ok()?;
    (!is_builtin && OptionsFile::is_one(&path)).then_some(path)
}

fn file_of(word: &str) -> Option<&Path> {
    let path = Path::new(word);
    let is_file = word.contains('/') || path.extension().is_some_and(|extension| extension == "toml");
    is_file.then_some(path)
}

impl From<PresetProblem> for Error {
    fn from(problem: PresetProblem) -> Self {
        Self::Preset(Cause::new(problem))
    }
}

#[cfg(test)]
mod tests;
