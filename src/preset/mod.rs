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
mod limits;
mod lints;
mod machine;
mod names;
mod overrides;
pub(crate) mod parse;
mod problem;
pub(crate) mod quantity;
pub mod registry;
mod resolve;
mod resolved;
mod rules;
mod shorthand;
mod validate;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub use diff::{Difference, diff};
pub use explain::explain;
pub use key::{Loader, Origin, Stage};
#[cfg(test)]
use machine::Machine;
pub use overrides::Overrides;
pub use parse::Assignment;
pub use problem::PresetProblem;
pub(crate) use problem::nearest_of;
pub use resolve::resolve;
pub use resolved::{EffectiveOption, Resolved};

use crate::error::{Error, Result};
use crate::os::files::is_same;
use crate::rocks::option_map::OptionMap;
use crate::rocks::options;
use crate::rocks::options_file::OptionsFile;
use crate::rocks::releases::Release;
use parse::Role;

/// The most files that one preset may be made of, each the base of the one before it.
const MAX_BASES: usize = 8;

/// The preset of CARs when the user names none.
pub const DEFAULT: &str = "ingest";

/// The preset of block logs when the user names none.
pub const DEFAULT_OF_LOGS: &str = "block-log";

/// A preset as it was written: names and values have not been checked yet.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Its purpose in one line.
    pub summary: String,
    /// Its loader.
    pub loader: Loader,
    /// The preset that this one changes.
    pub base: Option<Box<Preset>>,
    /// Its own options, in the order of the file.
    pub assignments: Vec<Assignment>,
    /// The file as it is.
    pub text: Cow<'static, str>,
}

impl Preset {
    /// The names of the presets that are built in, sorted, the default one first.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        builtin::PRESETS.iter().map(|(name, _)| *name)
    }

    /// The first of [`Preset::builtin_names`]: those for use, and the main ways to compare them with.
    pub(crate) fn main_names() -> impl Iterator<Item = &'static str> {
        Self::builtin_names().take(builtin::LISTED)
    }

    /// A preset that is built in.
    pub fn builtin(name: &str) -> Result<Self> {
        let Some((name, text)) = builtin::PRESETS.iter().find(|(known, _)| *known == name) else {
            let nearest = problem::nearest_of(name, Self::builtin_names()).map(str::to_owned);
            return Err(PresetProblem::NoSuchPreset { name: name.into(), nearest }.into());
        };
        Self::parse(Cow::Borrowed(text), &PathBuf::from(format!("{name}.toml")), &mut Vec::new())
    }

    /// True if the preset and its bases are built in. A preset made for an OPTIONS file has no text.
    pub(crate) fn is_built_in(&self) -> bool {
        self.layers().iter().all(|preset| matches!(preset.text, Cow::Borrowed(text) if !text.is_empty()))
    }

    /// A preset in a file.
    pub fn from_file(path: &Path) -> Result<Self> {
        Self::parse(Cow::Owned(parse::read(path)?), path, &mut vec![path.to_owned()])
    }

    /// A preset by its name or, where the word has a slash or ends in `.toml`, by its path.
    pub fn find(word: &str) -> Result<Self> {
        match file_of(word) {
            Some(path) if OptionsFile::is_one(path) => Err(Error::Usage {
                reason: format!("{word} is an OPTIONS file of RocksDB, not a preset"),
                hint: format!("give it with --options-file {word}"),
            }),
            Some(path) => Self::from_file(path),
            None => Self::builtin(word),
        }
    }

    /// A preset that loads as `like` does, without options of its own for the finished database: the base for an OPTIONS
    /// file. Without `like` it names no option at all.
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

    /// This preset and those that it is based on, the lowest first.
    pub(crate) fn layers(&self) -> Vec<&Self> {
        let mut layers: Vec<&Self> = std::iter::successors(Some(self), |preset| preset.base.as_deref()).collect();
        layers.reverse();
        layers
    }

    /// Its options with those of the presets that it is based on: each once, the highest wins.
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

    /// Its text with those of the presets that it is based on: whatever it says is in them.
    pub(crate) fn all_text(&self) -> String {
        self.layers().into_iter().map(|preset| &*preset.text).collect::<Vec<_>>().join("\n")
    }

    /// The oldest RocksDB that is known to read what an import with it writes, unless an override changes that.
    pub(crate) fn oldest_rocksdb(&self) -> Result<Release> {
        let mut map = OptionMap::default();
        for Assignment { key, value, .. } in self.all_assignments() {
            if let Some(group) = key.scope.group() {
                map.set(group, key.name, value);
            }
        }
        Ok(Release::reading(&map, options::defaults()?))
    }

    /// `files` are those that led here.
    fn parse(text: Cow<'static, str>, file: &Path, files: &mut Vec<PathBuf>) -> Result<Self> {
        let document = parse::document(&text, file, Role::Preset)?;
        let form = |at: Origin, reason: String| PresetProblem::Form { at, reason };
        let missing =
            |what: &str| form(Origin::Preset { file: file.to_owned(), line: 1 }, format!("the preset has no `{what}`"));
        let name = match document.name {
            Some(name) => name,
            None => file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).ok_or_else(|| missing("name"))?,
        };
        let mut loader = document.loader;
        let mut base = None;
        if let Some((word, at)) = document.base {
            let found = Self::base(&word, &at, file, files)?;
            if loader.is_some_and(|loader| loader != found.loader) {
                let reason =
                    format!("`{word}` has the loader `{}`: leave `loader` out, or take another `base`", found.loader);
                return Err(form(at, reason).into());
            }
            loader = Some(found.loader);
            base = Some(Box::new(found));
        }
        let loader = loader.ok_or_else(|| missing("loader"))?;
        let summary = document.summary.unwrap_or_default();
        Ok(Self { name, summary, loader, base, assignments: document.assignments, text })
    }

    /// The preset that the one in `file` is based on: built in, or a file whose path begins at the folder of `file`.
    fn base(word: &str, at: &Origin, file: &Path, files: &mut Vec<PathBuf>) -> Result<Self> {
        let Some(path) = file_of(word) else {
            return Self::builtin(word).map_err(|error| {
                let nearest = problem::nearest_of(word, Self::builtin_names()).map(str::to_owned);
                match error {
                    Error::Preset(_) => {
                        PresetProblem::Unknown { at: at.clone(), what: "preset", name: word.into(), nearest }.into()
                    }
                    other => other,
                }
            });
        };
        let path = file.parent().unwrap_or(Path::new("")).join(path);
        let form = |reason: String| PresetProblem::Form { at: at.clone(), reason };
        if files.iter().any(|other| is_same(other, &path)) {
            return Err(form(format!("`{word}` is based on this preset itself")).into());
        }
        if files.len() >= MAX_BASES {
            return Err(form(format!("it is the base of a base, {MAX_BASES} times over; that is too deep")).into());
        }
        files.push(path.clone());
        Self::parse(Cow::Owned(parse::read(&path)?), &path, files)
    }
}

/// The path that a word names, which is else a name.
fn file_of(word: &str) -> Option<&Path> {
    let path = Path::new(word);
    let is_file = word.contains('/') || path.extension().is_some_and(|extension| extension == "toml");
    is_file.then_some(path)
}

impl From<PresetProblem> for Error {
    fn from(problem: PresetProblem) -> Self {
        Self::Preset(problem.into())
    }
}

#[cfg(test)]
mod tests;
