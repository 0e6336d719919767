//! Real snapshots and block logs from public repositories.

#[path = "../common/mod.rs"]
mod common;

mod block_logs;
mod fixtures_import;
mod real_car_digests;
