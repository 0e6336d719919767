//! Generated snapshots for the benchmarks, always the same, with the block sizes of mainnet.

#![allow(dead_code, reason = "each benchmark uses its own part")]

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use bedload::testing::bench_support::ChunkedCar;
use bedload::testing::generate::{Profile, Spec, write};
use bedload::testing::source::input::{Body, Input};

pub const MIB: u64 = 1 << 20;
const NAME: &str = "bench.car";

/// A CAR of about `size` bytes.
pub fn car(size: u64) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    write(&Spec::new(Profile::Mainnet, size), &mut out).expect("memory has room");
    out.into_inner()
}

/// A CAR of about `size` bytes, cut into chunks, and its size.
pub fn snapshot(size: u64) -> (ChunkedCar, u64) {
    let car = car(size);
    let len = car.len() as u64;
    (ChunkedCar::read(stream(car.into())).expect("a valid CAR"), len)
}

/// Bytes in memory as a stream: no thread, no system call.
pub fn stream(bytes: Arc<[u8]>) -> Input {
    Input::plain(NAME, bytes.len() as u64, Body::Stream(Box::new(Cursor::new(bytes))))
}

/// A plain file.
pub fn plain(path: &Path) -> Input {
    let file = std::fs::File::open(path).expect("the file that was written before");
    let size = file.metadata().expect("its size").len();
    Input::plain(NAME, size, Body::File(file))
}

/// A temporary directory, in memory if the system has such a file system, so that no disk is measured.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).expect("a temporary folder")
}
