//! Reads any text as a value of the command line: a size, a number, an id, a CID, a digest, an assignment.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;
#[allow(dead_code, reason = "each target reads one kind of text")]
#[path = "../texts.rs"]
mod texts;

fuzz_target!(init: seeds::plant(&seeds::texts(texts::seeds().words)), |data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        texts::words(text);
    }
});
