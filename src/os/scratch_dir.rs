//! Short-lived directories in places that processes share.
//!
//! Each process locks its directory, so the next process of the same user can remove it if the first was killed.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::os::private;

/// Random letters and digits of a name.
const RANDOM: usize = 6;

/// A locked directory, which drop deletes.
pub(crate) struct ScratchDir {
    pub dir: PathBuf,
    _held: File,
}

impl ScratchDir {
    /// Creates a directory in `place` whose name begins with `prefix`, after a [`sweep`].
    pub fn create(place: &Path, prefix: &str) -> std::io::Result<Self> {
        sweep(place, prefix);
        loop {
            let owner_only = std::fs::Permissions::from_mode(0o700);
            let dir =
                tempfile::Builder::new().prefix(prefix).rand_bytes(RANDOM).permissions(owner_only).tempdir_in(place)?;
            // Another process may sweep the directory before it is locked.
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
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // A later process tries again.
        let _ = private::remove_dir(&self.dir, |_| true);
    }
}

/// Opens a directory without following links.
pub(crate) fn open(dir: &Path) -> Result<File, Errno> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir, how, Mode::empty()).map(File::from)
}

/// True if `path` still names the opened directory.
fn is_still(path: &Path, opened: &File) -> bool {
    let (Ok(there), Ok(here)) = (path.symlink_metadata(), opened.metadata()) else { return false };
    (there.dev(), there.ino()) == (here.dev(), here.ino())
}

/// Removes the unlocked directories of this user with such a name, which are closed to others as [`ScratchDir`] makes them.
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
        let is_ours = opened.metadata().is_ok_and(|dir| dir.uid() == uid && dir.mode() & 0o777 == 0o700);
        if is_ours && flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() && is_still(&path, &opened) {
            // A later process tries again.
            let _ = private::remove_dir(&path, |_| true);
        }
    }
}
