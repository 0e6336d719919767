//! `bedload bench` and `doctor`.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod doctor;
mod tune;
