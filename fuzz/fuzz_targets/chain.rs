//! Reads any bytes as a block of each chain. The parsers do not panic, and their results are consistent.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../chain.rs"]
mod model;
#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&seeds::blocks()), |data: &[u8]| {
    let Some((&kind, block)) = data.split_first() else { return };
    model::chain(kind, block);
});
