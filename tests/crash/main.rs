//! Imports that are killed, that run out of disk, memory or descriptors, and whose files others prepare.

#[path = "../common/mod.rs"]
mod common;

mod another_source_for_what_is_finished;
mod bundles;
mod changed_machines;
mod f3_data;
mod failing_disks;
mod hard_times;
mod limits_are_reported;
mod links_are_followed;
mod mount_points_are_kept;
mod nothing_is_lost;
mod prepared_by_others;
mod replaced_databases;
mod several_sources;
mod shared_work_dirs;
mod signals_and_second_runs;
mod sources_that_change;
mod synced_before_named;
mod unfinished_work_is_checked;
