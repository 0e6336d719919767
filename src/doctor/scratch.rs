//! The one file that measuring writes. It has no name: whatever ends the program, the system takes it away.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::{Error, Result};

/// How the file is named for an instant, where files without a name cannot be made.
const PREFIX: &str = ".bedload-doctor-";

/// Makes a file without a name in `dir`, for reading and writing.
///
/// # Errors
/// Nothing can be written there.
pub(super) fn nameless(dir: &Path) -> Result<File> {
    sweep(dir);
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        // NFS and some others: made and unlinked in one breath.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {
            tempfile::Builder::new()
                .prefix(PREFIX)
                .tempfile_in(dir)
                .and_then(|named| {
                    let (file, path) = named.into_parts();
                    path.close().map(|()| file)
                })
                .map_err(Error::io("write in", dir))
        }
        Err(error) => Err(Error::io("write in", dir)(error.into())),
    }
}

/// Removes what was left in the instant in which a file had a name.
fn sweep(dir: &Path) {
    for entry in dir.read_dir().into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            // What cannot be removed is somebody else's.
            let _ = std::fs::remove_file(entry.path());
        }
    }
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
        std::fs::write(dir.path().join(".bedload-doctor-old"), "x").expect("written");
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
