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
use std::path::Path;

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
pub struct PresetDocument {
    pub name: Option<String>,
    pub summary: Option<String>,
    pub loader: Option<Loader>,
    /// The base, and the place that names it.
    pub base: Option<(String, Origin)>,
    pub preset: Option<String>,
    pub assignments: Vec<Assignment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Preset,
    UserConfig,
}

struct DocumentParser<'a> {
    line_ends: Vec<usize>,
    file: &'a Path,
    role: Role,
    document: PresetDocument,
}

pub fn document(text: &str, file: &Path, role: Role) -> Result<PresetDocument> {
    let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let mut parser = DocumentParser { line_ends, file, role, document: PresetDocument::default() };
    let root = DeTable::parse(text).map_err(|error| {
        let at = parser.at(error.span().map_or(0, |span| span.start));
        PresetProblem::form(&at, error.message().trim().replace('\n', ", "))
    })?;
    parser.table("", 0, root.get_ref())?;
    let mut document = parser.document;
    document.assignments.sort_by_key(|assignment| assignment.origin.line());
    Ok(document)
}

impl DocumentParser<'_> {
    fn at(&self, offset: usize) -> Origin {
        let line = 1 + self.line_ends.partition_point(|end| *end < offset);
        let file = self.file.to_owned();
        match self.role {
            Role::Preset => Origin::Preset(file, line),
            Role::UserConfig => Origin::UserConfig(file, line),
        }
    }

    /// Reads a table. The full names of its entries begin with `prefix`. Errors about a stage or scope have the line of
    /// `header`, the offset at which the section begins.
    fn table(&mut self, prefix: &str, header: usize, table: &DeTable<'_>) -> Result<()> {
        let depth = prefix.matches('.').count();
        for (key, value) in table {
            let path = format!("{prefix}{}", key.get_ref());
            let (start, value) = (key.span().start, value.get_ref());
            let header = if depth < 2 { start } else { header };
            let (stage, scope) = path.split_once('.').unwrap_or((&path, "db"));
            let is_section = Stage::named(stage).is_some() && Scope::named(scope).is_some();
            match value {
                DeValue::Table(fields) if is_section || !fields.is_empty() => {
                    self.table(&format!("{path}."), header, fields)?;
                }
                _ if depth == 0 && !is_section => self.entry(&path, self.at(start), value)?,
                _ => self.option(&path, self.at(start), &self.at(header), value)?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, at: Origin, value: &DeValue<'_>) -> Result<()> {
        let no_text = || PresetProblem::form(&at, format!("`{name}` is a text, in quotes"));
        let text = || Ok::<_, Error>(value.as_str().ok_or_else(no_text)?.to_owned());
        match (name, self.role) {
            ("name", Role::Preset) => self.document.name = Some(text()?),
            ("summary", Role::Preset) => self.document.summary = Some(text()?),
            ("loader", Role::Preset) => {
                let word = text()?;
                let reason = || format!("`{word}` is not a loader; there are `ingest` and `memtable`");
                let loader = Loader::named(&word).ok_or_else(|| PresetProblem::form(&at, reason()))?;
                self.document.loader = Some(loader);
            }
            ("preset", Role::UserConfig) => self.document.preset = Some(text()?),
            ("base", Role::Preset) => self.document.base = Some((text()?, at)),
            _ => {
                let known: &[&str] = match self.role {
                    Role::Preset => &["name", "summary", "base", "loader", "load", "node"],
                    Role::UserConfig => &["preset", "load", "node"],
                };
                let nearest = || nearest_of(name, known.iter().copied()).map(str::to_owned);
                let problem = without_place(name, false, &at);
                return Err(problem.unwrap_or_else(|| PresetProblem::unknown(&at, "entry", name, nearest())).into());
            }
        }
        Ok(())
    }

    fn option(&mut self, path: &str, origin: Origin, header: &Origin, value: &DeValue<'_>) -> Result<()> {
        let key = full_key(path, false, header)?;
        let read = match value {
            DeValue::Array(pair) if pair.len() == 2 => {
                let item = |at: usize| pair.get(at).map(|item| item.get_ref());
                item(0).and_then(scalar).zip(item(1).and_then(DeValue::as_str).map(Some))
            }
            value => scalar(value).zip(Some(None)),
        };
        let wrong = || PresetProblem::form(&origin, format!("`{}` is a value, or [value, \"reason\"]", key.name));
        let (value, reason) = read.ok_or_else(wrong)?;
        self.document.assignments.push(Assignment { key, value, reason: reason.map(str::to_owned), origin });
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
pub fn assignment(argument: &str, origin: Origin) -> Result<Assignment> {
    let reason = "write it as STAGE.SCOPE.OPTION=VALUE, e.g. load.cf.num_levels=7, or as cf.NAME.OPTION=VALUE";
    let (path, value) = argument.split_once('=').ok_or_else(|| PresetProblem::form(&origin, reason))?;
    let key = full_key(path.trim(), true, &origin)?;
    Ok(Assignment { key, value: value.trim().to_owned(), reason: None, origin })
}

/// Parses a full name, e.g. `load.cf.write_buffer_size`. With `may_be_misspelt`, an error suggests the most similar
/// option for a name without a stage or scope.
pub(super) fn full_key(path: &str, may_be_misspelt: bool, at: &Origin) -> Result<Key> {
    let mut parts = path.splitn(3, '.');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let (stage, scope) = (Stage::named(first), second.and_then(Scope::named));
    if let (Some(stage), Some(scope), Some(name)) = (stage, scope, third) {
        return Ok(Key { stage, scope, name: name.to_owned() });
    }
    let has_place = second.is_none() || stage.is_some() || Scope::named(first).is_some();
    if let Some(problem) = without_place(path, may_be_misspelt && third.is_none() && has_place, at) {
        return Err(problem.into());
    }
    if let Some(name) = names::of_family(path, at) {
        return Err(PresetProblem::unknown(at, "option", path, Some(name)).into());
    }
    let problem = match (stage, second, third) {
        (None, _, Some(_)) => {
            let nearest = nearest_of(first, ["load", "node"]).map(str::to_owned);
            PresetProblem::unknown(at, "stage", first, nearest)
        }
        (Some(stage), Some(word), Some(_)) => {
            let scopes: Vec<String> = Scope::ALL.iter().map(Scope::to_string).collect();
            let nearest = nearest_of(word, scopes.iter().map(String::as_str)).map(|scope| format!("{stage}.{scope}"));
            PresetProblem::unknown(at, "scope", format!("{stage}.{word}"), nearest)
        }
        _ => PresetProblem::form(at, "the option needs its stage and scope, e.g. node.cf.write_buffer_size"),
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
    (!nearest.is_empty()).then(|| PresetProblem::unknown(at, "option", path, Some(nearest.join("` or `"))))
}

pub(super) fn read(path: &Path) -> Result<String> {
    let not_a_preset = |why: &dyn std::fmt::Display| Error::Usage {
        reason: format!("{} is not a preset: {why}", path.display()),
        hint: "a preset is a text file; `bedload presets show ingest` prints one".into(),
    };
    match read_regular(path, MAX_TEXT) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| not_a_preset(&error)),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(not_a_preset(&error)),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PresetDocument, String> {
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
                "mine.toml:2: unknown option `table.block_size`; the nearest valid name is `node.table.block_size`",
            ),
            (
                "[load]\nsst_size = 1",
                "mine.toml:2: unknown option `load.sst_size`; the nearest valid name is `load.ingest.sst_size`",
            ),
            ("load = 1", "mine.toml:1: the option needs its stage and scope, e.g. node.cf.write_buffer_size"),
            ("[load]\ncf = 1", "mine.toml:2: the option needs its stage and scope, e.g. node.cf.write_buffer_size"),
            ("[laod]", "mine.toml:1: unknown entry `laod`; the nearest valid name is `load`"),
            ("\n[laod.cf]\nx = 1", "mine.toml:2: unknown stage `laod`; the nearest valid name is `load`"),
        ] {
            assert_eq!(parse(text).expect_err(text), message);
        }
        let error = parse("[load.cf]\nx = 1\nx = 2\n").expect_err("twice");
        assert!(error.starts_with("mine.toml:3: duplicate key"), "{error}");
    }

    #[test]
    fn an_assignment_names_stage_scope_and_option() {
        let origin = || Origin::Override("it".into());
        let found = assignment("load.cf.compression_opts.level=3", origin()).expect("good");
        assert_eq!((found.key.to_string().as_str(), found.value.as_str()), ("load.cf.compression_opts.level", "3"));
        let error = assignment("laod.cf.x=1", origin()).expect_err("no such stage").to_string();
        assert_eq!(error, "option it: unknown stage `laod`; the nearest valid name is `load`");
        for (argument, meant) in [
            ("load.write_buffer_size=1", "load.cf.write_buffer_size"),
            ("block_size=16K", "node.table.block_size"),
            ("blok_size=16K", "node.table.block_size"),
            ("table.block_size=16K", "node.table.block_size"),
            ("sst_size=1G", "load.ingest.sst_size"),
            ("compression_opts.level=3", "node.cf.compression_opts.level"),
            ("node.compression_opts.level=3", "node.cf.compression_opts.level"),
            ("users.compression=kZSTD", "cf.users.compression"),
            ("node.users.table.block_size=8K", "cf.users.table.block_size"),
            ("max_subcompactions=3", "node.db.max_subcompactions` or `load.compaction.max_subcompactions"),
        ] {
            let error = assignment(argument, origin()).expect_err(argument);
            let name = argument.split('=').next().unwrap_or_default();
            let expected = format!("option it: unknown option `{name}`; the nearest valid name is `{meant}`");
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.hint(), format!("write `{meant}`"));
        }
        for argument in ["nothing_like_it=1", "node.nothing_like_it=1"] {
            let error = assignment(argument, origin()).expect_err(argument).to_string();
            assert_eq!(error, "option it: the option needs its stage and scope, e.g. node.cf.write_buffer_size");
        }
        let error = assignment("node.tabel.block_size=1", origin()).expect_err("no such scope").to_string();
        assert_eq!(error, "option it: unknown scope `node.tabel`; the nearest valid name is `node.table`");
    }
}
