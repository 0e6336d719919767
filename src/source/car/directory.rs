//! The CARs in a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::CarProblem;
use crate::error::{Error, Result};

/// What the names of CARs end in, compressed or not.
const ENDINGS: [&[u8]; 5] = [b".car", b".car.zst", b".car.gz", b".car.xz", b".car.lz4"];

/// The files of a directory that are named like CARs, in the order of their names; at least one.
///
/// # Errors
/// [`Error::BadInput`]: there is none, or the directory is a database; [`Error::Io`]: it cannot be listed.
pub(crate) fn cars_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let is_car = |ending: &&[u8]| {
            name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending)
        };
        // Hidden files are unfinished downloads, as a shell's `*.car` leaves them out too; so are folders of any name.
        if name.starts_with(b".") || !ENDINGS.iter().any(is_car) || path.is_dir() {
            continue;
        }
        // Left out, a pipe would be missing in silence, and so would a link to a volume that is not mounted.
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            return Err(Error::bad_input(&path, None, CarProblem::NoFileInDirectory));
        }
        found.push(path);
    }
    if found.is_empty() {
        let problem = match dir.join("CURRENT").exists() {
            true => CarProblem::Database { dir: dir.to_owned() },
            false => CarProblem::NothingInDirectory,
        };
        return Err(Error::bad_input(dir, None, problem));
    }
    found.sort();
    Ok(found)
}
