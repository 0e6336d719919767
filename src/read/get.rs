//! Looking up single blocks.

use std::path::Path;

use super::access::Location;
use super::dag_json::dag_json;
use super::record::ImportRecord;
use crate::error::{Error, Result};
use crate::rocks::{Reader, ReaderOptions};
use crate::sort::key::KeyLayout;
use crate::source::car::{RawCid, read_cid};

/// The block cache, in bytes: neighbouring keys are seldom asked for.
const CACHE: usize = 8 << 20;

/// A database to look blocks up in.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::generate::Spec::new(bedload::generate::Profile::Mainnet, 1 << 20);
/// # bedload::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::read::Location;
/// use bedload::read::get::{Lookup, to_json};
///
/// let lookup = Lookup::open(&db, &Location::default())?;
/// let wanted = lookup.wanted("bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu")?;
/// assert_eq!(lookup.get(&[wanted])?, [None]);
/// assert_eq!(to_json(Some(0x71), &[0x82, 1, 2]), "[1,2]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lookup {
    reader: Reader,
    family: String,
    layout: KeyLayout,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The key in the database.
    pub key: Vec<u8>,
    /// The multicodec of the block's content, where the text or the key names it.
    pub codec: Option<u64>,
    /// The block itself, when the CID carries it.
    inside: Option<Vec<u8>>,
}

impl Lookup {
    /// Opens the database in `db`.
    ///
    /// # Errors
    /// There is no database, or it cannot be opened.
    pub fn open(db: &Path, location: &Location) -> Result<Self> {
        let record = ImportRecord::load(db)?;
        let reader = Reader::open(db, &ReaderOptions { cache: CACHE, open_files: 64, lenient: true, in_order: false })?;
        Ok(Self { reader, family: location.family(record.as_ref()), layout: location.layout(record.as_ref()).0 })
    }

    /// Reads a key as people write it: a CID in any multibase, or the key's own bytes as hex; where keys are bare
    /// digests also a multihash as hex.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn wanted(&self, text: &str) -> Result<Wanted> {
        let text = text.trim();
        if let Ok(cid) = text.parse::<RawCid>() {
            return Ok(self.wanted_of_cid(cid.as_bytes()));
        }
        let bytes = from_hex(text).ok_or_else(|| self.unknown(text))?;
        if read_cid(&bytes).is_ok_and(|cid| cid.is_some_and(|cid| cid.len as usize == bytes.len())) {
            return Ok(self.wanted_of_cid(&bytes));
        }
        let multihash = cid::multihash::Multihash::<128>::from_bytes(&bytes).ok();
        match (self.layout, multihash) {
            (KeyLayout::Cid | KeyLayout::Number, _) | (KeyLayout::Multihash, None) => Err(self.unknown(text)),
            (KeyLayout::Digest, Some(multihash)) => {
                Ok(Wanted { key: multihash.digest().to_vec(), codec: None, inside: None })
            }
            (KeyLayout::Multihash, Some(_)) | (KeyLayout::Digest, None) => {
                Ok(Wanted { key: bytes, codec: None, inside: None })
            }
        }
    }

    fn wanted_of_cid(&self, cid: &[u8]) -> Wanted {
        let Ok(Some(span)) = read_cid(cid) else { return Wanted { key: cid.to_vec(), codec: None, inside: None } };
        let inside = (span.hash == 0).then(|| cid.get(span.digest as usize..).unwrap_or_default().to_vec());
        let key = cid.get(self.layout.key_start(&span)..).unwrap_or_default().to_vec();
        Wanted { key, codec: Some(span.codec), inside }
    }

    fn unknown(&self, text: &str) -> Error {
        let hint = match self.layout {
            KeyLayout::Cid => "this database is keyed by CID: give a CID, as text or as hex",
            KeyLayout::Multihash => "this database is keyed by multihash: give a CID, or a multihash as hex",
            KeyLayout::Digest => "this database is keyed by digest: give a CID, or a multihash or a digest as hex",
            KeyLayout::Number => {
                "this database is keyed by block number: give a number, or the id of a block or transaction"
            }
        };
        Error::Usage { reason: format!("{text:?} is no key of this database"), hint: hint.into() }
    }

    /// Looks up blocks; in the order of `wanted`, `None` for what is not there.
    ///
    /// # Errors
    /// A block cannot be read.
    pub fn get(&self, wanted: &[Wanted]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = wanted.iter().map(|wanted| wanted.key.as_slice()).collect();
        let values = self.reader.get_many(&self.family, &keys, false)?;
        values
            .into_iter()
            .zip(wanted)
            .map(|(value, wanted)| Ok(value?.map(|value| value.as_ref().to_vec()).or_else(|| wanted.inside.clone())))
            .collect()
    }
}

/// A block as dag-json text: dag-cbor and dag-pb in their own form, everything else, and what is not what its codec
/// says, as bytes.
pub fn to_json(codec: Option<u64>, block: &[u8]) -> String {
    let as_bytes = || dag_json(super::links::codec::RAW, block).unwrap_or_default();
    codec.map_or_else(as_bytes, |codec| dag_json(codec, block).unwrap_or_else(|_| as_bytes()))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let (pairs, odd) = digits.as_chunks::<2>();
    (odd.is_empty() && !pairs.is_empty()).then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
