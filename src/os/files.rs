//! Atomic creation of files, and reading of regular files only.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;
use tempfile::TempPath;

use crate::error::{Error, Result, StateKind};
use crate::os::private;

/// The mode of new files before the umask.
const MODE: u32 = 0o666;

/// The suffix of an output file until it is complete.
const PARTIAL: &str = "partial";

const CURRENT: &str = "CURRENT";

/// The suffix of an import's file until it is complete.
pub(crate) const UNFINISHED: &str = ".bedload";

/// Opens a regular file for reading, without waiting for a named pipe.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let other = || io::Error::new(ErrorKind::InvalidData, "it is not a regular file");
    if file.metadata()?.is_file() { Ok(file) } else { Err(other()) }
}

/// Reads a regular file of at most `limit` bytes, independent of the length in its metadata.
pub(crate) fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    let too_long = || io::Error::new(ErrorKind::InvalidData, format!("it has more than {limit} bytes"));
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// Reads at `at` until `buf` is full or the file ends. Returns the number of bytes.
pub(crate) fn read_at_most(file: &File, buf: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads the first `len` bytes of a file, or all if there are fewer.
pub(crate) fn read_head(file: &File, len: usize) -> io::Result<Vec<u8>> {
    let mut head = vec![0; len];
    let filled = read_at_most(file, &mut head, 0)?;
    head.truncate(filled);
    Ok(head)
}

/// True if two paths lead to the same existing file or directory, through links or not.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Returns the number of this process's open descriptors that refer to the file at `path`. Without /proc it returns 0.
pub(crate) fn count_descriptors(path: &Path) -> usize {
    let Ok(there) = path.metadata() else { return 0 };
    let descriptors = Path::new("/proc/self/fd").read_dir().into_iter().flatten().flatten();
    let inode = |file: &Metadata| (file.dev(), file.ino());
    // Each entry is a link to the open file, which `metadata` follows.
    descriptors.filter(|entry| entry.path().metadata().is_ok_and(|open| inode(&open) == inode(&there))).count()
}

pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// True if an error of [`exchange`] says that the system or the file system does not support it.
pub(crate) fn exchanges_no_names(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}

/// Refuses an empty path, one with a NUL byte, and one that is longer than the system allows. `what` is the object with the path.
pub(crate) fn check_path(what: &str, path: &Path) -> Result<()> {
    const MAX_NAME: usize = 255;
    let refuse = |reason: String| Err(Error::usage(reason, "pass another path"));
    let (len, name) = (path.as_os_str().len(), path.iter().map(OsStr::len).max().unwrap_or_default());
    if len == 0 {
        return refuse(format!("the path of {what} is empty"));
    }
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return refuse(format!("the path of {what} contains a NUL byte"));
    }
    if len >= libc::PATH_MAX as usize {
        return refuse(format!("the path of {what} has {len} bytes, and a path has at most 4095"));
    }
    if name > MAX_NAME {
        return refuse(format!(
            "the path of {what} contains a name of {name} bytes, and a name has at most {MAX_NAME}"
        ));
    }
    Ok(())
}

/// Checks that the parent directory exists. A missing parent is mostly a misspelt path or a volume that is not mounted.
pub(crate) fn check_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let checked = match parent.metadata() {
        Ok(there) if there.is_dir() => Ok(()),
        Ok(_) => Err(ErrorKind::NotADirectory.into()),
        Err(error) => Err(error),
    };
    checked.map_err(Error::io("create", path))
}

pub(crate) fn create_last_dir(path: &Path) -> Result<()> {
    check_parent(path)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !path.is_dir() => Err(Error::state(
            path,
            StateKind::Exists,
            "is not a directory",
            "name a directory, or a path that does not exist",
        )),
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Error::io("create", path)(error)),
        _ => Ok(()),
    }
}

/// Resolves the links in the existing part of a path.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)));
    found.map_or_else(|| path.clone(), |(above, rest)| if rest == Path::new("") { above } else { above.join(rest) })
}

/// Syncs a directory: the names in it.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", dir))
}

/// Writes a small file into `dir`, atomically and durably.
pub(crate) fn write_synced(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = dir.join(name);
    if path.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        return Err(Error::damaged_work(path, "has a directory in the place of this file"));
    }
    put(&path, bytes, File::sync_all)?;
    sync_dir(dir)
}

/// Replaces a small file atomically, with this mode. The file is not synced, so a power cut may lose it.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    put(path, bytes, |file| file.set_permissions(std::fs::Permissions::from_mode(mode)))
}

/// Writes a file under a temporary name, then renames it.
fn put(path: &Path, bytes: &[u8], finish: impl Fn(&File) -> io::Result<()>) -> Result<()> {
    let making = unfinished_name(path);
    private::remove(&making)?;
    let write = || {
        let mut file = File::create_new(&making)?;
        io::Write::write_all(&mut file, bytes)?;
        finish(&file)
    };
    write().map_err(Error::io("write", path))?;
    std::fs::rename(&making, path).map_err(Error::io("replace", path))
}

pub(crate) fn unfinished_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// The target of a command's output.
#[derive(Debug)]
pub enum Output {
    /// A file that gets its name by [`Output::commit`].
    File(NewFile),
    /// A device or a named pipe.
    Stream(File),
}

/// A file that does not have its name yet. Drop deletes it.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// `FILE.partial`; `None` if the file system supports files without a name.
    named: Option<TempPath>,
    path: PathBuf,
    folder: PathBuf,
    /// True if it may replace an existing file.
    replace: bool,
}

impl Output {
    /// Opens the device or pipe at `path`, or creates a new file in its directory.
    pub fn create(path: &Path, replace: bool) -> Result<Self> {
        Self::create_in(path, replace, true)
    }

    /// With `unnamed`, the file has no name until it is complete, if the file system supports that.
    fn create_in(path: &Path, replace: bool, unnamed: bool) -> Result<Self> {
        let refuse = |reason: &str, hint: &str| Err(Error::state(path, StateKind::Exists, reason, hint));
        match std::fs::metadata(path) {
            Ok(there) if !there.is_file() && !there.is_dir() => {
                let stream = File::options().write(true).open(path).map_err(Error::io("open", path))?;
                return Ok(Self::Stream(stream));
            }
            Ok(there) if there.is_dir() => return refuse("the output already exists", "name a file in it"),
            Ok(_) if !replace => {
                return refuse("the output already exists", "choose another name, or replace it with --force");
            }
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
                return refuse("it is a link to a file that is not there", "remove the link, or name the file itself");
            }
            _ => {}
        }
        // The target of a link is replaced, not the link.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if folder.join(CURRENT).symlink_metadata().is_ok() {
            let reason = "would be a file of the RocksDB database in the same directory";
            return refuse(reason, "name a file outside of databases");
        }
        let open = || OpenOptions::new().read(true).write(true).mode(MODE).custom_flags(libc::O_TMPFILE).open(folder);
        let (file, named) = match unnamed.then(open) {
            Some(Ok(file)) if link_of(&file).exists() => (file, None),
            _ => {
                let partial = clear_partial(&target)?;
                let file = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&partial);
                let file = file.map_err(Error::io("create", &target))?;
                // Without locks, two processes that write one file are not detected.
                let _ = file.try_lock();
                (file, Some(TempPath::try_from_path(&partial).map_err(Error::io("create", partial))?))
            }
        };
        Ok(Self::File(NewFile { file, named, folder: folder.to_owned(), path: target, replace }))
    }

    pub fn file(&mut self) -> &mut File {
        match self {
            Self::File(new) => &mut new.file,
            Self::Stream(stream) => stream,
        }
    }

    /// Syncs the file, then renames it to its name.
    pub fn commit(self) -> Result<()> {
        let Self::File(NewFile { file, named, path, folder, replace }) = self else { return Ok(()) };
        file.sync_all().map_err(Error::io("sync", &path))?;
        let link = |name: &Path| Ok(linkat(CWD, link_of(&file), CWD, name, AtFlags::SYMLINK_FOLLOW)?);
        // A link replaces nothing; a rename does.
        if named.is_some() || link(&path).is_err() {
            let named = match named {
                Some(named) => Ok(named),
                None => {
                    let partial = clear_partial(&path)?;
                    link(&partial).and_then(|()| TempPath::try_from_path(partial))
                }
            };
            let persist = named.and_then(|named| {
                let named = if replace { named.persist(&path) } else { named.persist_noclobber(&path) };
                Ok(named?)
            });
            persist.map_err(Error::io("rename to", &path))?;
        }
        sync_dir(&folder)
    }
}

/// Returns `FILE.partial` after removing the file that a killed process has left there.
fn clear_partial(path: &Path) -> Result<PathBuf> {
    let partial = path.with_added_extension(PARTIAL);
    let refuse = |reason: &str, hint: &str, kind: StateKind| Err(Error::state(&partial, kind, reason, hint));
    let there = match partial.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(partial),
        there => there.map_err(Error::io("read metadata of", &partial))?,
    };
    if !there.is_file() || there.uid() != rustix::process::geteuid().as_raw() {
        let reason = "is not your file, and the output needs its name until it is complete";
        return refuse(reason, "move it away, or choose another name", StateKind::Exists);
    }
    if open_regular(&partial).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock))) {
        let hint = "wait for that process, or choose another name";
        return refuse("another process is writing it", hint, StateKind::Busy);
    }
    private::remove(&partial)?;
    Ok(partial)
}

/// The path for linking a file without a name.
fn link_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn file_is_named_after_commit() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("new");
        let mut output = Output::create(&path, false).expect("create");
        output.file().write_all(b"whole").expect("write");
        assert!(!path.exists());
        output.commit().expect("commit");
        assert_eq!(std::fs::read(&path).expect("read"), b"whole");
    }

    #[test]
    fn partial_file_replaces_a_leftover_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("new.car");
        let partial = dir.path().join("new.car.partial");
        std::fs::write(&partial, b"what a killed process has left").expect("write");
        let mut output = Output::create_in(&path, false, false).expect("create");
        output.file().write_all(b"whole").expect("write");
        assert_eq!(std::fs::read(&partial).expect("read"), b"whole");
        let refused = Output::create_in(&path, false, false).expect_err("another writes it").to_string();
        assert!(refused.ends_with("new.car.partial: another process is writing it"), "{refused}");
        output.commit().expect("commit");
        assert_eq!(std::fs::read(&path).expect("read"), b"whole");
        drop(Output::create_in(&path, true, false).expect("create"));
        assert!(!partial.exists(), "what is not committed goes");
        // Other files of this name are not removed.
        std::os::unix::fs::symlink(&path, &partial).expect("link");
        let error = Output::create_in(&path, true, false).expect_err("a link");
        assert_eq!(error.exit(), crate::Exit::State, "{error}");
        assert_eq!(std::fs::read(&path).expect("read"), b"whole");
    }

    #[test]
    fn new_file_is_replaced_only_if_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        for replace in [false, true] {
            let path = dir.path().join(replace.to_string());
            let mut output = Output::create(&path, replace).expect("create");
            output.file().write_all(b"new").expect("write");
            std::fs::write(&path, b"old").expect("write");
            assert_eq!(output.commit().is_ok(), replace);
            assert_eq!(std::fs::read(&path).expect("read"), if replace { b"new" } else { b"old" });
        }
        assert_eq!(dir.path().read_dir().expect("list").count(), 2, "nothing is left over");
    }
}
