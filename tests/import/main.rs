//! Imports of CARs: what becomes of every kind, what is refused, what a preset, a key or a loader changes.

#[path = "../common/mod.rs"]
mod common;

mod bad_blocks;
mod bad_input;
mod car_formats;
mod database_updates;
mod deterministic_files;
mod existing_databases;
mod hard_keys;
mod hash_functions;
mod host_process;
mod library_import;
mod many_sources;
mod memtables;
mod old_rocksdb;
mod presets;
mod refusals;
mod source_plan;
mod system_errors;
