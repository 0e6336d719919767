//! The keys that are looked up, the same ones in all databases of a comparison.
//!
//! They are drawn once, from the first finished database, every record with the same chance. The file has one key a line, in
//! hex. A missing key is made from an existing one.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use crate::error::{Error, Result};
use crate::generate::Noise;
use crate::os::files::open_regular;
use crate::report::ImportReport;
use crate::rocks::{Reader, ReaderOptions};

/// The most keys that are drawn.
pub const MAX_KEYS: u64 = 10_000_000;

/// The longest key of a file, in bytes.
const MAX_KEY: usize = 4096;

/// Shorter keys, in bytes, are consecutive numbers: a changed one probably exists.
const SHORT: usize = 16;

/// Draws `count` keys of the column family, or all if it has fewer, and writes them to `file` in random order.
///
/// # Errors
/// [`Error::State`]: there is no database or no such column family; [`Error::Rocks`] or [`Error::Io`]: it is unreadable,
/// or the file is not writable.
pub fn sample(db: &Path, family: &str, count: u64, seed: u64, file: &Path) -> Result<u64> {
    let reader = Reader::open(db, &ReaderOptions::once())?;
    let mut noise = Noise::new(seed, 0);
    let keep = usize::try_from(count.min(MAX_KEYS)).unwrap_or(usize::MAX);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut scan = reader.scan(family, None, None)?;
    let mut seen = 0_u64;
    while let Some((key, _)) = scan.item() {
        seen += 1;
        // Reservoir sampling: all records have the same chance.
        if kept.len() < keep {
            kept.push(key.to_vec());
        } else if let Some(place) = kept.get_mut(usize::try_from(noise.below(seen)).unwrap_or(usize::MAX)) {
            place.clear();
            place.extend_from_slice(key);
        }
        scan.next();
    }
    scan.status()?;
    for at in (1..kept.len()).rev() {
        kept.swap(at, usize::try_from(noise.below(at as u64 + 1)).unwrap_or(0));
    }
    let write = || {
        let mut out = BufWriter::new(File::create(file)?);
        for key in &kept {
            writeln!(out, "0x{}", HEXLOWER.encode(key))?;
        }
        out.flush()
    };
    write().map_err(Error::io("write", file))?;
    Ok(kept.len() as u64)
}

/// Loads keys.
///
/// # Errors
/// [`Error::Io`]: the file is unreadable; [`Error::Usage`]: a line is not a key.
pub(super) fn load(file: &Path) -> Result<Vec<Vec<u8>>> {
    let lines = BufReader::new(open_regular(file).map_err(Error::io("open", file))?).lines();
    let wrong = |line: usize| {
        Error::usage(format!("{}:{line}: this is not a key in hex", file.display()), "write one key a line, in hex")
    };
    let mut keys = Vec::new();
    for (index, line) in lines.enumerate() {
        let line = line.map_err(Error::io("read", file))?;
        if line.len() > 2 * MAX_KEY + 2 || keys.len() as u64 >= MAX_KEYS {
            return Err(wrong(index + 1));
        }
        if line.is_empty() {
            continue;
        }
        keys.push(
            HEXLOWER_PERMISSIVE
                .decode(line.strip_prefix("0x").unwrap_or(&line).as_bytes())
                .map_err(|_| wrong(index + 1))?,
        );
    }
    Ok(keys)
}

/// Returns a missing key next to an existing one.
pub(super) fn missing_key(key: &[u8]) -> Vec<u8> {
    let mut other = key.to_vec();
    match other.last_mut() {
        // No block has this digest.
        Some(last) if key.len() >= SHORT => *last ^= 0x55,
        _ => other.push(0),
    }
    other
}

/// Returns the column family of the import's record, or `default`. That of a copied database is its largest one.
pub fn family_of(db: &Path) -> Result<String> {
    Ok(ImportReport::load(db)?.map_or_else(|| "default".into(), |record| record.column_family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_are_near_existing_ones() {
        let digest: Vec<u8> = (0..38).collect();
        let other = missing_key(&digest);
        assert_eq!((other.len(), &other[..37]), (38, &digest[..37]));
        assert_ne!(other, digest);
        assert_eq!(missing_key(&7_u32.to_be_bytes()), [0, 0, 0, 7, 0], "between block 7 and block 8");
    }

    #[test]
    fn keys_are_loaded_and_other_lines_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("keys");
        std::fs::write(&file, "00ff\n\n0x\nABcd\n").expect("room");
        assert_eq!(load(&file).expect("keys"), [vec![0, 255], vec![], vec![0xab, 0xcd]]);
        for wrong in ["0", "0g", "00\nx1"] {
            std::fs::write(&file, wrong).expect("room");
            let error = load(&file).expect_err(wrong).to_string();
            assert!(error.ends_with("this is not a key in hex"), "{error}");
        }
    }
}
