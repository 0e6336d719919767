//! Imports of CARs: what becomes of every kind, what is refused, what a preset, a key or a loader changes.

#[path = "../common/mod.rs"]
mod common;

mod a_library_import_keeps_to_its_folders;
mod adding_to_a_database;
mod bad_blocks_are_refused;
mod bad_input_is_refused;
mod bare_digests_name_their_functions;
mod database_updates;
mod every_kind_of_car;
mod hard_keys;
mod host_process;
mod many_sources;
mod old_nodes_lose_nothing;
mod presets_load_the_same_database;
mod refusals;
mod the_same_files_everywhere;
mod through_memtables;
mod what_does_not_fit_stays_in_the_source;
mod what_the_system_refuses;
