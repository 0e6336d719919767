//! Examines a snapshot before it is read, without threads and without keeping it open.

use std::fs::File;
use std::io;
use std::path::Path;

use super::detect::{self, Magic};
use super::open::{STDIN, input_error};
use super::remote::Remote;
use super::{Compression, CompressionProblem, InputOptions, forest};
use crate::error::{Error, Result};
use crate::os::files::read_head;
use crate::source::remote::RemoteFile;

const HEAD: usize = 64 << 10;

/// Facts about a regular file, or one on the network.
pub(crate) struct SourceProbe {
    pub size: u64,
    /// Skippable frames at the start count as zstd.
    pub compression: Compression,
    /// As [`super::Input::blocks`].
    pub blocks: Option<u64>,
    pub head: Vec<u8>,
}

/// Examines a file. `None` if it is not a regular file, which could not be read again.
pub(crate) fn probe(path: &Path) -> Result<Option<(SourceProbe, File)>> {
    if path.as_os_str() == STDIN {
        return Ok(None);
    }
    let metadata = std::fs::metadata(path).map_err(|error| input_error(path, "open", error))?;
    if metadata.is_dir() {
        return Err(Error::bad_input(path, None, CompressionProblem::Directory));
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    let file = File::open(path).map_err(|error| input_error(path, "open", error))?;
    let size = file.metadata().map_err(Error::io("read metadata of", path))?.len();
    if size == 0 {
        return Err(Error::bad_input(path, 0, CompressionProblem::Empty));
    }
    let head = read_head(&file, HEAD).map_err(|error| input_error(path, "read", error))?;
    let seen = seen(head, size, |size| forest::find(&file, size));
    Ok(Some((seen.map_err(Error::io("read", path))?, file)))
}

/// Examines a file on the network. The probe is `None` if the server sends no size, so that it is read like a pipe.
pub(crate) fn probe_remote(path: &Path, options: &InputOptions) -> Result<(Option<SourceProbe>, Remote)> {
    let file = RemoteFile::open(path, &options.network, options.pinned.as_deref())?;
    let probe = match file.size() {
        Some(0) => return Err(Error::bad_input(path, 0, CompressionProblem::Empty)),
        Some(size) => {
            let failed = |error| Error::io("read", path)(error);
            let mut head = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(HEAD)];
            file.read_at(&mut head, 0).map_err(failed)?;
            let read = |into: &mut [u8], at| file.read_at(into, at);
            let find = |size| if file.is_ranged() { forest::find_with(size, read) } else { Ok(None) };
            Some(seen(head, size, find).map_err(failed)?)
        }
        None => None,
    };
    Ok((probe, Remote::unread(file, options.clone())))
}

/// Returns the facts in the first bytes; `find` looks for Forest's index.
fn seen(
    head: Vec<u8>,
    size: u64,
    find: impl FnOnce(u64) -> io::Result<Option<forest::ForestTail>>,
) -> io::Result<SourceProbe> {
    let compression = match detect::magic(&head) {
        Magic::Frame(compression) | Magic::Cut(compression) => compression,
        Magic::Skippable(_) => Compression::Zstd,
        Magic::Other => Compression::None,
    };
    let tail = if compression == Compression::Zstd { find(size)? } else { None };
    let compression = if tail.is_some() { Compression::ForestZstd } else { compression };
    Ok(SourceProbe { size, compression, blocks: tail.and_then(|tail| tail.blocks), head })
}
