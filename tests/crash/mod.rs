//! Imports that are killed, that run out of disk, memory or descriptors, and whose files others prepare.

mod bundles;
mod changed_machines;
mod changed_sources;
mod damaged_work;
mod f3_data;
mod failing_disks;
mod finished_imports;
mod hostile_users;
mod kills;
mod link_checks;
mod mount_points;
mod rebuilds;
mod records;
mod replaced_databases;
mod resource_errors;
mod several_sources;
mod shared_work_dirs;
mod signals_and_second_runs;
mod sync_order;
mod system_limits;
