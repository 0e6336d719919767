//! Sections that stay in their sources, and what partitions hold in their place.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};

/// A section that stays in the source.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Reference {
    /// Where it begins in the source.
    pub at: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Which source, counted from 0.
    pub source: u32,
}

/// The plain sources that partitions refer to.
pub(crate) struct Referred {
    pub sources: Vec<ReferredSource>,
    /// Opens the source of that number again.
    pub open: Box<dyn Fn(usize) -> Result<File> + Send + Sync>,
}

/// One of them.
pub(crate) struct ReferredSource {
    pub name: PathBuf,
    pub bytes: u64,
    /// Kept open, where there are few.
    pub file: Option<File>,
}

impl Referred {
    /// Reads bytes of one source, which is `open` for some of them.
    pub(super) fn read<'a>(
        &'a self,
        reference: Reference,
        into: &mut [u8],
        open: &mut Option<(u32, File)>,
    ) -> Result<()> {
        let Reference { at, source, .. } = reference;
        let Some(ReferredSource { name, file, .. }) = self.sources.get(source as usize) else { return Ok(()) };
        let file: &'a File = match file {
            Some(file) => file,
            None => {
                if open.as_ref().is_none_or(|(number, _)| *number != source) {
                    *open = None;
                    *open = Some((source, (self.open)(source as usize)?));
                }
                let Some((_, file)) = open else { return Ok(()) };
                return file.read_exact_at(into, at).map_err(Error::io("read", name));
            }
        };
        file.read_exact_at(into, at).map_err(Error::io("read", name))
    }
}
