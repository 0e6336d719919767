//! Reads any text as a preset and as a user's configuration. Every setting and every error has its line.
#![no_main]

use bedload::testing::fuzzing;
use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&seeds::texts(fuzzing::seeds().presets)), |data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        fuzzing::preset(text);
    }
});
