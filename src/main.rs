//! bedload: imports a blockchain snapshot into RocksDB.

use crc_fast::{CrcAlgorithm, Digest};

fn main() -> std::process::ExitCode {
    bedload::main()
}

/// `rocksdb::crc32c::Extend`: the CRC-32C of bytes behind those that `crc` is of.
///
/// RocksDB's own has the instructions that it was compiled for; in a program that runs on every processor these are none that
/// help. This one finds out at run time what there is, and build.rs has the linker put it in the other's place.
///
/// # Safety
///
/// `data` points to `length` bytes, unless `length` is 0.
#[unsafe(export_name = "__wrap__ZN7rocksdb6crc32c6ExtendEjPKcm")]
unsafe extern "C" fn crc32c_extend(crc: u32, data: *const u8, length: usize) -> u32 {
    if length == 0 {
        return crc;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(data, length) };
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}
