//! Reads any bytes as a stream of records. With every chunk size the reader finds the same records, and does not panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../records.rs"]
mod model;
#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(
    init: seeds::plant(&seeds::records().iter().map(|stream| [&[3][..], stream].concat()).collect::<Vec<_>>()),
    |data: &[u8]| {
        let Some((size, data)) = data.split_first() else { return };
        model::records(data, 1 + usize::from(*size) * usize::from(*size));
    }
);
