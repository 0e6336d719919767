//! Unpacking blocks, and the dictionaries that some are packed with.
//!
//! A packed block is a zstd frame without its first four bytes, without a checksum and without the number of its
//! dictionary: the word after the block has its number. Dictionaries are published as `NNNM.dict.zst`, zstd files of
//! 225,280 bytes unpacked, one for each million blocks; they are never changed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zstd::dict::DecoderDictionary;
use zstd::zstd_safe::{DCtx, get_error_name};

use super::MAX_BLOCK;
use super::packing::Packing;
use super::problem::LogProblem;
use crate::os::buffer::make_room;
use crate::os::files::open_regular;
use crate::source::input::zstd_frame::MAGIC;

/// How many dictionaries a word can name.
const DICTIONARIES: usize = 256;

/// The most bytes of a dictionary file, packed or not; real ones have 220 KiB.
const MAX_DICTIONARY: u64 = 16 << 20;

/// Magic number of a trained dictionary.
const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// Bytes left free before an unpacked block, for its key.
pub(crate) const ROOM: usize = 8;

/// The dictionaries of a directory, each read when a block first needs it.
#[derive(Clone)]
pub(crate) struct Dictionaries(Arc<Known>);

struct Known {
    dir: Option<PathBuf>,
    read: Vec<OnceLock<Result<DecoderDictionary<'static>, UnpackProblem>>>,
}

/// Why a block cannot be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnpackProblem {
    Missing { dictionary: u8, looked: Option<PathBuf> },
    BadDictionary { path: PathBuf, reason: String },
    Damaged(String),
}

impl UnpackProblem {
    /// Converts it to a problem of a block.
    pub fn of(self, number: Option<u32>, packing: Packing) -> LogProblem {
        match self {
            Self::Missing { dictionary, looked } => LogProblem::MissingDictionary { number, dictionary, looked },
            Self::BadDictionary { path, reason } => LogProblem::Dictionary { path, reason },
            Self::Damaged(reason) => {
                let dictionary = if let Packing::Dictionary(dictionary) = packing { Some(dictionary) } else { None };
                LogProblem::Unpack { number, dictionary, reason }
            }
        }
    }
}

impl Dictionaries {
    /// Those in `dir`; nothing is read yet.
    pub fn new(dir: Option<&Path>) -> Self {
        let read = (0..DICTIONARIES).map(|_| OnceLock::new()).collect();
        Self(Arc::new(Known { dir: dir.map(Path::to_owned), read }))
    }
}

impl Known {
    fn get(&self, number: u8) -> Result<&DecoderDictionary<'static>, UnpackProblem> {
        let missing = || UnpackProblem::Missing { dictionary: number, looked: self.dir.clone() };
        let slot = self.read.get(usize::from(number)).ok_or_else(missing)?;
        slot.get_or_init(|| self.load(number)).as_ref().map_err(Clone::clone)
    }

    fn load(&self, number: u8) -> Result<DecoderDictionary<'static>, UnpackProblem> {
        let missing = || UnpackProblem::Missing { dictionary: number, looked: self.dir.clone() };
        let dir = self.dir.as_ref().ok_or_else(missing)?;
        let names = [format!("{number:03}M.dict.zst"), format!("{number:03}M.dict")];
        let path = names.iter().map(|name| dir.join(name)).find(|path| path.exists()).ok_or_else(missing)?;
        let bad = |reason: String| UnpackProblem::BadDictionary { path: path.clone(), reason };
        let read = |mut from: Box<dyn Read>| -> std::io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            from.by_ref().take(MAX_DICTIONARY + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let open = || open_regular(&path);
        let mut bytes = open().and_then(|file| read(Box::new(file))).map_err(|error| bad(error.to_string()))?;
        if bytes.starts_with(&MAGIC) {
            let unpacked = open().and_then(zstd::Decoder::new).and_then(|decoder| read(Box::new(decoder)));
            bytes = unpacked.map_err(|error| bad(error.to_string()))?;
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

/// Unpacks the blocks of one thread.
pub(crate) struct Unpacker {
    dictionaries: Arc<Known>,
    context: DCtx<'static>,
    frame: Vec<u8>,
    block: Vec<u8>,
}

impl Unpacker {
    pub fn new(dictionaries: &Dictionaries) -> Self {
        Self {
            dictionaries: Arc::clone(&dictionaries.0),
            context: DCtx::create(),
            frame: Vec::new(),
            block: Vec::new(),
        }
    }

    /// The block in `stored`.
    pub fn unpack<'b>(&'b mut self, stored: &'b [u8], packing: Packing) -> Result<&'b [u8], UnpackProblem> {
        if packing == Packing::Raw {
            return Ok(stored);
        }
        self.unpack_with_room(stored, packing).map(|block| block.get(ROOM..).unwrap_or_default())
    }

    /// The block in `stored`, which is packed, with [`ROOM`] bytes before it.
    pub fn unpack_with_room(&mut self, stored: &[u8], packing: Packing) -> Result<&mut [u8], UnpackProblem> {
        self.frame.clear();
        self.frame.extend_from_slice(&MAGIC);
        self.frame.extend_from_slice(stored);
        let damaged = |code| UnpackProblem::Damaged(get_error_name(code).to_owned());
        let dictionary = match packing {
            Packing::Dictionary(number) => Some(self.dictionaries.get(number)?.as_ddict()),
            Packing::Raw | Packing::Zstd => None,
        };
        // Frames do not say their size: room is made as it is needed, up to the cap.
        let mut room = (stored.len().saturating_mul(8)).clamp(4 << 10, MAX_BLOCK);
        loop {
            make_room(&mut self.block, ROOM + room);
            let room_now = self.block.len() - ROOM;
            let into = self.block.get_mut(ROOM..).unwrap_or_default();
            let outcome = match dictionary {
                Some(dictionary) => self.context.decompress_using_ddict(into, &self.frame, dictionary),
                None => self.context.decompress(into, &self.frame),
            };
            match outcome {
                Ok(len) => return Ok(self.block.get_mut(..ROOM + len).unwrap_or_default()),
                Err(code) => {
                    let is_short = get_error_name(code).contains("too small");
                    if !is_short || room_now >= MAX_BLOCK {
                        return Err(damaged(code));
                    }
                    room = (room_now * 4).min(MAX_BLOCK);
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
        let dictionaries = Dictionaries::new(None);
        let mut unpacker = Unpacker::new(&dictionaries);
        for len in [0, 1, 5000, 3 << 20] {
            let data = vec![7; len];
            assert_eq!(unpacker.unpack(&pack(&data), Packing::Zstd).map(<[u8]>::len), Ok(len));
            assert_eq!(unpacker.unpack(&data, Packing::Raw), Ok(&data[..]));
        }
    }

    #[test]
    fn oversized_block_is_refused() {
        let dictionaries = Dictionaries::new(None);
        let mut unpacker = Unpacker::new(&dictionaries);
        let bomb = pack(&vec![0; MAX_BLOCK + 1]);
        let refused = unpacker.unpack(&bomb, Packing::Zstd);
        assert!(matches!(&refused, Err(UnpackProblem::Damaged(_))), "{refused:?}");
    }

    #[test]
    fn invalid_dictionary_names_its_path() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("007M.dict"), b"no dictionary").expect("written");
        let dictionaries = Dictionaries::new(Some(dir.path()));
        let mut unpacker = Unpacker::new(&dictionaries);
        let path = dir.path().join("007M.dict");
        let reason = "it does not begin as a zstd dictionary does".into();
        let bad = UnpackProblem::BadDictionary { path, reason };
        assert_eq!(unpacker.unpack(b"x", Packing::Dictionary(7)), Err(bad));
        let missing = UnpackProblem::Missing { dictionary: 8, looked: Some(dir.path().to_owned()) };
        assert_eq!(unpacker.unpack(b"x", Packing::Dictionary(8)), Err(missing));
    }
}
