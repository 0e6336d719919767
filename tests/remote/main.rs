//! Snapshots at URLs: what is asked of servers, what becomes of servers that misbehave, what is never shown.

#[path = "../common/mod.rs"]
mod common;

mod bundles;
mod bundles_are_refused;
mod comparisons;
mod imports_from_urls;
mod logs;
mod names_without_secrets;
mod servers_that_misbehave;
mod several_sources;
mod stores;
mod sums_of_sources;
mod sums_of_stores;
mod they_go_on;
