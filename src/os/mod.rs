//! Resources of the operating system: memory maps, buffers, files, file systems, limits.

pub(crate) mod buffer;
pub(crate) mod direct;
pub(crate) mod file_system;
pub mod files;
pub(crate) mod mmap;
pub(crate) mod private;
pub mod resources;
pub(crate) mod scratch_dir;
pub(crate) mod watched_dir;

use std::io;

/// Random bytes of the kernel, fit for keys.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
