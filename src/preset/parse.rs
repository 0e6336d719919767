//! Parses presets and the user's configuration into settings with line numbers. `validate` checks names and values.
//!
//! ```toml
//! name = "mine"
//! summary = "one line"
//! base = "ingest" # or a file; without a base, `loader = "ingest"` must be there
//! [load.db]
//! max_background_jobs = ["cores", "the reason, one line"]
//! [node.table]
//! block_size = "16K"
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{Key, Loader, Origin, Scope, Stage};
use super::names;
use super::problem::{PresetProblem, nearest_of};
use crate::error::{Error, Result};
use crate::os::files::read_regular;

/// Largest preset or configuration that is read.
const MAX_TEXT: u64 = 1 << 20;

/// One `option = value` as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub key: Key,
    pub value: String,
    pub reason: Option<String>,
    pub origin: Origin,
}

#[derive(Debug, Default)]
pub(crate) struct Document {
    pub name: Option<String>,
    pub summary: Option<String>,
    pub loader: Option<Loader>,
    /// The base, and the place that names it.
    pub base: Option<(String, Origin)>,
    pub preset: Option<String>,
    pub assignments: Vec<Assignment>,
}

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Preset,
    UserConfig,
}

struct Reader {
    /// Offsets at which lines end.
    line_ends: Vec<usize>,
    file: PathBuf,
    role: Role,
    document: Document,
}

pub(crate) fn document(text: &str, file: &Path, role: Role) -> Result<Document> {
    let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let mut reader = Reader { line_ends, file: file.to_owned(), role, document: Document::default() };
    let root = DeTable::parse(text).map_err(|error| {
        let at = reader.at(error.span().map_or(0, |span| span.start));
        PresetProblem::Form { at, reason: error.message().trim().replace('\n', ", ") }
    })?;
    for (key, value) in root.get_ref() {
        reader.top(key, value)?;
    }
    let mut document = reader.document;
    document.assignments.sort_by_key(|assignment| match &assignment.origin {
        Origin::Preset { line, .. } | Origin::UserConfig { line, .. } => *line,
        _ => 0,
    });
    Ok(document)
}

type Name<'i> = Spanned<std::borrow::Cow<'i, str>>;
type Value<'i> = Spanned<DeValue<'i>>;

impl Reader {
    fn at(&self, offset: usize) -> Origin {
        let line = 1 + self.line_ends.partition_point(|end| *end < offset);
        let file = self.file.clone();
        match self.role {
            Role::Preset => Origin::Preset { file, line },
            Role::UserConfig => Origin::UserConfig { file, line },
        }
    }

    fn form(&self, offset: usize, reason: impl Into<String>) -> PresetProblem {
        PresetProblem::Form { at: self.at(offset), reason: reason.into() }
    }

    fn unknown(&self, key: &Name, what: &'static str, prefix: &str, candidates: &[&str]) -> PresetProblem {
        PresetProblem::Unknown {
            at: self.at(key.span().start),
            what,
            name: format!("{prefix}{}", key.get_ref()),
            nearest: nearest_of(key.get_ref(), candidates.iter().copied()).map(|name| format!("{prefix}{name}")),
        }
    }

    /// The problem of a known option in the place of a stage or scope.
    fn without_place(&self, prefix: &str, key: &Name, value: &Value) -> Option<PresetProblem> {
        let at = self.at(key.span().start);
        match value.get_ref() {
            // A scope without its stage, or a structure.
            DeValue::Table(fields) => fields
                .keys()
                .find_map(|field| without_place(&format!("{prefix}{}.{}", key.get_ref(), field.get_ref()), false, &at)),
            _ => without_place(&format!("{prefix}{}", key.get_ref()), false, &at),
        }
    }

    fn string(&self, key: &Name, value: &Value) -> Result<String> {
        value
            .get_ref()
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| self.form(value.span().start, format!("`{}` is a text, in quotes", key.get_ref())).into())
    }

    fn top(&mut self, key: &Name, value: &Value) -> Result<()> {
        match (key.get_ref().as_ref(), self.role) {
            ("name", Role::Preset) => self.document.name = Some(self.string(key, value)?),
            ("summary", Role::Preset) => self.document.summary = Some(self.string(key, value)?),
            ("loader", Role::Preset) => {
                let word = self.string(key, value)?;
                let loader = Loader::named(&word).ok_or_else(|| {
                    self.form(
                        value.span().start,
                        format!("`{word}` is not a loader; there are `ingest` and `memtable`"),
                    )
                })?;
                self.document.loader = Some(loader);
            }
            ("preset", Role::UserConfig) => self.document.preset = Some(self.string(key, value)?),
            ("base", Role::Preset) => {
                self.document.base = Some((self.string(key, value)?, self.at(value.span().start)));
            }
            (word, _) => match Stage::named(word) {
                Some(stage) => self.stage(stage, value)?,
                None => {
                    let known: &[&str] = match self.role {
                        Role::Preset => &["name", "summary", "base", "loader", "load", "node"],
                        Role::UserConfig => &["preset", "load", "node"],
                    };
                    let problem = self.without_place("", key, value);
                    return Err(problem.unwrap_or_else(|| self.unknown(key, "entry", "", known)).into());
                }
            },
        }
        Ok(())
    }

    fn stage(&mut self, stage: Stage, value: &Value) -> Result<()> {
        let Some(scopes) = value.get_ref().as_table() else {
            return Err(self
                .form(value.span().start, format!("`{stage}` is a table of scopes, e.g. [{stage}.cf]"))
                .into());
        };
        for (key, value) in scopes {
            let Some(scope) = Scope::named(key.get_ref()) else {
                let scopes: Vec<String> = Scope::ALL.iter().map(Scope::to_string).collect();
                let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
                let prefix = format!("{stage}.");
                let problem = self.without_place(&prefix, key, value);
                return Err(problem.unwrap_or_else(|| self.unknown(key, "scope", &prefix, &scopes)).into());
            };
            let Some(options) = value.get_ref().as_table() else {
                let reason = format!("`{stage}.{scope}` is a table of options, e.g. [{stage}.{scope}]");
                return Err(self.form(value.span().start, reason).into());
            };
            for (name, value) in options {
                self.option(stage, scope, name, value)?;
            }
        }
        Ok(())
    }

    fn option(&mut self, stage: Stage, scope: Scope, name: &Name, value: &Value) -> Result<()> {
        let wrong = || {
            let reason = format!("`{}` is a value, or [value, \"reason\"]", name.get_ref());
            self.form(value.span().start, reason)
        };
        let key = |name: &str| Key { stage, scope, name: name.to_owned() };
        let origin = self.at(name.span().start);
        let assignment = match value.get_ref() {
            DeValue::Array(pair) => {
                let (Some(first), Some(second), 2) = (pair.first(), pair.get(1), pair.len()) else {
                    return Err(wrong().into());
                };
                let reason = second.get_ref().as_str().ok_or_else(wrong)?;
                Assignment {
                    key: key(name.get_ref()),
                    value: scalar(first.get_ref()).ok_or_else(wrong)?,
                    reason: Some(reason.to_owned()),
                    origin,
                }
            }
            DeValue::Table(fields) => {
                // `compression_opts.level = ..` reads as a table; so does [load.cf.compression_opts].
                for (field, value) in fields {
                    let dotted = Spanned::new(field.span(), format!("{}.{}", name.get_ref(), field.get_ref()).into());
                    self.option(stage, scope, &dotted, value)?;
                }
                return Ok(());
            }
            plain => {
                Assignment { key: key(name.get_ref()), value: scalar(plain).ok_or_else(wrong)?, reason: None, origin }
            }
        };
        self.document.assignments.push(assignment);
        Ok(())
    }
}

fn scalar(value: &DeValue) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Reads `load.cf.write_buffer_size=64M`.
pub(crate) fn assignment(argument: &str, origin: Origin) -> Result<Assignment> {
    let form = |reason: &str| PresetProblem::Form { at: origin.clone(), reason: reason.to_owned() };
    let (path, value) = argument
        .split_once('=')
        .ok_or_else(|| form("write it as STAGE.SCOPE.OPTION=VALUE, e.g. load.cf.num_levels=7"))?;
    let key = full_key(path.trim(), &origin)?;
    Ok(Assignment { key, value: value.trim().to_owned(), reason: None, origin })
}

/// Parses a full name, e.g. `load.cf.write_buffer_size`.
fn full_key(path: &str, at: &Origin) -> Result<Key> {
    let mut parts = path.splitn(3, '.');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let (stage, scope) = (Stage::named(first), second.and_then(Scope::named));
    if let (Some(stage), Some(scope), Some(name)) = (stage, scope, third) {
        return Ok(Key { stage, scope, name: name.to_owned() });
    }
    if let Some(problem) = without_place(path, third.is_none(), at) {
        return Err(problem.into());
    }
    let unknown = |what, name: String, nearest| PresetProblem::Unknown { at: at.clone(), what, name, nearest };
    let problem = match (stage, second, third) {
        (None, _, Some(_)) => {
            unknown("stage", first.to_owned(), nearest_of(first, ["load", "node"]).map(str::to_owned))
        }
        (Some(stage), Some(word), Some(_)) => {
            let scopes: Vec<String> = Scope::ALL.iter().map(Scope::to_string).collect();
            let nearest = nearest_of(word, scopes.iter().map(String::as_str));
            unknown("scope", format!("{stage}.{word}"), nearest.map(|scope| format!("{stage}.{scope}")))
        }
        _ => PresetProblem::Form {
            at: at.clone(),
            reason: "the option needs its stage and scope, e.g. node.cf.write_buffer_size".into(),
        },
    };
    Err(problem.into())
}

/// The problem of a known option without its stage, its scope or both.
fn without_place(path: &str, may_be_misspelt: bool, at: &Origin) -> Option<PresetProblem> {
    let split = |path| -> (&str, &str) { str::split_once(path, '.').unwrap_or(("", path)) };
    let (word, rest) = split(path);
    let stage = Stage::named(word);
    let rest = if stage.is_some() { rest } else { path };
    let (word, name) = split(rest);
    let scope = Scope::named(word);
    let name = if scope.is_some() { name } else { rest };
    let nearest = names::meant(stage, scope, name, may_be_misspelt);
    (!nearest.is_empty()).then(|| PresetProblem::Unknown {
        at: at.clone(),
        what: "option",
        name: path.to_owned(),
        nearest: Some(nearest.join("` or `")),
    })
}

pub(super) fn read(path: &Path) -> Result<String> {
    let no_preset = |why: &dyn std::fmt::Display| Error::Usage {
        reason: format!("{} is no preset: {why}", path.display()),
        hint: "a preset is a text file; `bedload presets show ingest` prints one".into(),
    };
    match read_regular(path, MAX_TEXT) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| no_preset(&error)),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(no_preset(&error)),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Document, String> {
        document(text, Path::new("mine.toml"), Role::Preset).map_err(|problem| problem.to_string())
    }

    #[test]
    fn values_carry_reasons_and_lines() {
        let document = parse(
            "name = \"a\"\nloader = \"memtable\"\n[load.cf]\nnum_levels = [7, \"because\"]\n\
             compression_opts.level = 3\n[node.db]\nmax_open_files = \"open_files\"\n",
        )
        .expect("a good preset");
        let listed: Vec<String> = document
            .assignments
            .iter()
            .map(|assignment| {
                format!("{} {}={} {:?}", assignment.origin, assignment.key, assignment.value, assignment.reason)
            })
            .collect();
        assert_eq!(
            listed,
            [
                "mine.toml:4 load.cf.num_levels=7 Some(\"because\")",
                "mine.toml:5 load.cf.compression_opts.level=3 None",
                "mine.toml:7 node.db.max_open_files=open_files None",
            ]
        );
        assert_eq!(document.loader, Some(Loader::Memtable));
    }

    #[test]
    fn invalid_preset_is_reported_with_line() {
        for (text, message) in [
            ("name = 3", "mine.toml:1: `name` is a text, in quotes"),
            ("\nloader = \"ingset\"", "mine.toml:2: `ingset` is not a loader; there are `ingest` and `memtable`"),
            ("sumary = \"x\"", "mine.toml:1: unknown entry `sumary`; the nearest valid name is `summary`"),
            ("[load.tabel]\nx = 1", "mine.toml:1: unknown scope `load.tabel`; the nearest valid name is `load.table`"),
            ("[load.cf]\nx = [1]", "mine.toml:2: `x` is a value, or [value, \"reason\"]"),
            ("[load.cf]\nx = [1, 2]", "mine.toml:2: `x` is a value, or [value, \"reason\"]"),
            (
                "block_size = 1",
                "mine.toml:1: unknown option `block_size`; the nearest valid name is `node.table.block_size`",
            ),
            (
                "[table]\nblock_size = 1",
                "mine.toml:1: unknown option `table.block_size`; the nearest valid name is `node.table.block_size`",
            ),
            (
                "[load]\nsst_size = 1",
                "mine.toml:2: unknown option `load.sst_size`; the nearest valid name is `load.ingest.sst_size`",
            ),
            ("load = 1", "mine.toml:1: `load` is a table of scopes, e.g. [load.cf]"),
            ("[load]\ncf = 1", "mine.toml:2: `load.cf` is a table of options, e.g. [load.cf]"),
        ] {
            assert_eq!(parse(text).expect_err(text), message);
        }
        let error = parse("[load.cf]\nx = 1\nx = 2\n").expect_err("twice");
        assert!(error.starts_with("mine.toml:3: duplicate key"), "{error}");
    }

    #[test]
    fn an_assignment_names_stage_scope_and_option() {
        let origin = || Origin::CommandLine { argument: "it".into() };
        let found = assignment("load.cf.compression_opts.level=3", origin()).expect("good");
        assert_eq!((found.key.to_string().as_str(), found.value.as_str()), ("load.cf.compression_opts.level", "3"));
        let error = assignment("laod.cf.x=1", origin()).expect_err("no such stage").to_string();
        assert_eq!(error, "--set it: unknown stage `laod`; the nearest valid name is `load`");
        for (argument, meant) in [
            ("load.write_buffer_size=1", "load.cf.write_buffer_size"),
            ("block_size=16K", "node.table.block_size"),
            ("blok_size=16K", "node.table.block_size"),
            ("table.block_size=16K", "node.table.block_size"),
            ("sst_size=1G", "load.ingest.sst_size"),
            ("compression_opts.level=3", "node.cf.compression_opts.level"),
            ("node.compression_opts.level=3", "node.cf.compression_opts.level"),
            ("max_subcompactions=3", "node.db.max_subcompactions` or `load.compaction.max_subcompactions"),
        ] {
            let error = assignment(argument, origin()).expect_err(argument);
            let name = argument.split('=').next().unwrap_or_default();
            let expected = format!("--set it: unknown option `{name}`; the nearest valid name is `{meant}`");
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.hint(), format!("write `{meant}`"));
        }
        for argument in ["nothing_like_it=1", "node.nothing_like_it=1"] {
            let error = assignment(argument, origin()).expect_err(argument).to_string();
            assert_eq!(error, "--set it: the option needs its stage and scope, e.g. node.cf.write_buffer_size");
        }
        let error = assignment("node.tabel.block_size=1", origin()).expect_err("no such scope").to_string();
        assert_eq!(error, "--set it: unknown scope `node.tabel`; the nearest valid name is `node.table`");
    }
}
