//! Imports and exports of block logs.

#[path = "../common/mod.rs"]
mod common;

mod block_logs_are_refused;
mod block_logs_go_on;
mod block_logs_of_every_kind;
mod block_logs_through_memtables;
mod every_bit_of_a_log;
mod export_of_logs;
