//! What measuring writes: a file that has no name, so that the system removes it however the program ends, and a directory
//! for a sample of the snapshot, which is removed with its contents; that of a killed process is removed by the next one.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};
use crate::os::scratch_dir::{self, ScratchDir};

/// How the directories are named, before random letters and digits.
const PREFIX: &str = ".bedload-doctor-";

/// Makes a file without a name in `dir`, for reading and writing.
///
/// # Errors
/// [`Error::Io`] when nothing can be written there.
pub(super) fn nameless(dir: &Path) -> Result<File> {
    scratch_dir::sweep(dir, PREFIX);
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        // NFS and some others: the file has a name for as long as its directory lives, which is removed at once.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {
            let parent = directory(dir)?;
            tempfile::tempfile_in(parent.path()).map_err(Error::io("write in", dir))
        }
        Err(error) => Err(Error::io("write in", dir)(error.into())),
    }
}

/// Makes a directory in `dir`, which is removed with all that is in it when it is dropped.
///
/// # Errors
/// [`Error::Io`] when nothing can be written there.
pub(super) fn directory(dir: &Path) -> Result<ScratchDir> {
    ScratchDir::create(dir, PREFIX).map_err(Error::io("write in", dir))
}

/// Switches the page cache off for a file; `false` where the file system does not do that.
pub(super) fn pass_the_cache(file: &File, pass: bool) -> bool {
    let Ok(flags) = rustix::fs::fcntl_getfl(file.as_fd()) else { return false };
    let flags = if pass { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
    rustix::fs::fcntl_setfl(file.as_fd(), flags).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_file_has_no_name_and_what_was_left_is_swept() {
        let dir = tempfile::tempdir().expect("a directory");
        let left = dir.path().join(".bedload-doctor-a1B2c3");
        std::fs::create_dir(&left).expect("created");
        std::fs::write(left.join("journal"), "x").expect("written");
        std::fs::write(dir.path().join("other"), "x").expect("written");
        let file = nameless(dir.path()).expect("made");
        file.write_all_at(b"bytes", 0).expect("written");
        let mut back = [0; 5];
        file.read_exact_at(&mut back, 0).expect("read");
        assert_eq!(&back, b"bytes");
        let names: Vec<_> =
            dir.path().read_dir().expect("listed").map(|entry| entry.expect("one").file_name()).collect();
        assert_eq!(names, ["other"]);
    }

    #[test]
    fn where_nothing_can_be_written_it_says_so() {
        let error = nameless(Path::new("/proc/self")).expect_err("not there");
        assert_eq!(error.to_string(), "write in /proc/self");
    }
}
