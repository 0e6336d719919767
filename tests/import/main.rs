//! Imports of CARs: formats, refusals, and the effects of presets, key layouts and loaders.

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
