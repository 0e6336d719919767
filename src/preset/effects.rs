//! Effects of single options on a load and on the finished database: data in `effects.toml`, independent of any preset.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::key::Scope;

/// The effects of an option.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effect {
    /// While loading.
    pub load: String,
    /// In the finished database.
    pub after: String,
    /// True if a value of `load` affects the finished database, because files were written with it.
    #[serde(default)]
    pub stays: bool,
}

type Effects = BTreeMap<String, BTreeMap<String, Effect>>;

static EFFECTS: LazyLock<Effects> =
    LazyLock::new(|| toml::from_str(include_str!("effects.toml")).expect("effects.toml is checked by a test"));

/// Returns the effect of an option. A field without an entry has that of its structure.
pub(super) fn of(scope: Scope, name: &str) -> Option<&'static Effect> {
    let options = EFFECTS.get(&scope.to_string())?;
    options.get(name).or_else(|| options.get(name.split_once('.')?.0))
}

#[cfg(test)]
mod tests {
    use super::super::{registry, validate};
    use super::*;
    use crate::rocks::options;

    #[test]
    fn effects_name_existing_options() {
        let defaults = options::defaults().expect("a temporary directory");
        for (scope, names) in EFFECTS.iter() {
            let scope = Scope::named(scope).expect("a scope");
            for name in names.keys() {
                let of_rocksdb =
                    scope.group().is_some_and(|group| validate::default_of(defaults, group, name).is_some());
                assert!(of_rocksdb || registry::find(scope, name).is_some(), "{scope}.{name}");
            }
        }
    }
}
