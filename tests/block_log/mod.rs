//! Imports and exports of block logs.

mod bad_logs;
mod damaged_blocks;
mod export;
mod flipped_bits;
mod log_formats;
mod memtables;
mod resume;

use crate::common::database::generate_as;
use crate::common::log::words;
use crate::common::run::{Done, Place, import, import_pipe};

/// Imports a log from a file.
fn imported(log: &[u8], args: &[&str]) -> (Place, Done) {
    let place = Place::in_memory();
    let done = import(&place, place.file("block_log", log)).args(args).run();
    (place, done)
}

/// Imports a log from a file, then from a pipe.
#[track_caller]
fn both(log: &[u8], args: &[&str], check: impl Fn(&Done)) {
    check(&imported(log, args).1);
    let place = Place::in_memory();
    check(&import_pipe(&place, log).args(args).args(&["--memory", "16MiB"]).run());
}

/// A log that the program generates, with transactions and their merkle roots.
fn generated(args: &[&str]) -> Vec<u8> {
    let place = Place::in_memory();
    let path = generate_as(place.path("log"), &[&["--profile"], args].concat());
    std::fs::read(path).expect("a log")
}

/// A copy with the bits of `mask` flipped in one byte.
fn flipped(bytes: &[u8], at: usize, mask: u8) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[at] ^= mask;
    changed
}

/// Offsets of the blocks of a log of Steem or Hive.
fn starts(log: &[u8]) -> Vec<usize> {
    words(log).iter().map(|word| (word & ((1 << 48) - 1)) as usize).collect()
}

/// Offsets of the blocks of an Antelope log from block 1.
fn antelope_starts(log: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut end = log.len();
    while end > 126 {
        end = u64::from_le_bytes(log[end - 8..end].try_into().expect("8 bytes")) as usize;
        starts.push(end);
    }
    starts.reverse();
    starts
}
