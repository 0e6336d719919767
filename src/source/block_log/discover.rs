//! Finds the files of a log: a single file, the parts of a split one, or a directory.
//!
//! ```text
//!   block_log_part.0007, ..          Hive: a million blocks each, the oldest ones perhaps deleted
//!   blocks-1-1000.log, .., blocks.log  Antelope: the partitions may be in `retained` and `archive` below
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::{Error, InputKind, Result};
use crate::source::StatedProblem;

/// The prefix of Hive's parts.
const PART: &str = "block_log_part.";
/// The hint for a missing part.
pub(super) const FETCH_PART: &str = "fetch the missing part, or import the blocks before it with --to";

/// Directories below that of `blocks.log` in which Antelope's nodes keep partitions.
const BESIDE: [&str; 2] = ["retained", "archive"];

const SINGLE: [&str; 2] = ["block_log", "blocks.log"];

/// Returns the number in the name of one of Hive's parts.
pub(super) fn part_number(name: &OsStr) -> Option<u32> {
    let digits = name.to_str()?.strip_prefix(PART)?;
    (digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

/// Returns the first and last block in the name of one of Antelope's partitions.
fn partition(name: &OsStr) -> Option<(u32, u32)> {
    let (first, last) = name.to_str()?.strip_prefix("blocks-")?.strip_suffix(".log")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

pub(crate) fn is_set(path: &Path) -> bool {
    let is_stdin = path.as_os_str() == "-";
    (path.is_dir() && !is_stdin)
        || path.file_name().is_some_and(|name| part_number(name).is_some() || partition(name).is_some())
}

/// True if a file of this name is a block log or a part of one.
pub(crate) fn has_log_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        SINGLE.iter().any(|single| name == *single) || part_number(name).is_some() || partition(name).is_some()
    })
}

/// Returns the first file of the log in a directory, even if others are missing.
pub(crate) fn log_in(dir: &Path) -> Option<PathBuf> {
    if !dir.is_dir() {
        return None;
    }
    let part = parts_in(dir).ok().and_then(|parts| parts.into_iter().next()).map(|(_, path)| path);
    part.or_else(|| of_directory(dir).ok()?.into_iter().next())
}

/// Returns the files of the log at `path` in the order of their blocks.
pub(crate) fn discover(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_dir() {
        return of_directory(path);
    }
    let name = path.file_name().unwrap_or_default();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Some(first) = part_number(name) {
        let later = parts_in(dir)?.into_iter().filter(|(number, _)| *number >= first);
        return consecutive(path, later.collect());
    }
    if let Some((first, _)) = partition(name) {
        let mut later = partitions_in(dir)?;
        later.retain(|(begins, _)| *begins >= first);
        later.sort();
        return Ok(later.into_iter().map(|(_, path)| path).collect());
    }
    Ok(vec![path.to_owned()])
}

fn of_directory(dir: &Path) -> Result<Vec<PathBuf>> {
    let parts = parts_in(dir)?;
    if !parts.is_empty() {
        return consecutive(dir, parts);
    }
    let mut partitions = partitions_in(dir)?;
    for below in BESIDE.map(|name| dir.join(name)) {
        if below.is_dir() {
            partitions.extend(partitions_in(&below)?);
        }
    }
    partitions.sort();
    let single = SINGLE.map(|name| dir.join(name)).into_iter().find(|path| path.is_file());
    let files: Vec<PathBuf> = partitions.into_iter().map(|(_, path)| path).chain(single).collect();
    if files.is_empty() {
        let reason = "it is a directory, and has no block_log, block_log_part.NNNN, blocks.log or blocks-A-B.log";
        let hint = "name a file, or the directory of a block log";
        return Err(Error::bad_input(dir, None, StatedProblem::new(InputKind::NotASnapshot, reason, hint)));
    }
    Ok(files)
}

fn names_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = dir.read_dir().map_err(Error::io("list", dir))?;
    entries.map(|entry| Ok(entry.map_err(Error::io("list", dir))?.path())).collect()
}

fn parts_in(dir: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let number = |path: PathBuf| Some((part_number(path.file_name()?)?, path));
    let mut parts: Vec<_> = names_in(dir)?.into_iter().filter_map(number).collect();
    parts.sort();
    Ok(parts)
}

fn partitions_in(dir: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let first = |path: PathBuf| Some((partition(path.file_name()?)?.0, path));
    Ok(names_in(dir)?.into_iter().filter_map(first).collect())
}

fn consecutive(path: &Path, parts: Vec<(u32, PathBuf)>) -> Result<Vec<PathBuf>> {
    for pair in parts.windows(2) {
        let [(before, _), (after, _)] = pair else { continue };
        if *after != before + 1 {
            let reason = format!("the part {PART}{:04} is missing", before + 1);
            return Err(Error::bad_input(path, None, StatedProblem::new(InputKind::Incomplete, reason, FETCH_PART)));
        }
    }
    Ok(parts.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for name in names {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, b"").expect("written");
        }
        dir
    }

    fn found(dir: &Path, name: &str) -> Vec<String> {
        let files = discover(&dir.join(name)).expect("found");
        files.iter().map(|path| path.strip_prefix(dir).expect("inside").display().to_string()).collect()
    }

    #[test]
    fn parts_are_found_by_directory_or_part() {
        let names =
            ["block_log_part.0002", "block_log_part.0003", "block_log_part.0003.artifacts", "block_log_part.0010"];
        let hive = dir(&names[..3]);
        assert_eq!(found(hive.path(), ""), ["block_log_part.0002", "block_log_part.0003"]);
        assert_eq!(found(hive.path(), "block_log_part.0003"), ["block_log_part.0003"]);
        let gap = dir(&names);
        let error = discover(gap.path()).expect_err("a gap");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert_eq!(cause, "the part block_log_part.0004 is missing");
    }

    #[test]
    fn partitions_are_found_in_block_order() {
        let names =
            ["blocks.log", "retained/blocks-101-200.log", "archive/blocks-1-100.log", "blocks.index", "blocks-x-1.log"];
        let antelope = dir(&names);
        let all = ["archive/blocks-1-100.log", "retained/blocks-101-200.log", "blocks.log"];
        assert_eq!(found(antelope.path(), ""), all);
        assert_eq!(found(antelope.path(), "blocks.log"), ["blocks.log"]);
        assert_eq!(found(antelope.path(), "retained/blocks-101-200.log"), ["retained/blocks-101-200.log"]);
        assert!(is_set(antelope.path()) && is_set(Path::new("blocks-1-9.log")) && !is_set(Path::new("blocks.log")));
    }

    #[test]
    fn directory_without_a_log_is_reported() {
        let error = discover(dir(&["something"]).path()).expect_err("none");
        assert_eq!(error.exit(), crate::error::Exit::BadInput);
    }
}
