//! The files of a database and of its backup.

use std::fs::File;
use std::hash::Hasher;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use rustix::io::Errno;
use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::load::target::SUMS;
use crate::os::files::{UNFINISHED, open_regular, unfinished_name};
use crate::rocks::{Reader, ReaderOptions, is_database_file};
use crate::schema::RECORD_FILE;

const PIECE: usize = 256 << 10;

/// The kind of a database's file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Never changed once it is written: a link keeps it.
    Data,
    /// Appended to or replaced: a copy keeps it.
    Small,
    /// Useless in a database that no process has open.
    Scrap,
}

impl FileKind {
    /// `None` for foreign files, and for RocksDB's lock and its own log.
    fn of(name: &str) -> Option<Self> {
        if name.ends_with(UNFINISHED) {
            return Some(Self::Scrap);
        }
        if name != RECORD_FILE && !is_database_file(name) {
            return None;
        }
        match name.rsplit_once('.') {
            Some((_, "sst" | "blob")) => Some(Self::Data),
            Some((_, "dbtmp")) => Some(Self::Scrap),
            _ => (name != "LOCK" && !name.starts_with("LOG")).then_some(Self::Small),
        }
    }
}

/// True if RocksDB finds all files of the database in `dir`. An error of the system says nothing about the database.
pub(in crate::load) fn opens(dir: &Path) -> Result<bool> {
    match Reader::open(dir, &ReaderOptions::once()).and_then(|found| found.files()) {
        Ok(_) => Ok(true),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        Err(error @ Error::Io { .. }) => Err(error),
        Err(_) => Ok(false),
    }
}

pub(super) fn newest_manifest(dir: &Path) -> Result<Option<String>> {
    let names = files(dir)?.into_iter().map(|(name, _)| name).filter(|name| name.starts_with("MANIFEST-"));
    // Numbers have six digits, or more beyond a million.
    Ok(names.max_by_key(|name| (name.len(), name.clone())))
}

/// The files in a database's directory that are part of it.
pub(super) fn files(dir: &Path) -> Result<Vec<(String, FileKind)>> {
    let mut found = Vec::new();
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let name = entry.map_err(Error::io("list", dir))?.file_name();
        found.extend(name.to_str().and_then(|name| Some((name.to_owned(), FileKind::of(name)?))));
    }
    Ok(found)
}

/// Links a file. Copies it if the file system has no links, or if `to` is on another one.
pub(super) fn link(from: &Path, to: &Path) -> Result<()> {
    match std::fs::hard_link(from, to).map_err(|error| (Errno::from_io_error(&error), error)) {
        Ok(()) => Ok(()),
        Err((Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::PERM | Errno::MLINK), _)) => put(from, to),
        Err((_, error)) => Err(Error::io("link", to)(error)),
    }
}

/// True if a backup has all its files unchanged. An incomplete one could lose records of the WAL.
pub(super) fn is_whole(backup: &Path) -> bool {
    let compare = || {
        let sums = std::fs::read_to_string(backup.join(SUMS)).ok()?;
        let is_right = |line: &str| {
            let (sum, name) = line.split_once(' ')?;
            let path = backup.join(name);
            let found = match FileKind::of(name)? {
                FileKind::Data => path.metadata().ok()?.len(),
                FileKind::Small => copy_to(&path, std::io::sink()).ok()?,
                FileKind::Scrap => return None,
            };
            (u64::from_str_radix(sum, 16) == Ok(found)).then_some(())
        };
        sums.lines().try_for_each(is_right)?;
        Some(files(backup).ok()?.len() == sums.lines().count())
    };
    compare() == Some(true)
}

/// Checks that a backup has all its files unchanged.
pub(super) fn check_whole(backup: &Path) -> Result<()> {
    let damaged = || Error::damaged_work(backup, "is damaged: its files are not what was put there");
    if is_whole(backup) { Ok(()) } else { Err(damaged()) }
}

/// Copies a file and syncs the copy. Returns the checksum of the bytes.
pub(super) fn copy(from: &Path, to: &Path) -> Result<u64> {
    let mut file = File::create(to).map_err(Error::io("create", to))?;
    let sum = copy_to(from, &mut file).map_err(Error::io("copy", from))?;
    let permissions = from.metadata().map_err(Error::io("read metadata of", from))?.permissions();
    file.set_permissions(permissions).and_then(|()| file.sync_all()).map_err(Error::io("sync", to))?;
    Ok(sum)
}

fn copy_to(from: &Path, mut to: impl Write) -> std::io::Result<u64> {
    let mut from = open_regular(from)?;
    let mut buffer = vec![0; PIECE];
    let mut sum = XxHash3_64::new();
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(sum.finish());
        }
        sum.write(&buffer[..len]);
        to.write_all(&buffer[..len])?;
    }
}

/// Replaces a file by a copy of another, atomically.
pub(super) fn put(from: &Path, to: &Path) -> Result<()> {
    let making = unfinished_name(to);
    copy(from, &making)?;
    std::fs::rename(&making, to).map_err(Error::io("replace", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_handles_only_database_files() {
        for (name, kind) in [
            ("000012.sst", Some(FileKind::Data)),
            ("000013.blob", Some(FileKind::Data)),
            ("000014.log", Some(FileKind::Small)),
            ("MANIFEST-000005", Some(FileKind::Small)),
            ("OPTIONS-000007", Some(FileKind::Small)),
            ("CURRENT", Some(FileKind::Small)),
            ("IDENTITY", Some(FileKind::Small)),
            ("BEDLOAD.json", Some(FileKind::Small)),
            ("000020.dbtmp", Some(FileKind::Scrap)),
            ("CURRENT.bedload", Some(FileKind::Scrap)),
            ("LOCK", None),
            ("LOG", None),
            ("LOG.old.17", None),
            ("mine.sst", None),
            ("MANIFEST-x", None),
            (".sst", None),
            ("README", None),
        ] {
            assert_eq!(FileKind::of(name), kind, "{name}");
        }
    }
}
