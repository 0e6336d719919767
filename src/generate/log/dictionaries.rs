//! Dictionaries of Hive's blocks.

use std::io::Read;
use std::path::Path;

use super::Dictionaries;
use crate::error::{Error, Result};
use crate::os::files::open_regular;

/// Suffix of a dictionary file, after its number in three digits.
const ENDING: &str = "M.dict.zst";
/// The most bytes of a dictionary; real ones have 220 KiB.
const LARGEST: u64 = 16 << 20;

/// Reads every `NNNM.dict.zst` of a directory.
pub fn read_dictionaries(dir: &Path) -> Result<Dictionaries> {
    let mut found = Dictionaries::new();
    let files = std::fs::read_dir(dir).map_err(Error::io("read", dir))?;
    for file in files {
        let path = file.map_err(Error::io("read", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(number) = name.strip_suffix(ENDING).filter(|it| it.len() == 3).and_then(|it| it.parse().ok()) else {
            continue;
        };
        let packed = open_regular(&path).map_err(Error::io("open", &path))?;
        let decoder = zstd::Decoder::new(packed).map_err(Error::io("read", &path))?;
        let mut bytes = Vec::new();
        decoder.take(LARGEST).read_to_end(&mut bytes).map_err(Error::io("decompress", &path))?;
        found.insert(number, bytes);
    }
    if found.is_empty() {
        let hint = format!("name a directory with files such as 000{ENDING}, or leave --dictionaries out");
        return Err(Error::usage(format!("there is no dictionary in {}", dir.display()), hint));
    }
    Ok(found)
}
