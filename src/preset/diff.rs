//! Differences between two presets.

use std::collections::BTreeSet;

use super::explain::default_value;
use super::key::{Key, Stage};
use super::resolved::{Resolved, agrees};

/// An option with different values in two presets.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The option.
    pub option: Key,
    /// Its value in the first preset.
    pub a: String,
    /// Its value in the second preset.
    pub b: String,
    /// The value that is a default, because the preset does not name the option: `a`, `b`, or neither.
    pub unnamed: Option<&'static str>,
}

/// The options that two presets name with different values, or that only one of them names with a value other than the
/// default. An option that `load` does not name has its value from `node`.
pub fn diff(a: &Resolved, b: &Resolved) -> Vec<Difference> {
    let keys: BTreeSet<&Key> = a.settings.keys().chain(b.settings.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        let (of_a, of_b) = (value(a, key), value(b, key));
        if agrees(&of_a, &of_b) || agrees(&of_b, &of_a) {
            continue;
        }
        let unnamed = [("a", a), ("b", b)].into_iter().find(|(_, of)| !of.settings.contains_key(key));
        differences.push(Difference { option: key.clone(), a: of_a, b: of_b, unnamed: unnamed.map(|it| it.0) });
    }
    differences
}

fn value(of: &Resolved, key: &Key) -> String {
    let named = of.settings.get(key).or_else(|| of.settings.get(&Key { stage: Stage::Node, ..key.clone() }));
    named.map_or_else(|| default_value(of, key).0, |setting| setting.value.clone())
}
