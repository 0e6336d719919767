//! Packing of the blocks of a Hive log: raw, in zstd frames, or in frames with a dictionary.
//!
//! A frame is stored without its magic number, content size, checksum and dictionary number. The word after it has bit
//! 63 for a frame, bit 56 for a dictionary, and the number of the dictionary in bits 48 to 55.

use std::collections::BTreeMap;
use std::io;
use std::io::Read;
use std::path::Path;

use zstd::bulk::Compressor;
use zstd::dict::EncoderDictionary;
use zstd::zstd_safe::{CParameter, compress_bound};

use super::super::random::Noise;
use crate::error::{Error, Result};
use crate::os::files::open_regular;

/// The level of compression. Nodes use 15, which takes far longer.
const LEVEL: i32 = 1;
/// One block in this many stays raw.
const RAW_EVERY: u64 = 8;
/// Blocks that share a dictionary.
const BLOCKS_PER_DICTIONARY: u32 = 1_000_000;
/// Bytes of a frame's magic number.
const MAGIC: usize = 4;

pub(super) const ZSTD: u64 = 1 << 63;
pub(super) const DICTIONARY: u64 = 1 << 56;
const DICTIONARY_SHIFT: u32 = 48;

/// Dictionaries by their number, unpacked.
pub type Dictionaries = BTreeMap<u8, Vec<u8>>;

pub(super) struct PreparedDictionaries(BTreeMap<u8, EncoderDictionary<'static>>);

pub(super) struct BlockPacker<'a> {
    prepared: &'a PreparedDictionaries,
    plain: Compressor<'a>,
    /// The last dictionary and the compressor with it.
    with: (Option<u8>, Compressor<'a>),
    buffer: Vec<u8>,
}

impl PreparedDictionaries {
    pub(super) fn new(dictionaries: &Dictionaries) -> Self {
        Self(dictionaries.iter().map(|(&number, bytes)| (number, EncoderDictionary::copy(bytes, LEVEL))).collect())
    }

    /// The dictionary for a block: that of its million, or the last one.
    fn number(&self, block: u32) -> Option<u8> {
        let last = *self.0.keys().next_back()?;
        let own = (block / BLOCKS_PER_DICTIONARY).min(last.into()) as u8;
        self.0.contains_key(&own).then_some(own)
    }
}

impl<'a> BlockPacker<'a> {
    pub(super) fn new(prepared: &'a PreparedDictionaries) -> io::Result<Self> {
        let new = || frames_only(Compressor::new(LEVEL)?);
        Ok(Self { prepared, plain: new()?, with: (None, new()?), buffer: Vec::new() })
    }

    /// Appends a block to `out`, packed or raw. Returns the attributes of its word.
    pub(super) fn pack(&mut self, number: u32, block: &[u8], noise: &mut Noise, out: &mut Vec<u8>) -> io::Result<u64> {
        let (raw, plain) = (noise.below(RAW_EVERY) == 0, noise.below(2) == 0);
        if raw {
            out.extend_from_slice(block);
            return Ok(0);
        }
        let dictionary = self.prepared.number(number).filter(|_| !plain);
        if dictionary.is_some() && dictionary != self.with.0 {
            let prepared = dictionary.and_then(|number| self.prepared.0.get(&number)).ok_or(io::ErrorKind::NotFound)?;
            self.with = (dictionary, frames_only(Compressor::with_prepared_dictionary(prepared)?)?);
        }
        let compressor = if dictionary.is_some() { &mut self.with.1 } else { &mut self.plain };
        self.buffer.resize(compress_bound(block.len()), 0);
        let len = compressor.compress_to_buffer(block, self.buffer.as_mut_slice())?;
        out.extend_from_slice(&self.buffer[MAGIC..len]);
        Ok(ZSTD | dictionary.map_or(0, |number| DICTIONARY | u64::from(number) << DICTIONARY_SHIFT))
    }
}

fn frames_only(mut compressor: Compressor<'_>) -> io::Result<Compressor<'_>> {
    for parameter in
        [CParameter::ContentSizeFlag(false), CParameter::ChecksumFlag(false), CParameter::DictIdFlag(false)]
    {
        compressor.set_parameter(parameter)?;
    }
    Ok(compressor)
}

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
