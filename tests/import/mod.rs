//! Imports of CARs: formats, refusals, and the effects of presets, key layouts and loaders.

mod bad_blocks;
mod bad_input;
mod car_formats;
mod database_updates;
mod deterministic_files;
mod existing_databases;
mod filters;
mod hard_keys;
mod hash_functions;
mod host_process;
mod library_calls;
mod library_import;
mod library_records;
mod many_sources;
mod memtables;
mod old_rocksdb;
mod presets;
pub mod rebuild;
mod rebuild_options;
mod rebuild_refusals;
mod record_databases;
mod record_limits;
pub mod records;
mod refusals;
mod source_plan;

use crate::common::car::Block;
use crate::common::run::{Done, Place, Run, import};

/// Imports a snapshot from a file.
fn imported(bytes: &[u8], args: &[&str]) -> (Place, Done) {
    let place = Place::new();
    let done = import(&place, place.file("x.car", bytes)).args(args).run();
    (place, done)
}

/// Runs an import whose database must have exactly `blocks`, and removes the database.
#[track_caller]
fn imports(run: Run, blocks: &[Block]) -> Done {
    let done = run.holds(blocks);
    std::fs::remove_dir_all(&done.db).expect("a database");
    done
}
