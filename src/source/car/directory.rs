//! The CARs in a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::CarProblem;
use crate::error::{Error, Result};

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
            return Err(Error::bad_input(&path, None, CarProblem::NoFileInDirectory));
        }
        found.push(path);
    }
    found.sort();
    Ok(found)
}

/// Returns the error for a directory without a snapshot, which may be a database.
pub(crate) fn no_snapshot_in(dir: &Path) -> Error {
    let is_database = dir.join("CURRENT").exists();
    let database = || CarProblem::Database { dir: dir.to_owned() };
    Error::bad_input(dir, None, if is_database { database() } else { CarProblem::NothingInDirectory })
}
