//! Snapshots of all kinds that tests import, with the records that a database of each must hold.

use std::path::PathBuf;
use std::sync::OnceLock;

use ipld_core::ipld::Ipld;

use super::car::*;
use super::model::{Key, Model};
use super::run::own_folder;

/// A snapshot and what a database of it must contain.
#[derive(Clone)]
pub struct Snapshot {
    pub name: &'static str,
    pub file: PathBuf,
    pub bytes: Vec<u8>,
    pub blocks: Vec<Block>,
    /// Digest of the records of a database, computed without the library.
    pub digest: String,
    pub read: u64,
    pub records: u64,
}

impl Snapshot {
    /// A snapshot of any format, and the records that a database of it must hold.
    pub fn new(name: &'static str, bytes: Vec<u8>, model: &Model) -> Self {
        let file = own_folder().join(name);
        std::fs::write(&file, &bytes).expect("room for a snapshot");
        let (digest, read, records) = (model.digest(), model.read, model.records.len() as u64);
        Self { name, file, bytes, blocks: Vec::new(), digest, read, records }
    }

    /// A CAR of these blocks.
    pub fn plain(name: &'static str, blocks: impl IntoIterator<Item = Block>) -> Self {
        let blocks: Vec<Block> = blocks.into_iter().collect();
        Self::of_blocks(name, rooted(&blocks), &blocks)
    }

    pub fn of_blocks(name: &'static str, bytes: Vec<u8>, blocks: &[Block]) -> Self {
        Self { blocks: blocks.to_vec(), ..Self::new(name, bytes, &Model::new(blocks, Key::Cid)) }
    }

    /// Keeps the snapshot until the process ends.
    pub fn leaked(self) -> &'static Self {
        Box::leak(Box::new(self))
    }

    /// The same snapshot in a file that may be changed.
    pub fn copied_to(&self, file: PathBuf) -> &'static Self {
        std::fs::write(&file, &self.bytes).expect("room for a snapshot");
        Self { file, ..self.clone() }.leaked()
    }
}

impl std::convert::From<&Snapshot> for Vec<u8> {
    fn from(snapshot: &Snapshot) -> Self {
        snapshot.bytes.clone()
    }
}

/// Blocks of dag-cbor, every twentieth one a second time, 4 MiB in all.
pub fn plain() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let mut blocks: Vec<Block> = Vec::new();
        for i in 0..4000u64 {
            let again = (i % 20 == 19).then(|| blocks[(i / 2) as usize].clone());
            blocks.push(again.unwrap_or_else(|| block(&noise(i, 200 + (i * 7919 % 1600) as usize))));
        }
        Snapshot::plain("plain.car", blocks)
    })
}

/// Blocks of which some are in [`plain`] as well, for a database that is added to.
pub fn older() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let more = (0..1000u64).map(|i| block(&noise(i + 300_000, 500)));
        Snapshot::plain("older.car", plain().blocks.iter().step_by(50).cloned().chain(more))
    })
}

pub fn small() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| Snapshot::plain("small.car", plain().blocks[..400].to_vec()))
}

/// Many frames with an index after them, as Forest exports.
pub fn forest() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let blocks: Vec<Block> = (0..7000).map(|i| block(&noise(i + 100_000, 300 + (i % 1700) as usize))).collect();
        // One frame with the header, then a few blocks per frame.
        let mut bytes = zstd(&header(&[blocks[0].0.clone()]));
        for group in blocks.chunks(8) {
            bytes.extend(zstd(&group.iter().flat_map(section).collect::<Vec<u8>>()));
        }
        bytes.extend(skippable(b"an index that is not read"));
        Snapshot::of_blocks("some.forest.car.zst", bytes, &blocks)
    })
}

/// A block of one of six kinds: several versions, codecs and hash functions, and a block that is in its CID.
pub fn block_of_kind(kind: u64, data: &[u8]) -> Block {
    match kind % 6 {
        0 => v0(data),
        1 => sha256(RAW, data),
        2 => identity(RAW, &data[..40]),
        3 => blake(0x70, data),
        4 => sha256(0x0129, data),
        _ => block(data),
    }
}

pub fn mixed() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let make = |i: u64| block_of_kind(i, &noise(i + 200_000, 100 + (i * 31 % 2500) as usize));
        Snapshot::plain("mixed.car", (0..3000).map(make))
    })
}

/// Those of [`mixed`] whose CIDs have digests.
pub fn hashed() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| Snapshot::plain("hashed.car", with_digests(&mixed().blocks)))
}

/// The blocks of [`plain`] in several CARs that overlap; [`several`] has them in other forms.
pub fn shares() -> Vec<Vec<Block>> {
    let blocks = &plain().blocks;
    [0..1300, 1250..1250, 1200..2800, 100..110, 2750..4000].map(|range| blocks[range].to_vec()).to_vec()
}

/// A folder of CARs of several forms that share blocks; as a pipe, all of them joined.
pub fn several() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let shares = shares();
        let cars: Vec<Vec<u8>> = shares.iter().map(|blocks| rooted(blocks)).collect();
        let dir = own_folder().join("several");
        std::fs::create_dir_all(&dir).expect("a folder");
        let put = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("room");
        put("1.car", &cars[0]);
        put("2.car.gz", &gzip(&cars[1]));
        put("3.car.zst", &cars[2].chunks(100_000).flat_map(zstd).collect::<Vec<u8>>());
        put("4.car", &v2(&cars[3], 9, &[]));
        put("5.car", &cars[4]);
        let joined = Snapshot::of_blocks("joined.car", cars.concat(), &shares.concat());
        Snapshot { name: "several", file: dir, ..joined }
    })
}

pub fn log() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let blocks = super::log::steem(1, 6000, 31);
        Snapshot::new("block_log", super::log::raw(&blocks), &super::log::model(&blocks))
    })
}

/// Every kind of snapshot whose imports are killed. A new kind needs a function like those above and an entry here.
pub fn snapshots() -> Vec<&'static Snapshot> {
    vec![plain(), forest(), mixed(), log(), several()]
}

fn encoded(ipld: &Ipld) -> Block {
    block(&serde_ipld_dagcbor::to_vec(ipld).expect("encoded"))
}

fn linked(cid: &[u8]) -> Ipld {
    Ipld::Link(cid::Cid::try_from(cid).expect("a CID"))
}

/// Metadata of a snapshot of version 2 (FRC-0108), which name its F3 data and the blocks of its head.
pub fn f3_metadata(f3: &[u8], heads: &[&[u8]]) -> Block {
    let tipset = Ipld::List(heads.iter().map(|head| linked(head)).collect());
    let fields = [("F3Data", linked(f3)), ("HeadTipsetKey", tipset), ("Version", Ipld::Integer(2))];
    encoded(&Ipld::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// The header of a Filecoin block.
pub fn filecoin_header(height: u64, timestamp: u64, ticket: u8) -> Block {
    let (bytes, list) = (|| Ipld::Bytes(vec![0, 1]), Ipld::List);
    let (number, link) = (|number: u64| Ipld::Integer(number.into()), |seed: u64| linked(&block(&noise(seed, 9)).0));
    let (ticket, election) = (list(vec![Ipld::Bytes(vec![ticket])]), list(vec![number(1), bytes()]));
    let (proofs, parents) = (list(vec![list(vec![bytes()])]), list(vec![link(height + 1_000_000)]));
    let before = vec![bytes(), ticket, election, list(vec![]), proofs, parents, bytes(), number(height)];
    let after = vec![link(1), link(2), link(3), Ipld::Null, number(timestamp), bytes(), number(0), bytes()];
    encoded(&list([before, after].concat()))
}
