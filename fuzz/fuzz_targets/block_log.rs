//! Reads any bytes as a block log. The forward and the backward walk find the same entries, and neither panics.
#![no_main]

use bedload::testing::fuzzing;
use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&seeds::logs()), |data: &[u8]| {
    let Some((&[size, trim], data)) = data.split_first_chunk::<2>() else { return };
    fuzzing::block_log(data, 1 + usize::from(size) * 64, trim % 2 == 1);
});
