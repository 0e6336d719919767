//! Combinations of options that RocksDB's parser accepts and that then end the process. `scripts/sweep-options` finds them.
//! Options that RocksDB rejects on use need no rule: a rehearsal finds them.

use super::key::{Key, Scope, Stage};
use super::problem::PresetProblem;
use super::resolved::Resolved;
use super::validate::{Setting, default_of};
use crate::error::Result;
use crate::rocks::option_map::{Group, OptionMap};

/// Checks options that depend on each other.
pub(super) fn check(resolved: &Resolved) -> Result<()> {
    for map in [resolved.loading(), resolved.node()] {
        let value = |group, name| value(resolved, &map, group, name);
        let two_levels = value(Group::Table, "index_type") == "kTwoLevelIndexSearch";
        if value(Group::Table, "partition_filters") == "true" && !two_levels {
            let reason = "partitioned filters need a partitioned index: set table.index_type to kTwoLevelIndexSearch";
            return Err(problem(resolved, Scope::Table, "partition_filters", reason).into());
        }
        let hash = value(Group::Table, "index_type") == "kHashSearch";
        if hash && value(Group::Table, "index_block_restart_interval") != "1" {
            let reason = "with index_type kHashSearch it must be 1";
            return Err(problem(resolved, Scope::Table, "index_block_restart_interval", reason).into());
        }
        if value(Group::Db, "allow_mmap_writes") == "true" && value(Group::Db, "allow_fallocate") == "false" {
            let reason = "a file that is mapped for writing needs its space: leave db.allow_fallocate true";
            return Err(problem(resolved, Scope::Db, "allow_mmap_writes", reason).into());
        }
    }
    Ok(())
}

fn value<'a>(resolved: &'a Resolved, map: &'a OptionMap, group: Group, name: &str) -> &'a str {
    map.get(group, name).or_else(|| default_of(resolved.defaults, group, name)).unwrap_or_default()
}

/// The problem with an option, at the place that sets it.
fn problem(resolved: &Resolved, scope: Scope, name: &str, reason: &str) -> PresetProblem {
    let key = |stage| Key { stage, scope, name: name.to_owned() };
    let found = Stage::ALL.into_iter().find_map(|stage| resolved.settings.get(&key(stage)));
    match found {
        Some(setting) => unusable(setting, reason),
        None => PresetProblem::Together {
            preset: resolved.preset.clone(),
            section: "load",
            message: format!("{scope}.{name}: {reason}"),
        },
    }
}

fn unusable(setting: &Setting, reason: &str) -> PresetProblem {
    PresetProblem::Unusable {
        at: setting.origin.clone(),
        key: setting.key.clone(),
        value: setting.value.clone(),
        reason: reason.to_owned(),
    }
}
