//! Directories and files that no other user can have prepared.
//!
//! Other users can predict the names of an import, and may write to the directory above. A directory is used only if it
//! belongs to this user, is not a link, and no other user can write to it. Files are opened without following links.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::{Error, Result, StateKind};
use crate::os::file_system::is_mount_point;

const MODE: u32 = 0o700;

const OTHERS_WRITE: u32 = 0o022;

/// Creates a directory, or accepts the existing one.
pub(crate) fn create_dir(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map_err(Error::io("create", path)),
    }
    let there = path.symlink_metadata().map_err(Error::io("read metadata of", path))?;
    refusal(path, &there).map_or(Ok(()), Err)
}

/// True if a path is a directory that only this user can have filled.
pub(crate) fn is_own_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|there| refusal(path, &there).is_none())
}

/// The error for a path that other users may have prepared; `None` if they cannot have.
fn refusal(path: &Path, there: &Metadata) -> Option<Error> {
    let refuse = |reason: String| {
        let hint = "bedload uses only a directory of its own user there: inspect and remove it, or work elsewhere";
        Some(Error::State { path: path.to_owned(), kind: StateKind::Other, reason, hint: hint.into() })
    };
    if !there.is_dir() {
        return refuse(format!("is {}, not a directory", kind(there)));
    }
    let own = rustix::process::geteuid().as_raw();
    if there.uid() == own && there.mode() & OTHERS_WRITE == 0 {
        return None;
    }
    // On some file systems every directory has the same owner and mode. A new directory shows that.
    let made = tempfile::Builder::new().permissions(Permissions::from_mode(MODE)).tempdir_in(path);
    if let Ok(ours) = made.and_then(|made| made.path().symlink_metadata())
        && there.uid() == ours.uid()
        && there.mode() & OTHERS_WRITE & !ours.mode() == 0
    {
        return None;
    }
    if there.uid() == own {
        return refuse(format!("may be written to by other users (mode {:o})", there.mode() & 0o7777));
    }
    refuse(format!("belongs to user {}, not to user {own}", there.uid()))
}

/// Opens a file for reading and writing; `create` creates a missing one.
pub(crate) fn open_file(path: &Path, create: bool) -> Result<File> {
    let mut options = File::options();
    open(options.write(true).create(create), path)
}

pub(crate) fn read_file(path: &Path) -> Result<File> {
    open(&mut File::options(), path)
}

fn open(options: &mut std::fs::OpenOptions, path: &Path) -> Result<File> {
    // NONBLOCK, so that a named pipe does not block.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match options.read(true).custom_flags(flags).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) => {
            return Err(match path.symlink_metadata() {
                Ok(there) if !there.is_file() => no_file(path, &there),
                _ => Error::io("open", path)(error),
            });
        }
    };
    let there = file.metadata().map_err(Error::io("read metadata of", path))?;
    if !there.is_file() {
        return Err(no_file(path, &there));
    }
    if there.nlink() > 1 {
        return Err(Error::damaged_work(path, "has a file here that has another name too"));
    }
    Ok(file)
}

fn no_file(path: &Path, there: &Metadata) -> Error {
    Error::damaged_work(path, format!("has {} here, not a file", kind(there)))
}

pub(crate) fn kind(there: &Metadata) -> &'static str {
    match there.file_type() {
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_file() => "a file",
        _ => "a special file",
    }
}

/// Removes a file or an empty directory without following links. A missing file is no error.
pub(crate) fn remove(path: &Path) -> Result<()> {
    remove_dir(path, |_| false)
}

/// Removes a directory with all files whose name `is_ours`. Other files and mount points stay.
pub(crate) fn remove_dir(path: &Path, is_ours: fn(&str) -> bool) -> Result<()> {
    let mut skipped = None;
    remove_below(path, is_ours, &mut skipped)?;
    skipped.map_or(Ok(()), |mount: PathBuf| Err(is_mounted(&mount)))
}

pub(crate) fn is_mounted(mount: &Path) -> Error {
    let hint = format!("unmount it (umount {}), then run the same command again", mount.display());
    Error::state(mount, StateKind::Other, "is a mount point: nothing in it is removed", hint)
}

/// Returns the path if it is a mount point, or the first mount point below it.
pub(crate) fn first_mount(path: &Path) -> Option<PathBuf> {
    if is_mount_point(path) {
        return Some(path.to_owned());
    }
    let is_dir = path.symlink_metadata().is_ok_and(|there| there.is_dir());
    let entries = is_dir.then(|| path.read_dir().ok()).flatten();
    entries.into_iter().flatten().flatten().find_map(|entry| first_mount(&entry.path()))
}

fn remove_below(path: &Path, is_ours: fn(&str) -> bool, skipped: &mut Option<PathBuf>) -> Result<()> {
    if is_mount_point(path) {
        skipped.get_or_insert_with(|| path.to_owned());
        return Ok(());
    }
    let removed = match path.symlink_metadata() {
        Ok(there) if there.is_dir() => {
            for entry in path.read_dir().map_err(Error::io("list", path))? {
                let entry = entry.map_err(Error::io("list", path))?;
                if entry.file_name().to_str().is_some_and(is_ours) {
                    remove_below(&entry.path(), is_ours, skipped)?;
                }
            }
            std::fs::remove_dir(path)
        }
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
