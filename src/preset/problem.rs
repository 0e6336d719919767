//! Problems of presets and overrides, each with its place and, for a name, the nearest valid name.

use super::builtin;
use super::key::{Key, Loader, Origin};
use crate::error::Problem;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PresetProblem {
    /// Neither a built-in preset nor a file.
    #[error("cannot find preset `{name}`: no built-in preset has this name{}", suggest(.nearest))]
    NoSuchPreset { name: String, nearest: Option<String> },
    /// The text is not TOML, or not of the form of a preset.
    #[error("{at}: {reason}")]
    Form { at: Origin, reason: String },
    #[error("{at}: unknown {what} `{name}`{}", suggest(.nearest))]
    Unknown {
        at: Origin,
        /// The expected kind of name, e.g. `option`.
        what: &'static str,
        name: String,
        nearest: Option<String>,
    },
    /// A value of the wrong kind, with a wrong unit, or too large; one for which RocksDB would end the process, or that
    /// cannot work in an import.
    #[error("{at}: `{key}` cannot be `{value}`: {reason}")]
    BadValue { at: Origin, key: Key, value: String, reason: String, hint: &'static str },
    /// RocksDB rejects the value.
    #[error("{at}: RocksDB refuses `{key}` = `{value}`: {message}")]
    Refused {
        at: Origin,
        key: Key,
        value: String,
        message: String,
        /// Its default: an example of the form.
        default: String,
    },
    #[error("{at}: `{key}` has no effect with the {loader} loader: {reason}")]
    NoEffect { at: Origin, key: Key, loader: Loader, reason: &'static str },
    /// Each option is fine, but RocksDB does not open a database with all of them.
    #[error("preset `{preset}`: RocksDB refuses its {section} options together: {message}")]
    Together { preset: String, section: &'static str, message: String },
}

impl PresetProblem {
    pub(super) fn form(at: &Origin, reason: impl Into<String>) -> Self {
        Self::Form { at: at.clone(), reason: reason.into() }
    }

    pub(super) fn unknown(at: &Origin, what: &'static str, name: impl ToString, nearest: Option<String>) -> Self {
        Self::Unknown { at: at.clone(), what, name: name.to_string(), nearest }
    }
}

impl Problem for PresetProblem {
    fn hint(&self) -> String {
        match self {
            Self::NoSuchPreset { name, .. } | Self::Unknown { what: "preset", name, nearest: None, .. } => {
                let all = "`bedload presets --all` lists all presets; pass a file as NAME.toml or ./NAME";
                match builtin_like(name) {
                    like if like.is_empty() => all.into(),
                    like => format!("similar ones are {}; {all}", like.join(", ")),
                }
            }
            Self::Form { .. } => {
                "`bedload presets show ingest` prints a complete preset; an option is `name = [\"value\", \"reason\"]`"
                    .into()
            }
            Self::Unknown { nearest: Some(nearest), .. } => format!("write `{nearest}`"),
            Self::Unknown { .. } => {
                "scopes are db, cf, table, write, ingest and compaction; names are RocksDB's own".into()
            }
            Self::BadValue { hint, .. } => (*hint).into(),
            Self::Refused { default, .. } if default.is_empty() => {
                "write it as an OPTIONS file does: a list is A:B:C".into()
            }
            Self::Refused { default, .. } => format!("write it as RocksDB does, e.g. `{default}`"),
            Self::NoEffect { .. } => "leave it out, move it to `node`, or choose a preset with the other loader".into(),
            Self::Together { .. } => "change one of the options it names; `bedload presets explain` lists them".into(),
        }
    }
}

fn suggest(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |nearest| format!("; the nearest valid name is `{nearest}`"))
}

const LISTED: usize = 5;

/// The built-in presets with `name` in theirs, those that begin with it first.
fn builtin_like(name: &str) -> Vec<&'static str> {
    let mut like: Vec<&str> =
        builtin::PRESETS.iter().map(|(known, _)| *known).filter(|known| known.contains(name)).collect();
    like.sort_by_key(|known| !known.starts_with(name));
    like.truncate(if name.is_empty() { 0 } else { LISTED });
    like
}

/// The longest name that is compared with others, in bytes.
const MAX_LIKE: usize = 200;

/// The candidate most like `name`, unless none is like it.
pub(crate) fn nearest_of<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Each comparison takes time with the length, and no candidate is as long.
    if name.len() > MAX_LIKE {
        return None;
    }
    let limit = 2 + name.len() / 4;
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
