//! Lookup of single blocks.

use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::access::{BlockLocation, Location, open_lenient};
use super::dag_json::{dag_json, header_json};
use super::header::chain_header;
use super::keys::read_multihash;
use super::links::{codec, links};
use super::missing::LISTED;
use crate::error::{Error, Result};
use crate::os::watched_dir::WatchedDir;
use crate::progress::CancellationToken;
use crate::report::ImportReport;
use crate::rocks::Reader;
use crate::sort::key::KeyLayout;
use crate::source::car::{RawCid, read_cid};

/// Most links of the roots that are tried for a head.
const MAX_LINKED: usize = 256;

/// A database of a CAR, open for lookups. Other processes may have it open too. Writes after [`Lookup::open`] are not
/// visible.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::testing::generate::Spec::new(bedload::testing::generate::Profile::Mainnet, 1 << 20);
/// # bedload::testing::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::{Location, Lookup, to_json};
///
/// let lookup = Lookup::open(&db, &Location::default())?;
/// let wanted = lookup.wanted("bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu")?;
/// assert_eq!(lookup.get(&[wanted])?, [None]);
/// let root = lookup.get_cid(&lookup.roots()[0])?.expect("a head");
/// assert_eq!(root.codec, Some(0x71));
/// assert_eq!(to_json(Some(0x71), &[0x82, 1, 2]), "[1,2]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lookup {
    dir: WatchedDir,
    reader: Reader,
    family: String,
    layout: KeyLayout,
    roots: Vec<RawCid>,
}

/// A parsed key. A text may have several meanings.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The first key that exists is used.
    readings: Vec<KeyReading>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyReading {
    key: Vec<u8>,
    codec: Option<u64>,
    inside: Option<Vec<u8>>,
}

/// A block of a CAR.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CarBlock {
    /// The content.
    pub block: Vec<u8>,
    /// Multicodec of the content, if the text or the key names it.
    pub codec: Option<u64>,
}

impl Lookup {
    /// Opens the database in `db`.
    ///
    /// # Errors
    /// [`Error::State`]: there is no database, its record is damaged, or it has other keys or column families than
    /// `location`; [`Error::Rocks`] or [`Error::Io`]: it cannot be opened; [`Error::Replaced`].
    pub fn open(db: &Path, location: &Location) -> Result<Self> {
        let dir = WatchedDir::open(db);
        let (record, reader) = dir.guard(|| Ok((ImportReport::load(db)?, open_lenient(db)?)))?;
        let families = record.as_ref().map_or(&[][..], |record| &record.families);
        if families.len() > 1 && location.column_family.is_none() {
            let names: Vec<_> = families.iter().take(LISTED).map(|family| family.name.as_str()).collect();
            let reason = format!("the database has {} column families", families.len());
            return Err(Error::usage(reason, format!("pass --column-family, e.g. {}", names.join(" or "))));
        }
        let BlockLocation { family, layout, .. } = location.find(db, record.as_ref(), Some(&reader))?;
        // The record and the files belong to the same database.
        dir.check()?;
        Ok(Self { dir, reader, family, layout, roots: record.map(|record| record.roots()).unwrap_or_default() })
    }

    /// Returns the roots of the imported snapshot; none without a record of the import.
    pub fn roots(&self) -> &[RawCid] {
        &self.roots
    }

    /// Looks up the block of a CID; `None` if it is missing.
    ///
    /// # Errors
    /// Those of [`Lookup::get`].
    pub fn get_cid(&self, cid: &RawCid) -> Result<Option<CarBlock>> {
        self.get_reading(self.reading_of_cid(cid))
    }

    /// Looks up the block of a key: a CID, a multihash or a digest, depending on the key layout. `None` if it is
    /// missing.
    ///
    /// # Errors
    /// Those of [`Lookup::get`].
    pub fn get_key(&self, key: &[u8]) -> Result<Option<CarBlock>> {
        match (self.layout, RawCid::from_bytes(key)) {
            (KeyLayout::Cid, Ok(cid)) => self.get_cid(&cid),
            _ => self.get_reading(KeyReading { key: key.to_vec(), codec: None, inside: None }),
        }
    }

    fn get_reading(&self, reading: KeyReading) -> Result<Option<CarBlock>> {
        Ok(self.get(&[Wanted { readings: vec![reading] }])?.pop().flatten())
    }

    /// Parses a key: the key's bytes as hex, or a CID in any multibase or as hex; with digest keys also a multihash as hex. A
    /// text with several meanings is looked up in this order.
    ///
    /// # Errors
    /// [`Error::Usage`]: the text is none of these.
    pub fn wanted(&self, text: &str) -> Result<Wanted> {
        let text = text.trim();
        let bytes = from_hex(text);
        let of_hex = bytes.as_deref().and_then(|bytes| RawCid::from_bytes(bytes).ok());
        let multihash = bytes.as_deref().and_then(read_multihash).map(|(_, digest)| digest);
        let is_key = match self.layout {
            KeyLayout::Cid => of_hex.is_some(),
            KeyLayout::Multihash => multihash.is_some(),
            KeyLayout::Digest | KeyLayout::Number | KeyLayout::Any => true,
        };
        let bare = |key: &[u8]| KeyReading { key: key.to_vec(), codec: None, inside: None };
        let mut readings: Vec<KeyReading> = Vec::new();
        readings.extend(bytes.as_deref().filter(|_| is_key && self.layout != KeyLayout::Cid).map(bare));
        if self.layout != KeyLayout::Any {
            readings.extend(of_hex.iter().chain(text.parse().ok().as_ref()).map(|cid| self.reading_of_cid(cid)));
        }
        readings.extend(multihash.filter(|_| self.layout == KeyLayout::Digest).map(bare));
        if readings.is_empty() { Err(self.unknown(text)) } else { Ok(Wanted { readings }) }
    }

    fn reading_of_cid(&self, cid: &RawCid) -> KeyReading {
        let cid = cid.as_bytes();
        let Ok(Some(span)) = read_cid(cid) else { return KeyReading { key: cid.to_vec(), codec: None, inside: None } };
        let inside = (span.hash == 0).then(|| cid.get(span.digest as usize..).unwrap_or_default().to_vec());
        let key = cid.get(self.layout.key_start(&span)..).unwrap_or_default().to_vec();
        KeyReading { key, codec: Some(span.codec), inside }
    }

    /// Returns the headers of the tipset at `epoch`, walking back through the parents of each tipset's first block.
    pub(crate) fn tipset(&self, epoch: u64, stop: &CancellationToken) -> Result<Vec<(RawCid, CarBlock)>> {
        if self.roots.is_empty() {
            let hint = "give the CID of a header instead; only blocks of Filecoin have an epoch";
            return Err(Error::usage("cannot find the epoch: BEDLOAD.json names no root", hint));
        }
        let missing = |reason: String| Error::NotFound {
            path: self.reader.path.clone(),
            reason,
            hint: "`bedload stat` shows the epoch of its head; `bedload walk` finds what is missing below it".into(),
        };
        let mut tipset = self.headers(&self.roots)?;
        if tipset.is_empty() {
            // The root may name the head, as metadata does (FRC-0108).
            tipset = self.headers(&self.linked(&self.roots)?)?;
        }
        let mut above = u64::MAX;
        loop {
            let Some((_, first)) = tipset.first() else {
                return Err(missing(match above {
                    u64::MAX => "none of the roots is the header of a Filecoin block".into(),
                    _ => format!("the chain ends at epoch {above}: its parents are not in the database"),
                }));
            };
            let Some(header) = chain_header(&first.block) else { return Ok(Vec::new()) };
            match header.height {
                // Heights decrease with every step, which ends the loop.
                height if height >= above => {
                    return Err(missing(format!("the parent of epoch {above} says that it is of epoch {height}")));
                }
                height if height == epoch => return Ok(tipset),
                height if height < epoch && above == u64::MAX => {
                    return Err(missing(format!("epoch {epoch} is above the head, which is at epoch {height}")));
                }
                height if height < epoch => {
                    return Err(missing(format!("epoch {epoch} has no tipset: {above} follows {height}")));
                }
                height => above = height,
            }
            stop.check(Error::interrupted_reading)?;
            let mut parents = Vec::new();
            // A header has been read, so its links are well-formed up to the parents.
            let _ = links(codec::DAG_CBOR, &first.block, &mut |cid| parents.extend(RawCid::from_bytes(cid)));
            parents.truncate(usize::try_from(header.parents).unwrap_or(usize::MAX));
            tipset = self.headers(&parents)?;
        }
    }

    fn headers(&self, cids: &[RawCid]) -> Result<Vec<(RawCid, CarBlock)>> {
        let found = cids.iter().cloned().zip(self.get(&self.wanted_cids(cids))?);
        let found = found.filter_map(|(cid, found)| Some((cid, found?)));
        Ok(found.filter(|(_, found)| chain_header(&found.block).is_some()).collect())
    }

    fn linked(&self, cids: &[RawCid]) -> Result<Vec<RawCid>> {
        let mut linked = Vec::new();
        for CarBlock { block, codec } in self.get(&self.wanted_cids(cids))?.into_iter().flatten() {
            let mut add = |cid: &[u8]| linked.extend(RawCid::from_bytes(cid));
            let _ = links(codec.unwrap_or(codec::RAW), &block, &mut add);
        }
        linked.truncate(MAX_LINKED);
        Ok(linked)
    }

    fn wanted_cids(&self, cids: &[RawCid]) -> Vec<Wanted> {
        cids.iter().map(|cid| Wanted { readings: vec![self.reading_of_cid(cid)] }).collect()
    }

    fn unknown(&self, text: &str) -> Error {
        let hint = match self.layout {
            KeyLayout::Cid => "this database is keyed by CID: give a CID, as text or as hex",
            KeyLayout::Multihash => "this database is keyed by multihash: give a CID, or a multihash as hex",
            KeyLayout::Digest => "this database is keyed by digest: give a CID, or a multihash or a digest as hex",
            KeyLayout::Any => "give the bytes of a key as hex",
            KeyLayout::Number => {
                "this database is keyed by block number: give a number, or the id of a block or transaction"
            }
        };
        Error::Usage { reason: format!("`{text}` is not a key of this database"), hint: hint.into() }
    }

    /// Looks up blocks in the order of `wanted`; `None` for missing blocks.
    ///
    /// # Errors
    /// [`Error::State`]: there is no such column family; [`Error::Rocks`] or [`Error::Io`]: a block cannot be read;
    /// [`Error::Replaced`].
    pub fn get(&self, wanted: &[Wanted]) -> Result<Vec<Option<CarBlock>>> {
        let found = self.dir.guard(|| self.get_each(wanted))?;
        if found.iter().any(Option::is_none) {
            self.dir.check()?;
        }
        Ok(found)
    }

    fn get_each(&self, wanted: &[Wanted]) -> Result<Vec<Option<CarBlock>>> {
        let mut found: Vec<Option<CarBlock>> = vec![None; wanted.len()];
        // Usually one round: the first meaning is nearly always the right one.
        for round in 0.. {
            let open: Vec<(usize, &KeyReading)> = wanted
                .iter()
                .enumerate()
                .filter(|(number, _)| found.get(*number).is_some_and(Option::is_none))
                .filter_map(|(number, wanted)| Some((number, wanted.readings.get(round)?)))
                .collect();
            if open.is_empty() {
                break;
            }
            let keys: Vec<&[u8]> = open.iter().map(|(_, reading)| reading.key.as_slice()).collect();
            let values = self.reader.get_many(&self.family, &keys, false)?;
            for ((number, reading), value) in open.into_iter().zip(values) {
                let block = value?.map(|value| value.as_ref().to_vec()).or_else(|| reading.inside.clone());
                if let Some(place) = found.get_mut(number) {
                    *place = block.map(|block| CarBlock { block, codec: reading.codec });
                }
            }
        }
        Ok(found)
    }
}

/// Converts a block to dag-json text: dag-cbor and dag-pb in their own form, other and malformed blocks as bytes.
pub fn to_json(codec: Option<u64>, block: &[u8]) -> String {
    let json = codec.and_then(|codec| dag_json(codec, block).ok());
    json.or_else(|| dag_json(codec::RAW, block).ok()).unwrap_or_default().to_string()
}

/// Returns the block as JSON, with field names for the header of a Filecoin block.
pub(crate) fn to_json_with_names(codec: Option<u64>, block: &[u8]) -> String {
    header_with_names(codec, block).unwrap_or_else(|| to_json(codec, block))
}

/// Converts the header of a Filecoin block to JSON with field names; `None` for any other block.
pub(crate) fn header_with_names(codec: Option<u64>, block: &[u8]) -> Option<String> {
    codec.filter(|codec| *codec == codec::DAG_CBOR).and_then(|_| header_json(block)).map(|header| header.to_string())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE
        .decode(text.strip_prefix("0x").unwrap_or(text).as_bytes())
        .ok()
        .filter(|bytes| !bytes.is_empty() || text == "0x")
}
