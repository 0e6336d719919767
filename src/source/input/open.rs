//! Opens a snapshot: detects the kind of file and its compression.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;

use super::detect::{self, Magic, PROBE};
use super::hashing::hashed;
use super::source::InputReader;
use super::stream::{InputOptions, stream};
use super::{Body, CompressionProblem, Input, forest, remote};
use crate::error::{Error, Result};
use crate::os::files::read_head;
use crate::source::remote::{is_remote, is_url};

/// The name of standard input.
pub(crate) const STDIN: &str = "-";

/// Opens the snapshot at `path`; `-` is standard input.
///
/// A plain regular file, also one redirected to standard input, becomes [`Body::File`], everything else a stream. Waits
/// until the first bytes are decompressed.
pub fn open(path: &Path, options: &InputOptions) -> Result<Input> {
    if is_remote(path) {
        return remote::open(path, options);
    }
    if path.as_os_str() == STDIN {
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(|error| input_error(path, "read metadata of", error))?;
        let at_start = rustix::fs::seek(&file, SeekFrom::Current(0)).is_ok_and(|at| at == 0);
        return from_file(path, file, &metadata, at_start, options);
    }
    let file = File::open(path).map_err(|error| input_error(path, "open", error))?;
    let metadata = file.metadata().map_err(|error| input_error(path, "read metadata of", error))?;
    let opened = file.try_clone().map_err(Error::io("open", path))?;
    let input = from_file(path, file, &metadata, true, options)?;
    Ok(Input { file: metadata.is_file().then_some(opened), ..input })
}

/// Opens the snapshot that a reader delivers, with a name for messages.
pub fn from_reader(name: impl AsRef<Path>, reader: Box<dyn io::Read + Send>, options: &InputOptions) -> Result<Input> {
    local(name.as_ref(), reader, None, None, options)
}

/// Opens a stream of local bytes, with the checksum of the options.
fn local(
    name: &Path,
    reader: Box<dyn io::Read + Send>,
    size: Option<u64>,
    tail: Option<forest::ForestTail>,
    options: &InputOptions,
) -> Result<Input> {
    let expected = options.checksum.as_ref().map(|wanted| remote::expected(wanted, name, options)).transpose()?;
    let expected = expected.map(Arc::new);
    let (reader, _) = hashed(reader, name, expected.as_ref(), None);
    stream(InputReader::new(name, reader), size, tail, expected, false, options)
}

/// Returns the error for a failed call. A file that is missing or not readable is an [`Error::Io`] with the problem as its
/// inner error.
pub(crate) fn input_error(path: &Path, action: &'static str, error: io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename if is_url(path) => {
            CompressionProblem::Url
        }
        // No file has a name that is too long for the system.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            return Error::unreadable_input(path, io::ErrorKind::NotFound, CompressionProblem::NotFound);
        }
        io::ErrorKind::PermissionDenied => {
            return Error::unreadable_input(path, error.kind(), CompressionProblem::NoPermission);
        }
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => CompressionProblem::Loop,
        io::ErrorKind::IsADirectory => CompressionProblem::Directory,
        _ => return Error::io(action, path)(error),
    };
    Error::bad_input(path, None, problem)
}

fn from_file(name: &Path, file: File, metadata: &Metadata, at_start: bool, options: &InputOptions) -> Result<Input> {
    if metadata.is_dir() {
        return Err(Error::bad_input(name, None, CompressionProblem::Directory));
    }
    let size = metadata.len();
    // Files of /proc have no size and are read like pipes.
    if !metadata.is_file() || size == 0 || !at_start {
        return local(name, Box::new(file), None, None, options);
    }
    // Advice only: the system may read further ahead.
    rustix::fs::fadvise(&file, 0, None, Advice::Sequential).ok();
    let head = read_head(&file, PROBE).map_err(|error| input_error(name, "read", error))?;
    let is_plain = detect::magic(&head) == Magic::Other;
    // Only a stream has the bytes in the order of the checksum.
    if is_plain && options.checksum.is_none() {
        return Ok(Input::plain(name, size, Body::File(file)));
    }
    let tail = forest::find(&file, size).map_err(Error::io("read", name))?;
    local(name, Box::new(file), Some(size), tail, options)
}
