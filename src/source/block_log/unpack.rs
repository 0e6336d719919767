//! Decompresses blocks, some of them with a dictionary.
//!
//! A compressed block is a zstd frame without magic, checksum and number of its dictionary, which is in the word after the
//! block. Dictionaries are published as `NNNM.dict.zst`, one for each million blocks, and never change.

use std::array;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zstd::dict::DecoderDictionary;
use zstd::zstd_safe::{DCtx, get_error_name};

use super::{LogProblem, MAX_BLOCK, Packing};
use crate::error::Error;
use crate::os::buffer::make_room;
use crate::os::files::read_regular;
use crate::source::input::zstd_frame::MAGIC;

const DICTIONARIES: usize = 256;

/// Largest dictionary file, compressed or not, in bytes; published ones have 220 KiB.
const MAX_DICTIONARY: u64 = 16 << 20;

const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Free bytes before a decompressed block, for its key.
pub(crate) const ROOM: usize = 8;

/// The dictionaries of a directory, each read when a block first needs it.
#[derive(Clone)]
pub(crate) struct Dictionaries {
    dir: Option<PathBuf>,
    read: Arc<[OnceLock<Result<DecoderDictionary<'static>, LogProblem>>; DICTIONARIES]>,
}

impl Dictionaries {
    pub fn new(dir: Option<&Path>) -> Result<Self, Error> {
        if let Some(dir) = dir {
            dir.read_dir().map_err(Error::io("read", dir))?;
        }
        Ok(Self { dir: dir.map(Path::to_owned), read: Arc::new(array::from_fn(|_| OnceLock::new())) })
    }

    fn get(&self, number: u8) -> Result<&DecoderDictionary<'static>, LogProblem> {
        self.read[usize::from(number)].get_or_init(|| self.load(number)).as_ref().map_err(Clone::clone)
    }

    fn load(&self, dictionary: u8) -> Result<DecoderDictionary<'static>, LogProblem> {
        let missing = || LogProblem::MissingDictionary { number: None, dictionary, looked: self.dir.clone() };
        let dir = self.dir.as_ref().ok_or_else(missing)?;
        let names = [format!("{dictionary:03}M.dict.zst"), format!("{dictionary:03}M.dict")];
        let path = names.iter().map(|name| dir.join(name)).find(|path| path.exists()).ok_or_else(missing)?;
        let bad = |reason: String| LogProblem::Dictionary { path: path.clone(), reason };
        let failed = |error: std::io::Error| bad(error.to_string());
        let mut bytes = read_regular(&path, MAX_DICTIONARY).map_err(failed)?;
        if bytes.starts_with(&MAGIC) {
            let mut decompressed = Vec::new();
            let decoder = zstd::Decoder::new(&bytes[..]).map_err(failed)?;
            decoder.take(MAX_DICTIONARY + 1).read_to_end(&mut decompressed).map_err(failed)?;
            bytes = decompressed;
        }
        if bytes.len() as u64 > MAX_DICTIONARY {
            return Err(bad("it is larger than any dictionary".into()));
        }
        if !bytes.starts_with(&DICTIONARY_MAGIC) {
            return Err(bad("it does not begin as a zstd dictionary does".into()));
        }
        Ok(DecoderDictionary::copy(&bytes))
    }
}

/// Decompresses the blocks of one thread. The number of a block in a [`LogProblem`] is not set.
pub(crate) struct Unpacker {
    dictionaries: Dictionaries,
    context: DCtx<'static>,
    frame: Vec<u8>,
    block: Vec<u8>,
}

impl Unpacker {
    pub fn new(dictionaries: &Dictionaries) -> Self {
        let (frame, block) = Default::default();
        Self { dictionaries: dictionaries.clone(), context: DCtx::create(), frame, block }
    }

    pub fn unpack<'b>(&'b mut self, stored: &'b [u8], packing: Packing) -> Result<&'b [u8], LogProblem> {
        match packing {
            Packing::Raw => Ok(stored),
            _ => self.unpack_with_room(stored, packing).map(|block| block.get(ROOM..).unwrap_or_default()),
        }
    }

    /// Returns the block in `stored`, which is compressed, with [`ROOM`] bytes before it.
    pub fn unpack_with_room(&mut self, stored: &[u8], packing: Packing) -> Result<&mut [u8], LogProblem> {
        self.frame.clear();
        self.frame.extend_from_slice(&MAGIC);
        self.frame.extend_from_slice(stored);
        let dictionary = match packing {
            Packing::Dictionary(number) => Some((number, self.dictionaries.get(number)?.as_ddict())),
            Packing::Raw | Packing::Zstd => None,
        };
        // Frames do not have their size, so room is made as it is needed, up to the limit.
        let mut room = (stored.len().saturating_mul(8)).clamp(4 << 10, MAX_BLOCK);
        loop {
            make_room(&mut self.block, ROOM + room);
            let room_now = self.block.len() - ROOM;
            let into = self.block.get_mut(ROOM..).unwrap_or_default();
            let outcome = match dictionary {
                Some((_, dictionary)) => self.context.decompress_using_ddict(into, &self.frame, dictionary),
                None => self.context.decompress(into, &self.frame),
            };
            match outcome.map_err(get_error_name) {
                Ok(len) => return Ok(self.block.get_mut(..ROOM + len).unwrap_or_default()),
                Err(error) if error.contains("too small") && room_now < MAX_BLOCK => {
                    room = (room_now * 4).min(MAX_BLOCK);
                }
                Err(error) => {
                    let dictionary = dictionary.map(|(number, _)| number);
                    return Err(LogProblem::Unpack { number: None, dictionary, reason: error.to_owned() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(data: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::bulk::Compressor::new(3).expect("an encoder");
        encoder.include_contentsize(false).expect("an option");
        encoder.compress(data).expect("room").split_off(MAGIC.len())
    }

    #[test]
    fn frames_without_magic_decompress() {
        let dictionaries = Dictionaries::new(None).expect("no directory");
        let mut unpacker = Unpacker::new(&dictionaries);
        for len in [0, 1, 5000, 3 << 20] {
            let data = vec![7; len];
            assert_eq!(unpacker.unpack(&pack(&data), Packing::Zstd).map(<[u8]>::len), Ok(len));
            assert_eq!(unpacker.unpack(&data, Packing::Raw), Ok(&data[..]));
        }
    }

    #[test]
    fn oversized_block_is_refused() {
        let dictionaries = Dictionaries::new(None).expect("no directory");
        let mut unpacker = Unpacker::new(&dictionaries);
        let bomb = pack(&vec![0; MAX_BLOCK + 1]);
        let refused = unpacker.unpack(&bomb, Packing::Zstd);
        assert!(matches!(&refused, Err(LogProblem::Unpack { .. })), "{refused:?}");
    }

    #[test]
    fn invalid_dictionary_names_its_path() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("007M.dict"), b"no dictionary").expect("written");
        let dictionaries = Dictionaries::new(Some(dir.path())).expect("a directory");
        let mut unpacker = Unpacker::new(&dictionaries);
        let path = dir.path().join("007M.dict");
        let reason = "it does not begin as a zstd dictionary does".into();
        let bad = LogProblem::Dictionary { path, reason };
        assert_eq!(unpacker.unpack(b"x", Packing::Dictionary(7)), Err(bad));
        let missing =
            LogProblem::MissingDictionary { number: None, dictionary: 8, looked: Some(dir.path().to_owned()) };
        assert_eq!(unpacker.unpack(b"x", Packing::Dictionary(8)), Err(missing));
    }
}
