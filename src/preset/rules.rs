//! Combinations of options that RocksDB's parser accepts and that then end the process.

use super::catalogue;
use super::key::Scope;
use super::resolved::{Resolved, default_of};
use crate::error::Result;

/// Checks options that depend on each other.
pub(super) fn check(resolved: &Resolved) -> Result<()> {
    for map in [resolved.loading(), resolved.node()] {
        let is = |(option, value): &(String, String)| {
            let (scope, name) = option.split_once('.').unwrap_or_default();
            let group = Scope::named(scope).and_then(Scope::group);
            let set =
                group.and_then(|group| map.get(group, name).or_else(|| default_of(resolved.defaults, group, name)));
            set == Some(value)
        };
        for rule in catalogue::rules().iter().filter(|rule| is(&rule.with) && !is(&rule.needs)) {
            let named = |name: &str| name.split_once('.').is_some_and(|(_, name)| name == rule.named);
            if let Some(setting) = resolved.settings().find(|setting| named(&setting.key.to_string())) {
                return Err(setting.unusable(rule.reason.clone()).into());
            }
        }
    }
    Ok(())
}
