//! Checks of a database before RocksDB opens it.

use std::io::ErrorKind;
use std::path::Path;

use super::OptionsFile;
use super::options::check_threads;
use crate::error::{Error, Result, StateKind};
use crate::os::files::{open_regular, read_at_most};
use crate::source::foreign::is_snapshot;

/// The last bytes of a table of LevelDB. RocksDB wrote such tables before 4.6, and reads none since 11.0.
const LEVELDB_MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// That of RocksDB's.
const TABLE_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;

/// The formats of tables that an OPTIONS file may name.
const TABLE_FORMATS: [&str; 3] = ["BlockBasedTable", "PlainTable", "CuckooTable"];

pub(crate) fn no_database(path: &Path) -> Error {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let found = path.metadata();
    let inside = path.join("CURRENT").symlink_metadata();
    let refusal = found.as_ref().err().or(inside.as_ref().err());
    if refusal.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        return Error::io("read", path)(ErrorKind::PermissionDenied.into());
    }
    let is_unfinished = path.extension().is_some_and(|ending| ending == "partial") && path.join("journal").exists();
    let make = "`bedload import` makes a database from it";
    let resume = "run the same `bedload import` command again to finish the import";
    let other = "name the directory that an import made";
    let state = |reason: &str, hint: &str| Error::state(path, StateKind::NoDatabase, reason, hint.to_owned());
    match found {
        Ok(there) if there.is_file() && is_snapshot(path) => state("is a snapshot, not a database", make),
        Ok(there) if there.is_file() => state("is a file, not a database", make),
        Ok(_) if is_unfinished => state("is an unfinished import, not a database", resume),
        Ok(_) => state("is not a RocksDB database", other),
        Err(error) if error.kind() == ErrorKind::NotFound && Path::new(&partial).is_dir() => {
            state("there is no such directory", &format!("its import is not finished: {resume}"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => state("there is no such directory", other),
        Err(error) => state(&format!("cannot be read as a database: {error}"), other),
    }
}

/// True if `path` is the directory of a database.
pub(crate) fn is_database(path: &Path) -> bool {
    path.join("CURRENT").symlink_metadata().is_ok()
}

/// Refuses a database of LevelDB. RocksDB opens it and finds no record.
pub(super) fn check_is_no_leveldb(path: &Path) -> Result<()> {
    let ends_with = |path: &Path, end| path.extension().is_some_and(|found| found == end);
    let mut paths = path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    // All tables of a database have one format, unless it is very old.
    let Some(table) = paths.find(|path| ends_with(path, "ldb") || ends_with(path, "sst")) else { return Ok(()) };
    // RocksDB reports files that cannot be read.
    if !ends_with(&table, "ldb") && magic_of(&table).ok() != Some(LEVELDB_MAGIC) {
        return Ok(());
    }
    let reason = "has the tables of LevelDB, which RocksDB 11 does not read";
    let hint = "`ldb --db=DIR --hex dump` of a RocksDB between 4.6 and 10 reads them; `bedload import` does not yet";
    Err(Error::state(path, StateKind::NoDatabase, reason, hint))
}

/// The last 8 bytes of a table file.
fn magic_of(table: &Path) -> std::io::Result<u64> {
    let file = open_regular(table)?;
    let mut magic = [0; 8];
    let from = file.metadata()?.len().saturating_sub(8);
    read_at_most(&file, &mut magic, from)?;
    Ok(u64::from_le_bytes(magic))
}

/// True if a table file was written to its end, or is unreadable. A program that was killed leaves one that was not.
pub(super) fn is_whole_table(table: &Path) -> bool {
    magic_of(table).map_or(true, |magic| magic == TABLE_MAGIC)
}

/// Checks causes of crashes: an OPTIONS file that is not text, a table format that RocksDB does not know (null
/// pointers), and threads that the system refuses. Returns the OPTIONS file.
pub(super) fn check_options(path: &Path) -> Result<OptionsFile> {
    // RocksDB does without the file.
    let file = OptionsFile::of_database(path)?.unwrap_or_default();
    let unknown = |format: &&String| !TABLE_FORMATS.contains(&format.as_str());
    if let Some(format) = file.families.iter().filter_map(|family| family.table_format.as_ref()).find(unknown) {
        let message = format!("Corruption: RocksDB has no table format `{format}`");
        return Err(Error::Rocks { action: "read the options of", path: path.to_owned(), message });
    }
    check_threads(&file.families.first().map(|family| file.options(family)).unwrap_or_default())?;
    Ok(file)
}
