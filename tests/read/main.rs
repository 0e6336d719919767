//! What reads a finished database or a snapshot: verify, walk, get, stat, inspect, export.

#[path = "../common/mod.rs"]
mod common;

mod damage_never_spins;
mod export_brings_it_back;
mod get_prints_blocks;
mod inspect_reports_what_is_in_a_snapshot;
mod locations;
mod replacements;
mod stat_shows_a_database;
mod verdicts;
mod verify_after_a_node;
mod verify_finds_every_fault;
mod walk_counts_links;
