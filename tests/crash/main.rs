//! Imports that are killed, that run out of disk, memory or descriptors, and whose files others prepare.

#[path = "../common/mod.rs"]
mod common;

mod failing_disks;
mod hard_times;
mod limits_are_told;
mod nothing_is_lost;
mod prepared_by_others;
mod synced_before_named;
