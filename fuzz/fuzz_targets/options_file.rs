//! Reads any text as an OPTIONS file of RocksDB. Every entry matches its line, and survives writing and reading.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;
#[allow(dead_code, reason = "each target reads one kind of text")]
#[path = "../texts.rs"]
mod texts;

fuzz_target!(init: seeds::plant(&seeds::texts(texts::seeds().options_files)), |data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        texts::options_file(text);
    }
});
