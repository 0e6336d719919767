//! Temporary files of the measurements: a file without a name, and a directory for a sample. The directory is removed with its
//! contents; the one of a killed process is removed by the next process.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};
use crate::os::scratch_dir::{self, ScratchDir};

/// Prefix of the directories' names, before random characters.
const PREFIX: &str = ".bedload-doctor-";

/// Makes a file without a name in `dir`.
pub(super) fn nameless(dir: &Path) -> Result<File> {
    scratch_dir::sweep(dir, PREFIX);
    tempfile::tempfile_in(dir).map_err(Error::io("write in", dir))
}

/// Makes a directory in `dir`, which is removed with its contents when it is dropped.
pub(super) fn directory(dir: &Path) -> Result<ScratchDir> {
    ScratchDir::create(dir, PREFIX).map_err(Error::io("write in", dir))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt, FileExt};

    use super::*;

    #[test]
    fn nameless_file_sweeps_leftovers() {
        let dir = tempfile::tempdir().expect("a directory");
        let left = dir.path().join(".bedload-doctor-a1B2c3");
        std::fs::DirBuilder::new().mode(0o700).create(&left).expect("created");
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
    fn unwritable_directory_is_an_error() {
        let error = nameless(Path::new("/proc/self")).expect_err("not there");
        assert_eq!(error.to_string(), "cannot write in /proc/self");
    }
}
