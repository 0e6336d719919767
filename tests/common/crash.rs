//! Killed imports, and the conditions before and after.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;

use super::car::*;
use super::model::{Key, Model};
use super::run::{BEDLOAD, Place, hermetic, own_folder};

/// Time after which a run counts as hanging.
const PATIENCE: Duration = Duration::from_secs(100);

/// A snapshot that imports are killed over.
#[derive(Clone)]
pub struct Snapshot {
    pub name: &'static str,
    pub file: PathBuf,
    pub bytes: Vec<u8>,
    pub blocks: Vec<Block>,
    /// Digest of what a database must hold, worked out without the library.
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

/// Blocks of dag-cbor, every twentieth one a second time, 8 MiB in all.
pub fn plain() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let mut blocks: Vec<Block> = Vec::new();
        for i in 0..8000u64 {
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
        // The header in a frame of its own, then a few blocks a frame.
        let mut bytes = zstd(&header(&[blocks[0].0.clone()]));
        for group in blocks.chunks(8) {
            bytes.extend(zstd(&group.iter().flat_map(section).collect::<Vec<u8>>()));
        }
        bytes.extend(skippable(b"an index that nobody needs"));
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
        Snapshot::plain("mixed.car", (0..6000).map(make))
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
    [0..2600, 2500..2500, 2400..5600, 100..110, 5500..8000].map(|range| blocks[range].to_vec()).to_vec()
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
        let blocks = super::log::steem(1, 12_000, 31);
        Snapshot::new("block_log", super::log::raw(&blocks), &super::log::model(&blocks))
    })
}

/// Every kind that imports are killed over. One more kind is one more function like those above, and a place here: all
/// crash tests take it from this list.
pub fn snapshots() -> Vec<&'static Snapshot> {
    vec![plain(), forest(), mixed(), log(), several()]
}

pub fn ways(snapshot: &Snapshot) -> &'static [Way] {
    if snapshot.name == log().name { &[Way::Ranges, Way::Batches] } else { &[Way::Memory, Way::Spill, Way::Memtables] }
}

/// The path of the blocks into the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Memory,
    Spill,
    /// Only the places of blocks.
    Source,
    /// Through RocksDB's memtables.
    Memtables,
    /// Those of a log, range by range into files.
    Ranges,
    /// Those of a log, through RocksDB's memtables.
    Batches,
}

/// The named points that an import of this way passes before its database has the final name.
pub fn points(way: Way) -> Vec<&'static str> {
    const INGEST: &[&str] = &["built-synced", "built", "ingesting", "ingest", "ingested", "options-rewritten"];
    const READ: &[&str] = &["read-synced", "read", "read-synced:3", "read:4", "read-done-synced", "read-done"];
    const BUILT: &[&str] = &["built-synced:2", "built:2", "built-synced:3", "built:3"];
    const RANGES: &[&str] =
        &["range-synced", "range", "range:3", "ranges", "ingesting", "ingest", "ingest:2", "ingested"];
    let own: &[&[&str]] = match way {
        Way::Memory => &[&["held"], INGEST],
        Way::Spill | Way::Source => &[READ, BUILT, INGEST],
        Way::Memtables => &[&["batch", "batch:3", "read-done", "compacted", "checked"]],
        Way::Ranges => &[RANGES],
        Way::Batches => &[&["batch", "batch:3", "ranges", "read-done"]],
    };
    [&["start"], &own.concat()[..], &["recorded", "complete"]].concat()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    File,
    Pipe,
    Stdin,
}

/// One import that is run again and again.
#[derive(Clone)]
pub struct Case {
    pub snapshot: &'static Snapshot,
    pub from: From,
    pub db: PathBuf,
    pub args: Vec<std::ffi::OsString>,
    pub env: Vec<(String, String)>,
    /// The command that runs the binary, e.g. `prlimit`.
    pub through: Vec<std::ffi::OsString>,
    pub key: Key,
    /// The content of the database before an import into it.
    pub old: Option<Model>,
    /// The place that goes with the case.
    pub place: Option<Arc<Place>>,
}

impl Case {
    pub fn new(dir: &Path, snapshot: &'static Snapshot, way: Way, from: From) -> Self {
        std::fs::create_dir_all(dir).expect("a folder");
        let args: &[&str] = match way {
            Way::Memory => &["--plan", "memory", "--memory", "96MiB"],
            Way::Spill => &["--plan", "spill", "--memory", "16MiB"],
            Way::Source => &["--plan", "source", "--memory", "16MiB"],
            Way::Memtables | Way::Batches => &["--preset", "memtable", "--memory", "96MiB"],
            Way::Ranges => &["--memory", "16MiB"],
        };
        let joined: &[&str] = if snapshot.name == "several" { &["--concatenated"] } else { &[] };
        let small = ["--set", "load.cf.write_buffer_size=1M", "--set", "load.write.batch_bytes=64K"];
        let small = if matches!(way, Way::Memtables | Way::Batches) { &small[..] } else { &[] };
        Self {
            snapshot,
            from,
            db: dir.join("db"),
            args: args.iter().chain(small).chain(joined).map(Into::into).collect(),
            env: vec![
                ("BEDLOAD_DURABLE_BYTES".into(), (1 << 20).to_string()),
                ("TMPDIR".into(), dir.to_str().expect("text").to_owned()),
            ],
            through: Vec::new(),
            key: Key::Cid,
            old: None,
            place: None,
        }
    }

    /// An import in a place of its own in memory.
    pub fn of(snapshot: &'static Snapshot, way: Way, from: From) -> Self {
        let place = Place::in_memory();
        let case = Self::new(&place.path(""), snapshot, way, from);
        Self { place: Some(Arc::new(place)), ..case }
    }

    /// An import of [`plain`] from a file, in a place of its own.
    pub fn plain(way: Way) -> Self {
        Self::of(plain(), way, From::File)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.db.with_file_name(name)
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir(&path).expect("a folder");
        path
    }

    /// Puts partitions into `work` beside the database.
    pub fn work_dir(self) -> Self {
        let work = self.path("work");
        self.arg(&["--work-dir", work.to_str().expect("text")])
    }

    pub fn key(self, key: Key) -> Self {
        Self { key, ..self.arg(&["--key", key.name()]) }
    }

    /// Adds to a database that holds `old`; [`Case::put_old`] makes it.
    pub fn into_existing(self, old: &Snapshot) -> Self {
        let old = Model::new(&old.blocks, self.key);
        Self { old: Some(old), ..self.arg(&["--into-existing"]) }
    }

    /// Replaces the database with one that has the content before the import.
    pub fn put_old(&self) {
        self.again();
        let Some(old) = &self.old else { return };
        std::fs::create_dir_all(&self.db).expect("a folder");
        let db = rust_rocksdb::DB::open_default(&self.db).expect("a database");
        for (index, (key, value)) in old.records.iter().enumerate() {
            db.put(key, value).expect("written");
            // The last ones are in the WAL alone.
            if index == old.records.len() * 9 / 10 {
                db.flush().expect("flushed");
            }
        }
    }

    /// Digest of the records of this import alone.
    pub fn digest(&self) -> String {
        match self.key {
            Key::Cid => self.snapshot.digest.clone(),
            key => Model::new(&self.snapshot.blocks, key).digest(),
        }
    }

    /// A database that was there opens, and holds all that it did; with nothing else where `alone`.
    #[track_caller]
    pub fn holds_the_old(&self, what: &str, alone: bool) {
        let Some(old) = &self.old else { return };
        let options = rust_rocksdb::Options::default();
        let db = rust_rocksdb::DB::open_for_read_only(&options, &self.db, false).expect(what);
        let is_there = |(key, value): (&Vec<u8>, &Vec<u8>)| db.get(key).expect(what).as_ref() == Some(value);
        assert!(old.records.iter().all(is_there), "{what}: an old record is lost");
        let is_all = || db.iterator(rust_rocksdb::IteratorMode::Start).count() == old.records.len();
        assert!(!alone || is_all(), "{what}: there is more than before");
    }

    pub fn arg(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn through(mut self, args: &[&str]) -> Self {
        self.through = args.iter().map(Into::into).collect();
        self
    }

    pub fn dying_at(&self, point: &str) -> Self {
        self.clone().env("BEDLOAD_ABORT_AT", point)
    }

    pub fn partial(&self) -> PathBuf {
        super::run::partial(&self.db)
    }

    pub fn command(&self) -> Command {
        let binary = std::ffi::OsString::from(BEDLOAD);
        let mut words = self.through.iter().chain([&binary]);
        let mut command = hermetic(words.next().expect("at least the binary"));
        let source = if self.from == From::File { &self.snapshot.file } else { Path::new("-") };
        command.args(words).arg("import").arg(source).arg("--db").arg(&self.db);
        command.args(["--json", "--progress", "off", "--threads", "2"]).args(&self.args).envs(self.env.iter().cloned());
        if self.from == From::Stdin {
            command.stdin(std::fs::File::open(&self.snapshot.file).expect("the snapshot"));
        } else {
            command.stdin(Stdio::null());
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts it on a pipe that brings `bytes` and is closed.
    pub fn start_fed(&self, bytes: &[u8]) -> Child {
        spawn_fed(&mut self.command(), bytes.to_vec())
    }

    /// Starts it; a pipe brings `bytes`.
    fn start_with(&self, bytes: &[u8]) -> Child {
        if self.from == From::Pipe { self.start_fed(bytes) } else { self.command().spawn().expect("it starts") }
    }

    pub fn run_with(&self, bytes: &[u8]) -> Ended {
        ended(self.start_with(bytes))
    }

    pub fn start(&self) -> Child {
        self.start_with(&self.snapshot.bytes)
    }

    /// Starts it on a pipe that brings `bytes` and then nothing, until the handle is dropped.
    pub fn start_stalled(&self, bytes: &[u8]) -> (Child, std::process::ChildStdin) {
        let mut child = self.command().stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(bytes).expect("it reads");
        (child, stdin)
    }

    /// Stops the import at a named point, runs `meanwhile`, and continues the import to its end.
    #[track_caller]
    pub fn stopped_at(&self, point: &str, meanwhile: impl FnOnce()) -> Ended {
        let child = self.clone().env("BEDLOAD_STOP_AT", point).start();
        assert!(stops(&child), "it ended before {point}");
        meanwhile();
        send(&child, Signal::CONT);
        ended(child)
    }

    pub fn run(&self) -> Ended {
        ended(self.start())
    }

    #[track_caller]
    pub fn dies_at(&self, point: &str) {
        let ended = self.dying_at(point).run();
        assert_eq!(ended.code, Some(137), "{point} of {}: {ended:?}", self.snapshot.name);
        self.nothing_under_the_name(point);
        self.holds_the_old(point, false);
    }

    /// Dies at `point` of an import into what was there before, finishes with the same command, and forgets the database.
    #[track_caller]
    pub fn resumes_from(&self, point: &str) -> Ended {
        self.put_old();
        self.dies_at(point);
        let ended = self.finishes();
        self.again();
        ended
    }

    #[track_caller]
    pub fn fails(&self, code: i32, what: &str, words: &[&str]) -> Ended {
        let ended = self.run();
        ended.failed(code, what, words);
        self.nothing_under_the_name(what);
        ended
    }

    /// Is stopped at a named point for `meanwhile`, and then refused with exit code 4 and all of `words`.
    #[track_caller]
    pub fn is_refused_after(&self, point: &str, what: &str, words: &[&str], meanwhile: impl FnOnce()) {
        let ended = self.stopped_at(point, meanwhile);
        ended.failed(4, &format!("{what}, at {point}"), words);
        self.nothing_under_the_name(what);
    }

    /// Nothing exists under the final name before the import is complete.
    #[track_caller]
    pub fn nothing_under_the_name(&self, point: &str) {
        if !point.starts_with("renamed") && self.old.is_none() && !self.args.contains(&"--replace".into()) {
            assert!(self.db.symlink_metadata().is_err(), "something exists under the final name after {point}");
        }
    }

    /// Runs to the end: the same records as ever, and nothing left over.
    #[track_caller]
    pub fn finishes(&self) -> Ended {
        let ended = self.run();
        self.has_finished(&ended);
        ended
    }

    #[track_caller]
    pub fn has_finished(&self, ended: &Ended) {
        assert_eq!(ended.code, Some(0), "{}: {ended:?}", self.snapshot.name);
        assert_eq!(ended.text("/digest"), self.digest(), "{}: the report's digest", self.snapshot.name);
        assert_eq!(ended.number("/blocks/read"), self.snapshot.read, "{}: blocks read", self.snapshot.name);
        assert_eq!(ended.number("/blocks/written"), self.snapshot.records, "{}: blocks written", self.snapshot.name);
        self.holds_everything();
        assert!(!self.partial().exists(), "something is left of the work");
    }

    /// Reads the database with RocksDB itself.
    #[track_caller]
    pub fn holds_everything(&self) {
        let found = Model { records: super::model::records(&self.db), read: 0, payload: 0 };
        let mut expected = self.digest();
        if let Some(old) = &self.old {
            let mut all = Model::new(&self.snapshot.blocks, self.key);
            all.records.extend(old.records.clone());
            expected = all.digest();
        }
        assert_eq!(found.digest(), expected, "{}: the database's digest", self.snapshot.name);
    }

    /// Is refused with exit code 4, and all of `words` in what it says.
    #[track_caller]
    pub fn is_refused(&self, words: &[&str]) {
        self.run().failed(4, self.snapshot.name, words);
    }

    /// Runs after the work was damaged, and expects the right records, or exit code 4 with a hint and then the right
    /// records after `--restart`. Returns true if the run resumed without `--restart`.
    #[track_caller]
    pub fn finishes_or_says_why(&self, what: &str) -> bool {
        let ended = self.run();
        if ended.code == Some(0) {
            self.has_finished(&ended);
            return true;
        }
        assert_eq!(ended.code, Some(4), "{what}: {ended:?}");
        assert!(ended.text("/hint").contains("--restart"), "{what}: {ended:?}");
        self.nothing_under_the_name(what);
        self.clone().arg(&["--restart"]).finishes();
        false
    }

    /// Forgets the database, for the next round.
    pub fn again(&self) {
        for dir in [self.db.clone(), self.partial()].iter().filter(|dir| dir.exists()) {
            std::fs::remove_dir_all(dir).expect("it is ours");
        }
    }

    /// The lines of the journal without their checksums.
    pub fn journal(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.partial().join("journal")).expect("a journal");
        text.lines().map(|line| serde_json::from_str(&line[17..]).expect("JSON")).collect()
    }

    /// Rewrites the first line of the journal, with a right checksum.
    pub fn edit_start(&self, edit: impl FnOnce(&mut Value)) {
        let path = self.partial().join("journal");
        let text = std::fs::read_to_string(&path).expect("a journal");
        let mut start = self.journal().swap_remove(0);
        edit(&mut start);
        let sum = twox_hash::XxHash3_64::oneshot(start.to_string().as_bytes());
        let (_, rest) = text.split_once('\n').expect("a line");
        std::fs::write(path, format!("{sum:016x} {start}\n{rest}")).expect("written");
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub json: Value,
    pub stderr: String,
    pub took: Duration,
}

/// Starts a command on a pipe that brings `bytes` and is closed.
pub fn spawn_fed(command: &mut Command, bytes: Vec<u8>) -> Child {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that dies does not read to the end.
    std::thread::spawn(move || stdin.write_all(&bytes));
    child
}

/// Waits for a run to end; one that hangs is killed and fails the test.
#[track_caller]
pub fn ended(child: Child) -> Ended {
    let (ended, hung) = ended_within(child, PATIENCE);
    assert!(!hung, "it hung: {}", ended.stderr);
    ended
}

/// Waits for a run to end, and tells whether it had to be killed because it hung.
pub fn ended_within(child: Child, patience: Duration) -> (Ended, bool) {
    let started = Instant::now();
    let pid = Pid::from_child(&child);
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let hangs = is_done.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        hangs && kill_process(pid, Signal::KILL).is_ok()
    });
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    drop(done);
    let hung = watch.join().expect("a watch");
    let ended = Ended {
        code: status.code(),
        signal: status.signal(),
        json: serde_json::from_slice(&stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        took: started.elapsed(),
    };
    (ended, hung)
}

impl Ended {
    #[track_caller]
    pub fn text(&self, path: &str) -> &str {
        self.json.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path} in {self:?}"))
    }

    #[track_caller]
    pub fn number(&self, path: &str) -> u64 {
        self.json.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {self:?}"))
    }

    #[track_caller]
    pub fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in what it says:\n{}", self.stderr);
        }
    }

    #[track_caller]
    pub fn failed(&self, code: i32, what: &str, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{what}: {self:?}");
        let missing: Vec<&&str> = words.iter().filter(|word| !self.stderr.contains(**word)).collect();
        assert!(missing.is_empty(), "{what}: {missing:?} are not in what it says:\n{}", self.stderr);
    }
}

/// Waits until a run stops. Returns false if it ends before.
pub fn stops(child: &Child) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = || waitid(WaitId::Pid(Pid::from_child(child)), options).expect("a child");
    wait_for(|| status().is_some());
    status().expect("it neither runs nor is waited for").stopped()
}

pub fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it lives");
}

/// True if a command of the system works here.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Waits until a condition holds.
#[track_caller]
pub fn wait_for(is_met: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_met() {
        assert!(started.elapsed() < PATIENCE, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn is_long() -> bool {
    std::env::var_os("BEDLOAD_LONG_TESTS").is_some_and(|value| value == "1")
}

/// Number of rounds of a random test: `few`, or `many` in the long tests.
pub fn rounds(few: usize, many: usize) -> usize {
    if is_long() { many } else { few }
}

/// Returns all of `all` in the long tests, otherwise the one whose turn it is in round `nth`.
pub fn in_turn<T>(all: &[T], nth: usize) -> &[T] {
    let one = nth % all.len().max(1);
    if is_long() { all } else { all.get(one..=one).unwrap_or_default() }
}

/// Copies with all that belongs to the files; hard links stay hard links.
pub fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success(), "{} cannot be copied", from.display());
}

/// Metadata of a snapshot of version 2 (FRC-0108), which name its F3 data and its head.
pub fn f3_metadata(f3: &[u8], head: &[u8]) -> Block {
    use ipld_core::ipld::Ipld;
    let link = |cid: &[u8]| Ipld::Link(cid::Cid::try_from(cid).expect("a CID"));
    let fields = [("F3Data", link(f3)), ("HeadTipsetKey", Ipld::List(vec![link(head)])), ("Version", Ipld::Integer(2))];
    let map = Ipld::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    block(&serde_ipld_dagcbor::to_vec(&map).expect("encoded"))
}

/// Numbers that differ from run to run, shown so that a failure can be looked at again.
pub struct Chance(pub u64);

impl Chance {
    pub fn new() -> Self {
        Self::of(Self::seed())
    }

    pub fn seed() -> u64 {
        let given = std::env::var("BEDLOAD_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis() as u64 % 1_000_000;
        let seed = given.unwrap_or_else(now);
        eprintln!("BEDLOAD_TEST_SEED={seed} makes the same choices again");
        seed
    }

    /// A generator with a fixed seed.
    pub fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.word() >> 8) % limit.max(1)
    }
}

pub fn list(dir: &Path) -> Vec<std::path::PathBuf> {
    dir.read_dir().into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect()
}
