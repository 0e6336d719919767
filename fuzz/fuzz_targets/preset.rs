//! Reads any text as a preset and as a user's configuration. Every setting and every error has its line.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;
#[allow(dead_code, reason = "each target reads one kind of text")]
#[path = "../texts.rs"]
mod texts;

fuzz_target!(init: seeds::plant(&seeds::texts(texts::seeds().presets)), |data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        texts::preset(text);
    }
});
