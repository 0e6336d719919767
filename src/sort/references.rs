//! References to sections that stay in their sources.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};

/// A section that stays in the source.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Reference {
    pub at: u64,
    pub len: u32,
    /// Number of the source, counted from 0.
    pub source: u32,
}

/// The plain sources that partitions refer to.
pub(crate) struct ReferencedSources {
    pub sources: Vec<ReferencedSource>,
    /// Reopens the source with this number.
    pub open: Box<dyn Fn(usize) -> Result<File> + Send + Sync>,
}

pub(crate) struct ReferencedSource {
    pub name: PathBuf,
    pub bytes: u64,
    /// Kept open if there are few sources.
    pub file: Option<File>,
}

impl ReferencedSources {
    /// Reads the section of a reference. `open` holds the last source that was reopened.
    pub(super) fn read(&self, reference: Reference, into: &mut [u8], open: &mut Option<(u32, File)>) -> Result<()> {
        let Reference { at, source, .. } = reference;
        let Some(ReferencedSource { name, file, .. }) = self.sources.get(source as usize) else {
            return Err(Error::broken_invariant(format_args!("source {source} does not exist")));
        };
        let file = match file {
            Some(file) => file,
            None => {
                // Closes the last file before the next one is opened.
                let known = open.take().filter(|(number, _)| *number == source);
                &open.insert(known.map_or_else(|| (self.open)(source as usize).map(|file| (source, file)), Ok)?).1
            }
        };
        file.read_exact_at(into, at).map_err(Error::io("read", name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_source_is_an_error() {
        let sources = ReferencedSources { sources: Vec::new(), open: Box::new(|_| unreachable!("there is no source")) };
        let reference = Reference { at: 0, len: 1, source: 3 };
        let error = sources.read(reference, &mut [0], &mut None).expect_err("there is no source");
        assert!(error.to_string().contains("source 3 does not exist"), "{error}");
    }
}
