//! Opening a snapshot: what kind of file it is, how it is compressed, how its bytes are read.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;

use super::detect::{self, Magic, PROBE};
use super::hashing::Hashing;
use super::source::Source;
use super::stream::{InputOptions, stream};
use super::{Body, Compression, CompressionProblem, Input, forest, remote};
use crate::error::{Error, Result};
use crate::os::files::read_at_most;
use crate::source::remote::{is_remote, is_url};

/// The name of standard input.
pub(crate) const STDIN: &str = "-";

/// Opens the snapshot at `path`; `-` is standard input.
///
/// A plain regular file becomes [`Body::File`], also when standard input is redirected from one; everything else a
/// stream. Blocks until the first bytes have come and are unpacked.
///
/// # Errors
/// [`Error::BadInput`] or [`Error::Io`]: the file cannot be opened or is empty, and everything that
/// [`ByteStream::fill`] reports about the first bytes.
pub fn open(path: &Path, options: &InputOptions) -> Result<Input> {
    if is_remote(path) {
        return remote::open(path, options);
    }
    if path.as_os_str() == STDIN {
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(|error| refused(path, "look at", error))?;
        let at_start = rustix::fs::seek(&file, SeekFrom::Current(0)).is_ok_and(|at| at == 0);
        return from_file(path, file, &metadata, at_start, options);
    }
    let file = File::open(path).map_err(|error| refused(path, "open", error))?;
    let metadata = file.metadata().map_err(|error| refused(path, "look at", error))?;
    let opened = file.try_clone().map_err(Error::io("open", path))?;
    let input = from_file(path, file, &metadata, true, options)?;
    Ok(Input { file: metadata.is_file().then_some(opened), ..input })
}

/// Opens a snapshot that some other reader delivers, named `name` in messages.
///
/// # Errors
/// As [`open`].
#[cfg(any(test, feature = "testing"))]
pub fn from_reader(name: impl AsRef<Path>, reader: Box<dyn io::Read + Send>, options: &InputOptions) -> Result<Input> {
    local(name.as_ref(), reader, None, None, options)
}

/// A stream of bytes that are here, with their sum where one is wanted.
fn local(
    name: &Path,
    reader: Box<dyn io::Read + Send>,
    size: Option<u64>,
    tail: Option<forest::ForestTail>,
    options: &InputOptions,
) -> Result<Input> {
    let expected = options.checksum.as_ref().map(|wanted| remote::expected(wanted, name, options)).transpose()?;
    let expected = expected.map(Arc::new);
    let reader = match &expected {
        Some(expected) => Box::new(Hashing::new(reader, name, Arc::clone(expected), None).0),
        None => reader,
    };
    Ok(stream(Source::new(name, reader), size, tail, expected, false, options)?.0)
}

/// The refusals that say something about the input rather than about the system.
pub(crate) fn refused(path: &Path, action: &'static str, error: io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename if is_url(path) => {
            CompressionProblem::Url
        }
        // A name that is too long for the system is of nothing that is there.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            CompressionProblem::NotFound
        }
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => CompressionProblem::Loop,
        io::ErrorKind::PermissionDenied => CompressionProblem::NoPermission,
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
    // Advice only: the system reads further ahead. It may decline.
    rustix::fs::fadvise(&file, 0, None, Advice::Sequential).ok();
    let mut head = [0; PROBE];
    let got = read_at_most(&file, &mut head, 0).map_err(|error| refused(name, "read", error))?;
    let is_plain = detect::magic(head.get(..got).unwrap_or_default()) == Magic::Other;
    // The sum of a file is that of its bytes in their order, which only a stream has.
    if is_plain && options.checksum.is_none() {
        let body = Body::File(file);
        let (name, size) = (name.to_owned(), Some(size));
        let compression = Compression::None;
        return Ok(Input { name, size, compression, blocks: None, body, file: None, remote: None, expected: None });
    }
    let tail = forest::find(&file, size).map_err(Error::io("read", name))?;
    local(name, Box::new(file), Some(size), tail, options)
}
