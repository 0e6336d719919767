//! Reads any text as a value of the command line: a size, a number, an id, a CID, a digest, an assignment.
#![no_main]

use bedload::testing::fuzzing;
use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&seeds::texts(fuzzing::seeds().words)), |data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        fuzzing::words(text);
    }
});
