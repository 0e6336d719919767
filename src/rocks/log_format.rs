//! Checks a database's MANIFEST and WAL files before RocksDB reads them: one flipped bit makes RocksDB loop forever.
//!
//! Both are logs: blocks of 32 KiB of records, each with a header of a masked CRC-32C, a length and a type (RocksDB's
//! wiki, "Write Ahead Log File Format"). Records of some types belong to a reused file and have a longer header.
//! RocksDB's reader (11.12, `ReadPhysicalRecord`) reads the type before the checksum. If a record of a reused file
//! follows one of the other types, it reads that record again forever. This check reads a log as RocksDB does, but
//! reports that record.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::OptionsFile;
use crate::error::{Error, Result, StateKind};
use crate::os::files::{is_same, open_regular};

const BLOCK: usize = 32 << 10;

/// Bytes of a header: checksum, length, type.
const HEADER: usize = 7;

/// Bytes of the header in a reused file, which ends with the number of the file.
const REUSED_HEADER: usize = 11;

/// The most bytes of CURRENT that are read. It contains one file name.
const CURRENT: u64 = 256;

/// True if RocksDB uses files of this name in a database's directory.
pub(crate) fn is_database_file(name: &str) -> bool {
    let numbered = |stem: &str| !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('.') {
        Some((stem, "sst" | "blob" | "log")) => numbered(stem),
        Some((stem, "dbtmp")) => numbered(stem.strip_prefix("OPTIONS-").unwrap_or(stem)),
        _ => {
            ["CURRENT", "IDENTITY", "LOCK", "LOG"].contains(&name)
                || name.starts_with("LOG.old.")
                || ["MANIFEST-", "OPTIONS-"].iter().any(|begin| name.strip_prefix(begin).is_some_and(numbered))
        }
    }
}

/// True if a file with this name may hold a part of the records or options of a database. The others change when a program
/// reads the database.
pub(crate) fn is_content_file(name: &str) -> bool {
    is_database_file(name) && !name.starts_with("LOG") && name != "LOCK"
}

/// Checks the MANIFEST and the WAL files of the database in `dir`, and that all its files are regular: RocksDB would
/// wait for a pipe. A directory without a database passes.
pub(super) fn check(dir: &Path) -> Result<()> {
    for entry in dir.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        let is_other = path.metadata().is_ok_and(|there| !there.is_file());
        if is_other && entry.file_name().to_str().is_some_and(is_database_file) {
            return Err(damaged(&path, "it is not a regular file".into()));
        }
    }
    if let Some(manifest) = manifest(dir)? {
        check_file(&manifest, &Log::Manifest { is_whole: false })?;
    }
    wal_files(dir).into_iter().try_for_each(|(path, number)| check_file(&path, &Log::Wal { number, is_whole: false }))
}

/// Checks that RocksDB reads all of the MANIFEST and of the WAL files. It drops the records after damage without an error.
pub(crate) fn check_logs(dir: &Path) -> Result<()> {
    if let Some(manifest) = manifest(dir)? {
        check_file(&manifest, &Log::Manifest { is_whole: true })?;
    }
    let elsewhere = OptionsFile::latest(dir).ok().and_then(|file| wal_dir(&file));
    if let Some(other) = elsewhere.filter(|other| !is_same(other, dir)) {
        // It may be that of another database, of which this one is a copy.
        let reason = format!("its OPTIONS file names another directory for the WAL, {}", other.display());
        let hint =
            "flush and close the database with its program, then set wal_dir in the newest OPTIONS file to nothing";
        return Err(Error::state(dir, StateKind::Mismatch, reason, hint));
    }
    wal_files(dir).into_iter().try_for_each(|(path, number)| check_file(&path, &Log::Wal { number, is_whole: true }))
}

/// The bytes of the WAL files of the database in `dir`.
pub(crate) fn wal_bytes(dir: &Path) -> u64 {
    wal_files(dir).iter().filter_map(|(path, _)| path.metadata().ok()).map(|there| there.len()).sum()
}

/// The WAL files of the database in `dir`, each with its number. RocksDB reports a missing one.
pub(super) fn wal_files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let elsewhere = OptionsFile::latest(dir).ok().and_then(|file| wal_dir(&file));
    let dirs = std::iter::once(dir.to_owned()).chain(elsewhere.filter(|other| other != dir));
    let paths = dirs.flat_map(|dir| dir.read_dir().into_iter().flatten().flatten()).map(|entry| entry.path());
    paths.filter_map(|path| numbered(&path, "", ".log").map(|number| (path, number))).collect()
}

fn wal_dir(file: &OptionsFile) -> Option<PathBuf> {
    file.db.iter().find(|line| line.name == "wal_dir" && !line.value.is_empty()).map(|line| PathBuf::from(&line.value))
}

/// The MANIFEST that CURRENT names; `None` if it names none, which RocksDB reports.
fn manifest(dir: &Path) -> Result<Option<PathBuf>> {
    let Some(file) = open(&dir.join("CURRENT"))? else { return Ok(None) };
    let mut name = Vec::new();
    file.take(CURRENT).read_to_end(&mut name).map_err(Error::io("read", dir.join("CURRENT")))?;
    let Ok(name) = String::from_utf8(name) else { return Ok(None) };
    let path = dir.join(name.trim_end());
    Ok((path.parent() == Some(dir) && numbered(&path, "MANIFEST-", "").is_some()).then_some(path))
}

fn numbered(path: &Path, begin: &str, end: &str) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix(begin)?.strip_suffix(end)?.parse().ok()
}

/// Opens a file for reading; `None` if it is missing, as while a node replaces it.
fn open(path: &Path) -> Result<Option<File>> {
    match open_regular(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(damaged(path, error.to_string())),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

fn damaged(path: &Path, what: String) -> Error {
    Error::Rocks { action: "read", path: path.to_owned(), message: format!("Corruption: {what}") }
}

/// A file that [`check_log`] checks.
enum Log {
    /// A crash may have cut it, unless it must be whole.
    Manifest { is_whole: bool },
    /// The number of the file is in records of a reused one. Damage is accepted, unless the log must be whole: a crash may have
    /// left any bytes after it.
    Wal { number: u64, is_whole: bool },
}

fn check_file(path: &Path, log: &Log) -> Result<()> {
    let Some(file) = open(path)? else { return Ok(()) };
    match check_log(file, log) {
        Ok(None) => Ok(()),
        Ok(Some((offset, what))) => Err(damaged(path, format!("the record at byte {offset} {what}"))),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Checks the records of a log. Returns the offset of the first fault, and the fault.
fn check_log(mut file: impl Read, log: &Log) -> std::io::Result<Option<(u64, &'static str)>> {
    let (is_strict, is_whole, wal) = match *log {
        Log::Manifest { is_whole } => (true, is_whole, None),
        Log::Wal { number, is_whole } => (is_whole, is_whole, Some(number)),
    };
    let mut block = Vec::with_capacity(BLOCK);
    // True if a whole record was read, and if one of a reused file was read.
    let (mut begun, mut reused) = (false, false);
    for number in 0u64.. {
        block.clear();
        file.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        let is_last = block.len() < BLOCK;
        let mut rest = block.as_slice();
        while let Some(&[a, b, c, d, low, high, kind_of_record]) = rest.first_chunk::<HEADER>() {
            let at = number * BLOCK as u64 + (block.len() - rest.len()) as u64;
            let is_reused = matches!(kind_of_record, 5..=8 | 11 | 131);
            if is_reused && begun && !reused {
                return Ok(Some((at, "is of a type that is not allowed there")));
            }
            reused |= is_reused;
            let header = if is_reused { REUSED_HEADER } else { HEADER };
            let end = header + usize::from(u16::from_le_bytes([low, high]));
            let Some(record) = rest.get(..end) else {
                // At the end of the file, its writer was killed or is still writing.
                if is_strict && (!is_last || is_whole) {
                    return Ok(Some((at, "is longer than its block")));
                }
                break;
            };
            // RocksDB masks the checksum of a record because data may contain checksums.
            let checksum = u32::from_le_bytes([a, b, c, d]).wrapping_sub(0xa282_ead8).rotate_left(15);
            let is_intact = || checksum == crc_fast::crc32_iscsi(&record[HEADER - 1..]);
            if let (Some(owner), Some(number)) = (record.get(HEADER..REUSED_HEADER), wal)
                && is_reused
                && owner != (number as u32).to_le_bytes()
                && (!is_strict || is_intact())
            {
                // The rest are records of the file's former use.
                return Ok(None);
            }
            if kind_of_record == 0 && end == HEADER {
                // Space that was allocated and not written.
                rest = &[];
                break;
            }
            if !is_intact() {
                if is_strict {
                    return Ok(Some((at, "does not match its checksum")));
                }
                break;
            }
            begun |= matches!(kind_of_record, 1 | 4 | 5 | 8);
            rest = &rest[end..];
        }
        if is_last {
            let at = number * BLOCK as u64 + (block.len() - rest.len()) as u64;
            let is_cut = is_whole && rest.iter().any(|byte| *byte != 0);
            return Ok(is_cut.then_some((at, "is cut")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAL: &Log = &Log::Wal { number: 9, is_whole: false };
    const WHOLE: &Log = &Log::Wal { number: 9, is_whole: true };
    const MANIFEST: &Log = &Log::Manifest { is_whole: false };
    const WHOLE_MANIFEST: &Log = &Log::Manifest { is_whole: true };

    /// A record of a type, with a right checksum.
    fn record(kind: u8, owner: Option<u32>, payload: &[u8]) -> Vec<u8> {
        let mut covered = vec![kind];
        covered.extend(owner.into_iter().flat_map(u32::to_le_bytes));
        covered.extend(payload);
        let masked = crc_fast::crc32_iscsi(&covered).rotate_right(15).wrapping_add(0xa282_ead8);
        let mut record = masked.to_le_bytes().to_vec();
        record.extend((payload.len() as u16).to_le_bytes());
        record.extend(covered);
        record
    }

    fn check(bytes: &[u8], log: &Log) -> Option<(u64, &'static str)> {
        check_log(bytes, log).expect("it is in memory")
    }

    /// Two full records, and where the second one begins.
    fn two() -> (Vec<u8>, usize) {
        let first = record(1, None, b"the first");
        let second = first.len();
        ([first, record(1, None, b"the second")].concat(), second)
    }

    #[test]
    fn manifest_flips_are_found_and_cuts_accepted() {
        let (log, second) = two();
        assert_eq!(check(&log, MANIFEST), None);
        for bit in 0..log.len() * 8 {
            let mut log = log.clone();
            log[bit / 8] ^= 1 << (bit % 8);
            let at = if bit / 8 < second { 0 } else { second };
            let length = bit / 8 - at == 4 || bit / 8 - at == 5;
            match check(&log, MANIFEST) {
                Some((found, _)) => assert_eq!(found, at as u64, "bit {bit}"),
                // A length beyond the end, or a first record of a file that is reused, is left to RocksDB.
                None => assert!(length || bit / 8 == 6, "bit {bit} is not found"),
            }
        }
        for cut in 0..log.len() {
            assert_eq!(check(&log[..cut], MANIFEST), None, "cut at {cut}");
        }
    }

    #[test]
    fn whole_logs_have_no_flip_and_no_cut() {
        let (log, second) = two();
        assert_eq!(check(&log, WHOLE), None);
        assert!((1..log.len()).all(|cut| cut == second || check(&log[..cut], WHOLE_MANIFEST).is_some()));
        for bit in 0..log.len() * 8 {
            let mut log = log.clone();
            log[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&log, WHOLE).is_some(), "bit {bit}");
        }
        for cut in (1..log.len()).filter(|cut| *cut != second) {
            assert!(check(&log[..cut], WHOLE).is_some(), "cut at {cut}");
        }
    }

    #[test]
    fn recycled_record_types_are_checked() {
        for kind in [5, 6, 7, 8, 11, 131] {
            let (mut log, second) = two();
            log[second + 6] = kind;
            let found = Some((second as u64, "is of a type that is not allowed there"));
            assert_eq!((check(&log, WAL), check(&log, MANIFEST)), (found, found));
        }
        let reused = [record(5, Some(9), b"one"), record(1, None, b"two"), record(5, Some(9), b"three")].concat();
        assert_eq!(check(&reused, WAL), None);
        let older = [record(5, Some(9), b"one"), record(5, Some(8), b"from before"), vec![0xff; 100]].concat();
        assert_eq!(check(&older, WAL), None);
    }

    #[test]
    fn damaged_wal_block_is_skipped() {
        let (mut log, second) = two();
        log[second + HEADER] ^= 1;
        log.resize(BLOCK, 0);
        log.extend(two().0);
        assert_eq!(check(&log, WAL), None);
        assert_eq!(check(&log, MANIFEST), Some((second as u64, "does not match its checksum")));
        log[BLOCK + second + 6] = 5;
        assert_eq!(check(&log, WAL), Some(((BLOCK + second) as u64, "is of a type that is not allowed there")));
    }
}
