//! Any text as what stands on a command line: sizes, numbers, ids, CIDs, digests, assignments.
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
