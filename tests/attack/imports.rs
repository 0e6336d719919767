//! Every kind of import, and the conditions that hold after any attack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use sha2::{Digest, Sha256};

use super::common::car::*;
use super::common::crash::{Case, Chance, Ended, From, Snapshot, Way, block_of_kind, copy, points};
use super::common::fault;
use super::common::log::{self, LogBlock};
use super::common::model::{Key, Model};
use super::common::run::Place;
use super::judge::*;
use super::sources::Twins;

pub struct Kind {
    pub name: &'static str,
    pub way: Way,
    pub from: From,
    pub into_existing: bool,
    pub more: &'static [&'static str],
}

const fn kind(name: &'static str, way: Way, from: From) -> Kind {
    Kind { name, way, from, into_existing: false, more: &[] }
}

pub const KINDS: [Kind; 15] = [
    kind("CAR in memory", Way::Memory, From::File),
    kind("CAR spilled", Way::Spill, From::File),
    kind("CAR through memtables", Way::Memtables, From::File),
    kind("pipe in memory", Way::Memory, From::Pipe),
    kind("pipe spilled", Way::Spill, From::Pipe),
    kind("pipe through memtables", Way::Memtables, From::Pipe),
    Kind { into_existing: true, ..kind("into existing, spilled", Way::Spill, From::File) },
    Kind { into_existing: true, ..kind("into existing, in memory", Way::Memory, From::File) },
    Kind { into_existing: true, ..kind("into existing, through memtables", Way::Memtables, From::File) },
    Kind { more: &["--verify", "none"], ..kind("CAR spilled, not verified", Way::Spill, From::File) },
    kind("log", Way::Ranges, From::File),
    kind("log from a pipe", Way::Ranges, From::Pipe),
    kind("log through memtables", Way::Batches, From::File),
    Kind { more: &["--indexes", "ids,transactions"], ..kind("log with transactions", Way::Ranges, From::File) },
    kind("database", Way::Copy, From::File),
];

/// The kind that copies a database.
pub const DATABASE: usize = 14;

impl Kind {
    pub fn is_log(&self) -> bool {
        matches!(self.way, Way::Ranges | Way::Batches)
    }

    /// True if the user chooses the form of the keys.
    fn has_key_layout(&self) -> bool {
        !self.is_log() && self.way != Way::Copy
    }
}

const KEYS: [Key; 3] = [Key::Cid, Key::Multihash, Key::Digest];

/// Blocks of all kinds of at most so many bytes, every twentieth one a second time. Blocks that are in their CIDs have no
/// key under `digest`.
pub fn blocks(count: u64, seed: u64, most: usize, identities: bool) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for i in 0..count {
        let data = noise(seed + i, most.min(100 + (i * 7919 % 1400) as usize));
        let again = (i % 20 == 19).then(|| blocks[(i / 2) as usize].clone());
        let kind = if i % 6 == 2 && !identities { 5 } else { i };
        blocks.push(again.unwrap_or_else(|| block_of_kind(kind, &data)));
    }
    blocks
}

pub struct Source {
    pub snapshot: &'static Snapshot,
    pub families: Families,
}

/// Families of a database that was made of a CAR.
pub fn of_car(blocks: &[Block], key: Key) -> Families {
    BTreeMap::from([("default".into(), Model::new(blocks, key).records)])
}

fn car_of(name: String, blocks: Vec<Block>, key: Key) -> Source {
    let snapshot = Snapshot::new(name.leak(), rooted(&blocks), &Model::new(&blocks, key)).leaked();
    Source { snapshot, families: of_car(&blocks, key) }
}

/// Creates a database of two column families, whose keys were overwritten and deleted, in files of several levels and the WAL.
fn database(dir: &Path) -> Source {
    let mut options = rust_rocksdb::Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_size(64 << 10);
    let names = ["default", "more"];
    let db = rust_rocksdb::DB::open_cf(&options, dir, names).expect("a database");
    let mut families = Families::new();
    for (number, name) in names.into_iter().enumerate() {
        let family = db.cf_handle(name).expect("there");
        let records = families.entry(name.into()).or_default();
        for version in 0..3 {
            for at in (0..600u64).filter(|at| version == 0 || at % 3 == version) {
                let key = noise(at + 1000 * number as u64, 4 + (at % 40) as usize);
                let value = noise(at + version, (at * 7919 % 1400) as usize);
                db.put_cf(family, &key, &value).expect("put");
                records.insert(key, value);
            }
            let gone: Vec<Vec<u8>> = records.keys().skip(version as usize).step_by(9).cloned().collect();
            for key in gone {
                db.delete_cf(family, &key).expect("deleted");
                records.remove(&key);
            }
            // The last changes are in the WAL alone.
            if version < 2 {
                db.flush_cf(family).expect("flushed");
            }
        }
    }
    let all: BTreeMap<_, _> = families.values().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    let read = all.len() as u64;
    let model = Model { records: all, read, payload: 0 };
    let snapshot = Snapshot { file: dir.to_owned(), ..Snapshot::new("unused", Vec::new(), &model) }.leaked();
    Source { snapshot, families }
}

/// Bytes of a Steem block before its transactions, as `steem_block` writes it.
const STEEM_HEADER: usize = 20 + 4 + 9 + 20 + 1 + 65;

/// Steem blocks and the records of their database, with all indexes.
pub fn steem(last: u32, seed: u64) -> (Vec<LogBlock>, Families) {
    let blocks = log::steem(1, last, seed);
    let key = |block: &LogBlock| block.number.to_be_bytes().to_vec();
    let transaction = |block: &LogBlock| {
        // The count of transactions and that of signatures are not in the id.
        let unsigned = block.bytes[STEEM_HEADER + 1..].split_last()?.1;
        Some((Sha256::digest(unsigned)[..20].to_vec(), [&key(block)[..], &[0; 4]].concat()))
    };
    let families = [
        ("default", blocks.iter().map(|block| (key(block), block.bytes.clone())).collect()),
        ("block_ids", blocks.iter().map(|block| (block.id.clone(), key(block))).collect()),
        ("transactions", blocks.iter().filter_map(transaction).collect()),
    ];
    let families = families.map(|(name, records)| (name.to_owned(), records)).into();
    (blocks, families)
}

/// A file with so many blocks, whose records another model describes.
pub fn snapshot_of(file: PathBuf, read: u64) -> &'static Snapshot {
    let model = Model { records: BTreeMap::new(), read, payload: 0 };
    Snapshot { file, ..Snapshot::new("unused", Vec::new(), &model) }.leaked()
}

/// The shared data of all attempts of a kind with a key layout.
pub struct Plan {
    pub kind: &'static Kind,
    pub key: Key,
    pub source: &'static Source,
    /// A database that is added to.
    old: Option<PathBuf>,
    whole: Wanted,
    /// The expected content before the import, if any.
    before: Option<Wanted>,
    changes: OnceLock<u64>,
}

/// The files and plans that all attempts share.
pub struct World {
    pub place: Place,
    plans: Once<(usize, usize), Plan>,
    sources: Once<&'static str, Source>,
    twins: Once<&'static str, Twins>,
}

/// Values that are made once.
type Once<K, V> = Mutex<BTreeMap<K, &'static V>>;

fn once<K: Ord, V>(all: &Once<K, V>, key: K, make: impl FnOnce() -> V) -> &'static V {
    all.lock().expect("no panic").entry(key).or_insert_with(|| Box::leak(Box::new(make())))
}

impl World {
    pub fn new() -> Self {
        let place = Place::in_memory();
        Self { place, plans: Mutex::default(), sources: Mutex::default(), twins: Mutex::default() }
    }

    /// The kind and key layout for this number: one after the other.
    pub fn plan(&self, number: u64) -> &'static Plan {
        let wanted = std::env::var("BEDLOAD_ATTACK_KIND").unwrap_or_default();
        let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| KINDS[*kind].name.contains(&wanted)).collect();
        assert!(!kinds.is_empty(), "no kind of import is called like {wanted}");
        let number = number as usize;
        self.plan_of(kinds[number % kinds.len()], number / kinds.len() % 3)
    }

    pub fn plan_of(&self, kind: usize, key: usize) -> &'static Plan {
        let key_number = if !KINDS[kind].has_key_layout() { 0 } else { (key + kind) % 3 };
        once(&self.plans, (kind, key_number), || {
            let dir = self.place.path(&format!("{kind}-{key_number}"));
            std::fs::create_dir_all(&dir).expect("a folder");
            self.make(&KINDS[kind], KEYS[key_number], &dir)
        })
    }

    /// Two sources that look alike: CARs for a key layout, or logs.
    pub fn twins(&self, key: Option<Key>) -> &'static Twins {
        let name = key.map_or("log", Key::name);
        once(&self.twins, name, || Twins::new(&self.place.path(&format!("twins-{name}")), key))
    }

    fn make(&self, kind: &'static Kind, key: Key, dir: &Path) -> Plan {
        let blocks = |count, seed| blocks(count, seed, usize::MAX, key != Key::Digest);
        let source = if kind.is_log() {
            let name = if kind.more.is_empty() { "log" } else { "log with transactions" };
            once(&self.sources, name, || {
                let (blocks, mut families) = steem(700, 5);
                if kind.more.is_empty() {
                    families.remove("transactions");
                }
                let snapshot = Snapshot::new(name, log::raw(&blocks), &log::model(&blocks)).leaked();
                Source { snapshot, families }
            })
        } else if kind.way == Way::Copy {
            once(&self.sources, kind.name, || database(&self.place.path(kind.name)))
        } else {
            once(&self.sources, key.name(), || car_of(format!("{}.car", key.name()), blocks(420, 0), key))
        };
        let (mut whole, none) = (source.families.clone(), Families::new());
        let (mut old, mut before) = (None, None);
        if kind.into_existing {
            // Some of the blocks are there already.
            let mut there = blocks(200, 5000);
            there.extend(blocks(420, 0).into_iter().step_by(9));
            let first = car_of(format!("old-{}.car", key.name()), there, key);
            let case = Case::new(dir, first.snapshot, Way::Memory, From::File);
            case.arg(&["--key", key.name()]).finishes();
            for (family, records) in &first.families {
                whole.entry(family.clone()).or_default().extend(records.clone());
            }
            (old, before) = (Some(dir.join("db")), Some(Wanted::new(dir.join("before"), &first.families, &whole)));
        }
        let whole = Wanted::new(dir.join("whole"), &whole, &none);
        Plan { kind, key, source, old, whole, before, changes: OnceLock::new() }
    }
}

impl Plan {
    /// The key that is passed to `get`.
    pub fn any_key(&self, chance: &mut Chance) -> String {
        let records = &self.source.families["default"];
        let key = records.keys().nth(chance.below(records.len() as u64) as usize).expect("a key");
        if self.kind.is_log() {
            return u32::from_be_bytes(key[..4].try_into().expect("a number")).to_string();
        }
        log::hex(key)
    }
}

/// One attempt of a plan, in a new folder.
pub struct Attempt {
    pub plan: &'static Plan,
    pub case: Case,
}

/// The action of an injected fault (see `fault.c`).
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    Die,
    DieHalfway,
    Stop,
    Errno(rustix::io::Errno),
}

impl Attempt {
    pub fn new(plan: &'static Plan, dir: &Path) -> Self {
        if let Some(old) = &plan.old {
            copy(old, &dir.join("db"));
        }
        let case = Case::new(dir, plan.source.snapshot, plan.kind.way, plan.kind.from).arg(plan.kind.more);
        let mut case = case.env("BEDLOAD_DURABLE_BYTES", "40000");
        if plan.kind.into_existing {
            case = case.arg(&["--into-existing"]);
        }
        if plan.kind.has_key_layout() {
            case = case.arg(&["--key", plan.key.name()]);
        }
        Self { plan, case }
    }

    pub fn dir(&self) -> &Path {
        self.case.db.parent().expect("a folder")
    }

    pub fn name(&self) -> String {
        format!("{}, {:?}", self.plan.kind.name, self.plan.key)
    }

    /// One of the named points that it may pass.
    pub fn any_point(&self, chance: &mut Chance) -> &'static str {
        let points = points(self.plan.kind.way);
        points[chance.below(points.len() as u64) as usize]
    }

    /// The run that meets `fault` at the `number`-th call that changes anything; `times` 0 is from there on.
    pub fn with(&self, fault: Fault, number: u64, times: u64) -> Case {
        let library = fault::library().expect("checked at the start").to_str().expect("text");
        let what = match fault {
            Fault::Die => 0,
            Fault::DieHalfway => -1,
            Fault::Stop => -2,
            Fault::Errno(errno) => errno.raw_os_error(),
        };
        let fault = format!("change:{number}:{what}:{}", self.dir().display());
        let case = self.case.clone().env("LD_PRELOAD", library).env("BEDLOAD_FAULT", &fault);
        if times > 0 { case.env("BEDLOAD_FAULT_TIMES", &times.to_string()) } else { case }
    }

    pub fn changes(&self) -> u64 {
        *self.plan.changes.get_or_init(|| {
            let seen = tempfile::NamedTempFile::new().expect("a file");
            seen.as_file().set_len(8).expect("room");
            let dir = tempfile::tempdir_in(self.dir()).expect("a folder");
            let probe = Attempt::new(self.plan, dir.path());
            let case =
                probe.with(Fault::Die, u64::MAX >> 1, 0).env("BEDLOAD_FAULT_SEEN", seen.path().to_str().expect("text"));
            let ended = case.run();
            assert_eq!(ended.code, Some(0), "{}: {ended:?}", self.plan.kind.name);
            probe.has_finished(&ended).unwrap_or_else(|failure| panic!("undisturbed: {failure:?}"));
            let count = std::fs::read(seen.path()).expect("a count");
            let count = u64::from_le_bytes(count[..8].try_into().expect("8 bytes"));
            assert!(count > 30, "only {count} calls were seen in {}", self.plan.kind.name);
            count
        })
    }

    /// A random call of this plan. A resumed run makes fewer calls.
    pub fn any_change(&self, chance: &mut Chance) -> u64 {
        1 + chance.below(self.changes())
    }

    /// The report and the database are right, and nothing is left over.
    pub fn has_finished(&self, ended: &Ended) -> Judged<()> {
        self.check_final()?;
        let snapshot = self.plan.source.snapshot;
        let is_right = ended.json["blocks"]["read"] == snapshot.read
            && (self.plan.kind.into_existing || ended.json["digest"] == snapshot.digest);
        match (is_right, self.case.partial().exists()) {
            (true, false) => Ok(()),
            (true, true) => fail(Harm::WrongReport, "something is left of the work"),
            (false, _) => {
                fail(Harm::WrongReport, format!("{} of {} blocks: {ended:?}", snapshot.digest, snapshot.read))
            }
        }
    }

    pub fn check_final(&self) -> Judged<()> {
        self.plan.whole.check_database(&self.case.db)
    }

    /// Between two runs, the final name has the complete database or the one before the import.
    pub fn check_between_runs(&self) -> Judged<()> {
        match &self.plan.before {
            Some(before) => before.check_database(&self.case.db),
            None if self.case.db.symlink_metadata().is_ok() => self.check_final(),
            None => Ok(()),
        }
    }

    /// Runs the same command again. Returns a refusal, unless all was complete before.
    fn resumes(&self) -> Judged<Option<Ended>> {
        let ended = ends(self.case.start(), &[0, 4])?;
        if ended.code == Some(0) {
            return self.has_finished(&ended).map(|()| None);
        }
        if !self.plan.kind.into_existing && ended.stderr.contains("already exists") {
            return self.check_final().map(|()| None);
        }
        Ok(Some(ended))
    }

    /// Runs the valid command after a crash or a disk error: it must resume.
    pub fn finishes(&self) -> Judged<()> {
        match self.resumes()? {
            Some(ended) => fail(Harm::WrongReport, format!("it does not resume: {}", ended.stderr)),
            None => Ok(()),
        }
    }

    /// Runs the same command after its work was damaged: right records, or a refusal that `--restart` fixes.
    pub fn finishes_or_refuses(&self) -> Judged<Outcome> {
        let Some(ended) = self.resumes()? else { return Ok(Outcome::Resumed) };
        self.check_between_runs()?;
        if !ended.json["hint"].as_str().is_some_and(|hint| hint.contains("--restart")) {
            return fail(Harm::WrongReport, format!("no hint at --restart: {}", ended.stderr));
        }
        let ended = ends(self.case.clone().arg(&["--restart"]).start(), &[0])?;
        self.has_finished(&ended).map(|()| Outcome::Refused)
    }
}

/// All files below a folder, in the order of their names.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => found.extend(files(&path)),
            Ok(metadata) if metadata.is_file() && metadata.len() > 0 => found.push(path),
            _ => {}
        }
    }
    found
}
