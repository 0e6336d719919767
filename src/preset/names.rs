//! Full names of options, for suggestions.

use std::collections::BTreeMap;

use super::key::{Origin, Scope, Stage};
use super::problem::nearest_of;
use super::registry;
use crate::rocks::option_map::{OptionMap, fields_of};
use crate::rocks::options;

/// Every option of a stage, with its scope. Fields of structures are `option.field`.
pub(super) fn known(stage: Stage, defaults: &OptionMap) -> Vec<(Scope, String)> {
    let of_rocksdb = defaults.iter().flat_map(|(group, name, default)| {
        let fields = fields_of(default).unwrap_or_default();
        let fields = fields.into_iter().map(move |(field, _)| format!("{name}.{field}"));
        fields.chain([name.to_owned()]).map(move |name| (Scope::from(group), name))
    });
    let ours = registry::ROWS
        .iter()
        .filter(|row| stage == Stage::Load || row.in_node)
        .map(|row| (row.scope, row.name.to_owned()));
    of_rocksdb.chain(ours).collect()
}

/// The full names that a name without its stage or scope may mean. With `may_be_misspelt`, the most similar known name
/// counts.
pub(super) fn meant(stage: Option<Stage>, scope: Option<Scope>, name: &str, may_be_misspelt: bool) -> Vec<String> {
    let defaults = options::defaults();
    let mut all = BTreeMap::new();
    // An option of both stages is suggested for `node`.
    for stage in stage.map_or_else(|| vec![Stage::Node, Stage::Load], |stage| vec![stage]) {
        for option in known(stage, defaults).into_iter().filter(|(of, _)| scope.is_none_or(|scope| scope == *of)) {
            all.entry(option).or_insert(stage);
        }
    }
    let is_known = all.keys().any(|(_, known)| known == name);
    let nearest = || nearest_of(name, all.keys().map(|(_, known)| known.as_str()));
    let Some(name) = is_known.then_some(name).or_else(|| may_be_misspelt.then(nearest).flatten()) else {
        return Vec::new();
    };
    let found = all.iter().filter(|((_, known), _)| known == name);
    found.map(|((scope, name), stage)| format!("{stage}.{scope}.{name}")).collect()
}

/// The full name of an option of one column family, if `--set` has it without `cf`, or with a stage.
pub(super) fn of_family(path: &str, at: &Origin) -> Option<String> {
    let given = path.strip_prefix("node.").unwrap_or(path);
    let rest = given.strip_prefix("cf.").unwrap_or(given);
    let (family, option) = rest.split_once('.')?;
    let is_misspelt = rest == given && nearest_of(family, ["load", "node", "db", "cf", "table"]).is_some();
    if is_misspelt || !matches!(at, Origin::Override(_)) {
        return None;
    }
    let is_of_family = |(scope, name): &(Scope, String)| match scope {
        Scope::Cf => name == option,
        Scope::Table => option.strip_prefix("table.") == Some(name),
        _ => false,
    };
    known(Stage::Node, options::defaults()).iter().any(is_of_family).then(|| format!("cf.{rest}"))
}
