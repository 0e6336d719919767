//! Reads any bytes as a block of each chain. The parsers do not panic, and their results are consistent.
#![no_main]

use bedload::testing::fuzzing;
use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&seeds::blocks()), |data: &[u8]| {
    let Some((&kind, block)) = data.split_first() else { return };
    fuzzing::chain(kind, block);
});
