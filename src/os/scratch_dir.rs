//! Short-lived directories in places that processes share.
//!
//! A killed process leaves its directory. Each process locks its own, so the next one recognizes and removes what processes
//! of the same user have left: never a directory in use, and never one of another user.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::os::private;

/// Random letters and digits of a name.
const RANDOM: usize = 6;

/// A locked directory, which is deleted when this is dropped.
pub(crate) struct ScratchDir {
    dir: PathBuf,
    /// Open and locked.
    _held: File,
}

impl ScratchDir {
    /// Creates a directory in `place` whose name begins with `prefix`, and removes what killed processes of this user
    /// have left there under such names.
    pub fn create(place: &Path, prefix: &str) -> std::io::Result<Self> {
        sweep(place, prefix);
        loop {
            let owner_only = std::fs::Permissions::from_mode(0o700);
            let dir =
                tempfile::Builder::new().prefix(prefix).rand_bytes(RANDOM).permissions(owner_only).tempdir_in(place)?;
            // Missing, locked or another one: swept by another process before it was locked here.
            let opened = match open(dir.path()) {
                Err(Errno::NOENT) => None,
                opened => Some(opened?),
            };
            let held = opened.filter(|file| match flock(file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => false,
                // On a file system without locks nothing is swept.
                Ok(()) | Err(_) => is_still(dir.path(), file),
            });
            match held {
                Some(held) => return Ok(Self { dir: dir.keep(), _held: held }),
                None => drop(dir.keep()),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // The next process removes what cannot be removed now.
        let _ = private::remove_dir(&self.dir, |_| true);
    }
}

/// Opens a directory; a link to one is an error.
pub(crate) fn open(dir: &Path) -> Result<File, Errno> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir, how, Mode::empty()).map(File::from)
}

/// Whether `path` still names the directory that was opened.
fn is_still(path: &Path, opened: &File) -> bool {
    let (Ok(there), Ok(here)) = (path.symlink_metadata(), opened.metadata()) else { return false };
    (there.dev(), there.ino()) == (here.dev(), here.ino())
}

/// Removes what killed processes of this user have left: directories with a name of this form that are not locked.
pub(crate) fn sweep(place: &Path, prefix: &str) {
    for entry in place.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(prefix)).unwrap_or_default();
        if random.len() != RANDOM || !random.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            continue;
        }
        let path = entry.path();
        let Ok(opened) = open(&path) else { continue };
        let uid = rustix::process::geteuid().as_raw();
        let is_ours = opened.metadata().is_ok_and(|dir| dir.uid() == uid);
        if is_ours && flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() && is_still(&path, &opened) {
            // What cannot be removed stays for a later process.
            let _ = private::remove_dir(&path, |_| true);
        }
    }
}
