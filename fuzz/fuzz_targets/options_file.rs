//! Reads any text as an OPTIONS file of RocksDB. Every entry matches its line, and survives writing and reading.
#![no_main]

use bedload::testing::fuzzing;
use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&seeds::texts(fuzzing::seeds().options_files)), |data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        fuzzing::options_file(text);
    }
});
