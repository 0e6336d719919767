//! The CARs in a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, InputKind, Result};
use crate::source::StatedProblem;
use crate::text::escape::shell_word;

/// Endings of the names of CARs, compressed or not.
const ENDINGS: [&[u8]; 5] = [b".car", b".car.zst", b".car.gz", b".car.xz", b".car.lz4"];

/// True if a path is named like a CAR, whether it exists or not.
pub(crate) fn has_car_name(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let ends =
        |ending: &&[u8]| name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending);
    // Hidden files are unfinished downloads; `*.car` of a shell leaves them out too.
    !name.starts_with(b".") && ENDINGS.iter().any(ends)
}

/// Returns the files of a directory that are named like CARs, in the order of their names.
pub(crate) fn cars_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        if !has_car_name(&path) || path.is_dir() {
            continue;
        }
        // A pipe, or a link to a volume that is not mounted, must not be left out silently.
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            let hint = "move it out of the directory, or name the files";
            let reason = "it is named like a CAR, but is not a file";
            return Err(Error::bad_input(&path, None, StatedProblem::new(InputKind::NotASnapshot, reason, hint)));
        }
        found.push(path);
    }
    found.sort();
    Ok(found)
}

/// Returns the error for a directory without a snapshot, which may be a database.
pub(crate) fn no_snapshot_in(dir: &Path) -> Error {
    let problem = if dir.join("CURRENT").exists() {
        let dir = shell_word(dir);
        let hint = format!(
            "bedload import {dir} --db NEW copies it, bedload verify {dir} checks it, bedload stat {dir} describes it"
        );
        StatedProblem::new(InputKind::NotASnapshot, "it is a RocksDB database, not a snapshot", hint)
    } else if dir.join("IDENTITY").exists() || dir.join("LOCK").exists() {
        let reason = "it has files of a RocksDB database, but no CURRENT";
        StatedProblem::new(InputKind::NotASnapshot, reason, "restore CURRENT from a backup: it names the MANIFEST")
    } else {
        let reason = "no CAR (*.car, *.car.zst, *.car.gz, *.car.xz, *.car.lz4) and no block log is in this directory";
        let hint = "name the files, also streams of records; bedload does not search subdirectories";
        StatedProblem::new(InputKind::NotASnapshot, reason, hint)
    };
    Error::bad_input(dir, None, problem)
}
