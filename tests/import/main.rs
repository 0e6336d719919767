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

use common::run::{Done, Place, import};

/// Imports a snapshot from a file.
fn imported(bytes: &[u8], args: &[&str]) -> (Place, Done) {
    let place = Place::new();
    let done = import(&place, place.file("x.car", bytes)).args(args).run();
    (place, done)
}
