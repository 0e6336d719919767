//! Explanations of presets: every option that differs from RocksDB's default, with its effects.

use std::fmt;

use super::catalogue;
use super::key::{Key, Loader, Origin, Stage};
use super::registry::{self, Owner};
use super::resolved::{Resolved, Setting, agrees, default_of};
use crate::rocks::releases::Release;
use crate::text::escape::shown_in_line;

/// Name and version of the JSON of [`Explanation`].
pub const SCHEMA: &str = "bedload-preset-explanation-2";

/// A preset in full.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Explanation {
    /// Name and version of this form.
    pub schema: &'static str,
    /// Name of the preset.
    pub preset: String,
    /// Its purpose.
    pub summary: String,
    /// Its loader.
    pub loader: Loader,
    /// The oldest RocksDB that is known to read the database.
    pub oldest_rocksdb: Release,
    /// One row for each option that differs from its default.
    pub options: Vec<ExplainedOption>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// One option of a preset.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ExplainedOption {
    /// Its full name.
    pub option: Key,
    /// Its effective value.
    pub value: String,
    /// Its value as written, e.g. `cores`, if it differs.
    pub written: Option<String>,
    /// The value without the preset.
    pub default: String,
    /// The owner of that default: `RocksDB` or `bedload`.
    pub default_of: &'static str,
    /// The preset's reason.
    pub reason: Option<String>,
    /// Its effect while loading, if the catalogue has an entry.
    pub effect: Option<String>,
    /// Its cost or effect afterwards, if the catalogue has an entry.
    pub cost: Option<String>,
    /// The place that sets it.
    pub from: Origin,
    /// The shorthand that sets it.
    pub via: Option<&'static str>,
}

pub fn explain(resolved: &Resolved) -> Explanation {
    let options = resolved.settings().filter_map(|setting| row(resolved, setting)).collect();
    Explanation {
        schema: SCHEMA,
        preset: resolved.preset.clone(),
        summary: resolved.summary.clone(),
        loader: resolved.loader,
        oldest_rocksdb: resolved.oldest_rocksdb(),
        options,
        notes: resolved.notes.clone(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", shown_in_line(&self.preset), shown_in_line(&self.summary))?;
        writeln!(f, "loader: {}", self.loader)?;
        writeln!(f, "read by: RocksDB {} or newer", self.oldest_rocksdb)?;
        for row in &self.options {
            writeln!(f, "\n{row}")?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {}", shown_in_line(note))?;
        }
        Ok(())
    }
}

impl fmt::Display for ExplainedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.option, shown_in_line(&self.value))?;
        if let Some(written) = &self.written {
            write!(f, " (written {})", shown_in_line(written))?;
        }
        write!(f, "\n  default  {} ({})", self.default, self.default_of)?;
        write!(f, "\n  from     {}", shown_in_line(&self.from.to_string()))?;
        if let Some(via) = self.via {
            write!(f, ", through {via}")?;
        }
        for (title, text) in [("reason", &self.reason), ("loading", &self.effect), ("after", &self.cost)] {
            write!(f, "\n  {title:<8} {}", shown_in_line(text.as_deref().unwrap_or("-")))?;
        }
        Ok(())
    }
}

/// The default of an option in plain digits, and its owner.
pub(super) fn default_value(resolved: &Resolved, key: &Key) -> (String, &'static str) {
    if let Some(row) = registry::find(key.scope, &key.name) {
        let owner = if row.owner == Owner::Bedload { "bedload" } else { "RocksDB" };
        let number = resolved.machine.parse(row.default);
        return (number.map_or_else(|_| row.default.to_owned(), |number| number.to_string()), owner);
    }
    let default = key.scope.group().and_then(|group| default_of(resolved.defaults, group, &key.name));
    (default.unwrap_or_default().to_owned(), "RocksDB")
}

fn row(resolved: &Resolved, setting: &Setting) -> Option<ExplainedOption> {
    let (default, owner) = default_value(resolved, &setting.key);
    let node = Key { stage: Stage::Node, ..setting.key.clone() };
    // A default value in `load` is a change if `node` has another value.
    let sets_back = setting.key.stage == Stage::Load && resolved.settings.contains_key(&node);
    if agrees(&setting.value, &default) && !sets_back {
        return None;
    }
    let key = &setting.key;
    let known = catalogue::effect(key.scope, &key.name);
    let effect = match catalogue::why_ineffective(key.scope, &key.name) {
        Some(why) if resolved.loader == Loader::Ingest => Some(format!("none: {why}")),
        _ => known.map(|effect| effect.load.clone()),
    };
    let cost = known.map(|effect| match key.stage == Stage::Node || effect.stays {
        true => effect.after.clone(),
        false => "none: it ends with the load".into(),
    });
    Some(ExplainedOption {
        option: setting.key.clone(),
        value: setting.value.clone(),
        written: (setting.written != setting.value && setting.via.is_none()).then(|| setting.written.clone()),
        default,
        default_of: owner,
        reason: setting.reason.clone(),
        effect,
        cost,
        from: setting.origin.clone(),
        via: setting.via,
    })
}
