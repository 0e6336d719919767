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
