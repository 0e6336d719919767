//! All tests that run the program, in one binary: it links RocksDB once, and tests that wait run beside those that compute.

mod common;

mod bench;
mod block_log;
mod cli;
mod crash;
mod import;
mod memory;
mod project;
mod read;
mod remote;
