//! Resources of the operating system: memory maps, buffers, files, file systems, limits.

pub(crate) mod buffer;
pub(crate) mod caller_code;
pub(crate) mod direct;
pub(crate) mod file_system;
pub mod files;
pub(crate) mod mmap;
pub(crate) mod private;
pub mod resources;
pub(crate) mod scratch_dir;
pub(crate) mod watched_dir;

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of the kernel, fit for keys.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    // The kernel returns up to 256 bytes whole.
    const { assert!(N <= 256, "too many bytes for one call") };
    let mut bytes = [0; N];
    let count = rustix::io::retry_on_intr(|| getrandom(&mut bytes[..], GetRandomFlags::empty()))?;
    if count == N { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
