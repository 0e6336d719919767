//! Warnings about values that RocksDB accepts and users regret. Each has a use, so none is an error.

use super::catalogue;
use super::key::{Key, Scope, Stage};
use super::resolved::{Resolved, Setting, default_of};
use super::validate::{USUAL_BITS, filter_without_bits};
use crate::rocks::option_map::Group;
use crate::text::size::human;

pub(super) fn warnings(resolved: &Resolved) -> Vec<String> {
    resolved
        .settings()
        .filter_map(|setting| Some(format!("{}: `{}`: {}", setting.origin, setting.key, lint(resolved, setting)?)))
        .collect()
}

fn lint(resolved: &Resolved, Setting { key, value, written, .. }: &Setting) -> Option<String> {
    let Key { stage, scope, name } = key;
    match (stage, scope, name.as_str(), value.as_str()) {
        (Stage::Node, Scope::Cf, "num_levels", levels) if levels.parse::<u32>().is_ok_and(|levels| levels < 7) => Some(
            "a node that expects seven levels opens it, one that was given fewer does not open seven; \
             with two, each compaction rewrites everything"
                .into(),
        ),
        (Stage::Node, Scope::Cf, "level_compaction_dynamic_level_bytes", "false") => Some(static_levels(resolved)),
        (_, Scope::Table, "filter_policy", _) => filter_without_bits(written).map(|kind| {
            format!(
                "`{written}` does not say the bits of a key, so {USUAL_BITS} are taken; \
                 for another number, set `{key}={kind}:BITS`"
            )
        }),
        _ => catalogue::warning(resolved.loader, key, value).map(str::to_owned),
    }
}

/// With static levels no compaction reaches the last level until the levels above it are full.
fn static_levels(resolved: &Resolved) -> String {
    let node = resolved.node();
    let number = |name: &str| {
        let text = node.get(Group::Cf, name).or_else(|| default_of(resolved.defaults, Group::Cf, name));
        text.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
    };
    let last = number("num_levels") - 1.0;
    let factor = number("max_bytes_for_level_multiplier");
    // The conversion saturates.
    let full = (number("max_bytes_for_level_base") * factor.powf((last - 2.0).max(0.0))) as u64;
    format!(
        "the import leaves its files at the last level, {last}, all the same; what the node writes, overwrites and deletes \
         reaches them only when level {} holds {}: until then no space of deleted blocks is freed, and a key may be \
         looked for in all levels; `node.cf.level_compaction_dynamic_level_bytes=true` fills levels from the last",
        last - 1.0,
        human(full)
    )
}
