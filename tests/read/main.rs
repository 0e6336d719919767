//! Commands that read a finished database or a snapshot: verify, walk, get, stat, inspect, export.

#[path = "../common/mod.rs"]
mod common;

mod damaged_databases;
mod export_round_trip;
mod get;
mod inspect;
mod locations;
mod node_writes;
mod replacements;
mod stat;
mod verdicts;
mod verify;
mod walk;
