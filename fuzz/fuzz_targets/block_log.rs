//! Any bytes as a block log: walked forward and backward the same entries are found, and no byte makes either panic.
#![no_main]

use bedload::testing::fuzzing;
use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(init: seeds::plant(&seeds::logs()), |data: &[u8]| {
    let Some((&[size, trim], data)) = data.split_first_chunk::<2>() else { return };
    fuzzing::block_log(data, 1 + usize::from(size) * 64, trim % 2 == 1);
});
