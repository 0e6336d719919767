//! Facts about single options, independent of any preset: the data of `catalogue.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::key::{Key, Loader, Scope};

/// The only comparator of an import.
const COMPARATOR: &str = "leveldb.BytewiseComparator";

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| toml::from_str(include_str!("catalogue.toml")).expect("a test reads catalogue.toml"));

type ByOption<T> = BTreeMap<Scope, BTreeMap<String, T>>;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    ineffective: BTreeMap<String, Vec<String>>,
    limits: ByOption<(i64, i64)>,
    refused: ByOption<(String, String)>,
    rules: Vec<Rule>,
    warnings: Vec<Warning>,
    effects: ByOption<Effect>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Warning {
    option: String,
    value: String,
    loader: Option<Loader>,
    text: String,
}

/// An option with a value that needs another option with a value.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub with: (String, String),
    pub needs: (String, String),
    pub named: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effect {
    pub load: String,
    pub after: String,
    /// True if a value of `load` affects the finished database, because files were written with it.
    #[serde(default)]
    pub stays: bool,
}

/// Returns the effect of an option. A field without an entry has that of its structure.
pub(super) fn effect(scope: Scope, name: &str) -> Option<&'static Effect> {
    let options = CATALOGUE.effects.get(&scope)?;
    options.get(name).or_else(|| options.get(name.split_once('.')?.0))
}

/// The reason why an option in `load` has no effect with the ingest loader.
pub(super) fn why_ineffective(scope: Scope, name: &str) -> Option<&'static str> {
    let option = format!("{scope}.{name}");
    let is_meant = |pattern: &String| matches(pattern, &option);
    let mut reasons = CATALOGUE.ineffective.iter();
    reasons.find(|(_, patterns)| patterns.iter().any(is_meant)).map(|(reason, _)| reason.as_str())
}

fn matches(pattern: &str, option: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == option, |start| option.starts_with(start))
}

pub(super) fn refusal(Key { scope, name, .. }: &Key, value: &str) -> Option<String> {
    if (*scope, name.as_str()) == (Scope::Cf, "comparator") && value != COMPARATOR {
        return Some(format!("records are sorted byte by byte, as {COMPARATOR} does"));
    }
    let field = name.rsplit('.').next().unwrap_or(name);
    let limits = CATALOGUE.limits.get(scope).and_then(|options| options.get(field));
    if let (Some((lowest, highest)), Ok(number)) = (limits, value.parse::<i128>())
        && !(i128::from(*lowest)..=i128::from(*highest)).contains(&number)
    {
        return Some(format!("it must be {lowest} to {highest}"));
    }
    let refused = CATALOGUE.refused.get(scope).and_then(|options| options.get(name));
    refused.filter(|(refused, _)| refused == value).map(|(_, reason)| reason.clone())
}

pub(super) fn rules() -> &'static [Rule] {
    &CATALOGUE.rules
}

/// The warning about a value that RocksDB accepts and users regret.
pub(super) fn warning(loader: Loader, key: &Key, value: &str) -> Option<&'static str> {
    let full = key.to_string();
    let is_meant = |warning: &&Warning| {
        let option = &warning.option;
        (full == *option || full.split_once('.').is_some_and(|(_, name)| name == option))
            && warning.value == value
            && warning.loader.is_none_or(|only| only == loader)
    };
    CATALOGUE.warnings.iter().find(is_meant).map(|warning| warning.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::key::Stage;
    use super::super::names;
    use super::*;
    use crate::rocks::options;

    #[test]
    fn catalogue_names_existing_options() {
        let defaults = options::defaults();
        let known: Vec<String> =
            names::known(Stage::Load, defaults).into_iter().map(|(scope, name)| format!("{scope}.{name}")).collect();
        fn names<T>(all: &ByOption<T>) -> impl Iterator<Item = String> {
            all.iter().flat_map(|(scope, names)| names.keys().map(move |name| format!("{scope}.{name}")))
        }
        let Catalogue { ineffective, limits, refused, rules, warnings, effects } = &*CATALOGUE;
        let rules = rules.iter().flat_map(|rule| [&rule.with.0, &rule.needs.0, &rule.named].map(String::clone));
        let warnings = warnings.iter().map(|warning| warning.option.trim_start_matches("node.").to_owned());
        for name in names(limits).chain(names(refused)).chain(names(effects)).chain(rules).chain(warnings) {
            let (scope, field) = name.split_once('.').expect("a scope");
            let is_field = |option: &String| option.starts_with(scope) && option.ends_with(&format!(".{field}"));
            assert!(known.iter().any(|option| *option == name || is_field(option)), "{name}");
        }
        for pattern in ineffective.values().flatten() {
            assert!(known.iter().any(|name| matches(pattern, name)), "{pattern}");
        }
    }
}
