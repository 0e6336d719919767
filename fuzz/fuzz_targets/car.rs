//! Reads any bytes as a CAR. With every chunk size the reader finds the same sections as a reader of the whole data, and
//! does not panic.
#![no_main]

use bedload::testing::fuzzing;
use bedload::testing::source::car::NullPadding;
use libfuzzer_sys::fuzz_target;

#[path = "../seeds.rs"]
mod seeds;

fuzz_target!(
    init: seeds::plant(&seeds::cars().iter().map(|car| [&[3, 0][..], car].concat()).collect::<Vec<_>>()),
    |data: &[u8]| {
        let Some((&[size, padding], data)) = data.split_first_chunk::<2>() else { return };
        let null_padding = if padding % 2 == 0 { NullPadding::Error } else { NullPadding::Eof };
        fuzzing::car(data, 1 + usize::from(size) * usize::from(size), null_padding);
    }
);
