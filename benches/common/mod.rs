//! Snapshots for the benchmarks: made up, always the same, with the block sizes of mainnet.

#![allow(dead_code, reason = "each benchmark uses its own part")]

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use bedload::testing::bench_support::Snapshot;
use bedload::testing::generate::{Profile, Spec, write};
use bedload::testing::source::input::{Body, ByteStream, Input};

pub const MIB: u64 = 1 << 20;
const NAME: &str = "bench.car";

/// A CAR of about `size` bytes.
pub fn car(size: u64) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    write(&Spec::new(Profile::Mainnet, size), &mut out).expect("memory has room");
    out.into_inner()
}

/// A CAR of about `size` bytes, cut into chunks, and its size.
pub fn snapshot(size: u64) -> (Snapshot, u64) {
    let car = car(size);
    let len = car.len() as u64;
    (Snapshot::read(stream(car.into())).expect("a valid CAR"), len)
}

/// Bytes in memory as a stream: no thread, no system call.
pub fn stream(bytes: Arc<[u8]>) -> Input {
    Input::plain(NAME, bytes.len() as u64, Body::Stream(Box::new(Stream { bytes, at: 0 })))
}

/// A plain file.
pub fn plain(path: &Path) -> Input {
    let file = std::fs::File::open(path).expect("the file that was written before");
    let size = file.metadata().expect("its size").len();
    Input::plain(NAME, size, Body::File(file))
}

struct Stream {
    bytes: Arc<[u8]>,
    at: usize,
}

impl ByteStream for Stream {
    fn fill(&mut self, buf: &mut [u8]) -> bedload::Result<usize> {
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }

    fn consumed(&self) -> u64 {
        self.at as u64
    }
}

/// A temporary folder in memory where the system has such a place, so that no disk is measured.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).expect("a temporary folder")
}
