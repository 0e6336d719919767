//! The keys that are looked up: the same ones in every database that is compared.
//!
//! They are drawn once, from the first database that is finished, every record with the same chance, and kept as text:
//! one key a line, in hex. A key that is not there is made from one that is: of the same length, among its neighbours.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use crate::error::{Error, Result};
use crate::generate::Noise;
use crate::report::ImportReport;
use crate::rocks::{Reader, ReaderOptions};

/// The most keys that are drawn.
pub const MAX_KEYS: u64 = 10_000_000;

/// The longest key that is read back, in bytes.
const MAX_KEY: usize = 4096;

/// Keys shorter than this are numbers that follow one another: changing one gives another that is there.
pub(super) const SHORT: usize = 16;

/// Draws `count` keys of the column family, or all where it has fewer, in random order, and writes them to `file`.
///
/// # Errors
/// [`Error::State`]: there is no database, or no such column family; [`Error::Rocks`] or [`Error::Io`]: it cannot be
/// read, or the file not written.
pub fn sample(db: &Path, family: &str, count: u64, seed: u64, file: &Path) -> Result<u64> {
    let reader = Reader::open(db, &ReaderOptions { cache: 8 << 20, open_files: 64, lenient: false, in_order: false })?;
    let mut noise = Noise::new(seed, 0);
    let keep = usize::try_from(count.min(MAX_KEYS)).unwrap_or(usize::MAX);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut scan = reader.scan(family, None, None)?;
    let mut seen = 0_u64;
    while let Some((key, _)) = scan.item() {
        seen += 1;
        // Each record takes the place of one that is kept with the chance that keeps all chances equal.
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
            writeln!(out, "{}", HEXLOWER.encode(key))?;
        }
        out.flush()
    };
    write().map_err(Error::io("write", file))?;
    Ok(kept.len() as u64)
}

/// Reads keys back.
///
/// # Errors
/// [`Error::Io`]: the file cannot be read; [`Error::Usage`]: it has something else in it.
pub(super) fn load(file: &Path) -> Result<Vec<Vec<u8>>> {
    let lines = BufReader::new(File::open(file).map_err(Error::io("open", file))?).lines();
    let wrong = |line: usize| Error::Usage {
        reason: format!("{}:{line}: this is no key in hex", file.display()),
        hint: "remove the file; it is made anew".into(),
    };
    let mut keys = Vec::new();
    for (index, line) in lines.enumerate() {
        let line = line.map_err(Error::io("read", file))?;
        if line.len() > 2 * MAX_KEY || keys.len() as u64 >= MAX_KEYS {
            return Err(wrong(index + 1));
        }
        keys.push(HEXLOWER_PERMISSIVE.decode(line.as_bytes()).map_err(|_| wrong(index + 1))?);
    }
    Ok(keys)
}

/// A key that no database of hashes has, right beside `key`.
pub(super) fn absent(key: &[u8]) -> Vec<u8> {
    let mut other = key.to_vec();
    match other.last_mut() {
        // A digest whose last byte is another belongs to no known block.
        Some(last) if key.len() >= SHORT => *last ^= 0x55,
        _ => other.push(0),
    }
    other
}

/// The column family that an import's record names; `default` where there is none.
pub fn family_of(db: &Path) -> Result<String> {
    Ok(ImportReport::load(db)?.map_or_else(|| "default".to_owned(), |record| record.column_family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_keys_lie_beside_those_that_are_there() {
        let digest: Vec<u8> = (0..38).collect();
        let other = absent(&digest);
        assert_eq!((other.len(), &other[..37]), (38, &digest[..37]));
        assert_ne!(other, digest);
        assert_eq!(absent(&7_u32.to_be_bytes()), [0, 0, 0, 7, 0], "between block 7 and block 8");
    }

    #[test]
    fn keys_are_read_back_as_they_were_and_anything_else_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("keys");
        std::fs::write(&file, "00ff\n\nABcd\n").expect("room");
        assert_eq!(load(&file).expect("keys"), [vec![0, 255], vec![], vec![0xab, 0xcd]]);
        for wrong in ["0", "0g", "00\nx1"] {
            std::fs::write(&file, wrong).expect("room");
            let error = load(&file).expect_err(wrong).to_string();
            assert!(error.ends_with("this is no key in hex"), "{error}");
        }
    }
}
