//! Imports that are killed, and the conditions before and after.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::Value;

use super::model::{Key, Model};
use super::run::{BEDLOAD, Place, hermetic};

pub use super::{chance::*, process::*, snapshots::*};

pub fn ways(snapshot: &Snapshot) -> &'static [Way] {
    if snapshot.name == log().name { &[Way::Ranges, Way::Batches] } else { &[Way::Memory, Way::Spill, Way::Memtables] }
}

/// The path of the blocks into the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Memory,
    Spill,
    /// Only the offsets of blocks.
    Source,
    /// Through RocksDB's memtables.
    Memtables,
    /// Blocks of a log, range by range into files.
    Ranges,
    /// Blocks of a log, through RocksDB's memtables.
    Batches,
    /// Records of a database, range by range into files.
    Copy,
}

/// The named points that an import of this way passes before its database has the final name.
pub fn points(way: Way) -> Vec<&'static str> {
    const INGEST: &[&str] = &["built-synced", "built", "ingesting", "ingest", "ingested", "options-rewritten"];
    const READ: &[&str] = &["read-synced", "read", "read-synced:3", "read:4", "read-done-synced", "read-done"];
    const BUILT: &[&str] = &["built-synced:2", "built:2"];
    const RANGES: &[&str] =
        &["range-synced", "range", "range:3", "ranges", "ingesting", "ingest", "ingest:2", "ingested"];
    let own: &[&[&str]] = match way {
        Way::Memory => &[&["held"], INGEST],
        Way::Spill | Way::Source => &[READ, BUILT, INGEST],
        Way::Memtables => &[&["batch", "batch:3", "read-done", "compacted", "checked"]],
        Way::Ranges => &[RANGES],
        Way::Batches => &[&["batch", "batch:3", "ranges", "read-done"]],
        Way::Copy => &[BUILT, INGEST],
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
    /// The place, which is removed with the case.
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
            Way::Copy => &["--memory", "16MiB", "--set", "load.ingest.sst_size=64K"],
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
                ("BEDLOAD_DURABLE_BYTES".into(), "400000".into()),
                ("TMPDIR".into(), dir.to_str().expect("text").to_owned()),
            ],
            through: Vec::new(),
            key: Key::Cid,
            old: None,
            place: None,
        }
    }

    /// An import in a new place in memory.
    pub fn of(snapshot: &'static Snapshot, way: Way, from: From) -> Self {
        let place = Place::in_memory();
        let case = Self::new(&place.path(""), snapshot, way, from);
        Self { place: Some(Arc::new(place)), ..case }
    }

    /// An import of [`plain`] from a file, in a new place in memory.
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

    /// Starts it on a pipe of `bytes`, which then ends.
    pub fn start_fed(&self, bytes: &[u8]) -> Child {
        spawn_fed(&mut self.command(), bytes.to_vec())
    }

    /// Starts it; the pipe, if any, has `bytes`.
    fn start_with(&self, bytes: &[u8]) -> Child {
        if self.from == From::Pipe { self.start_fed(bytes) } else { self.command().spawn().expect("it starts") }
    }

    pub fn run_with(&self, bytes: &[u8]) -> Ended {
        ended(self.start_with(bytes))
    }

    pub fn start(&self) -> Child {
        self.start_with(&self.snapshot.bytes)
    }

    /// Starts it on a pipe that stalls after `bytes` until the handle is dropped.
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
        self.has_died(&self.dying_at(point).run(), point);
    }

    #[track_caller]
    fn has_died(&self, ended: &Ended, point: &str) {
        assert_eq!(ended.code, Some(137), "{point} of {}: {ended:?}", self.snapshot.name);
        self.nothing_under_the_name(point);
        self.holds_the_old(point, false);
    }

    /// Dies at `point` of an import into what was there before, finishes with the same command, and forgets the database.
    #[track_caller]
    pub fn resumes_from(&self, point: &str) -> Ended {
        self.resumes_from_each(&[point], || {}).swap_remove(0).1
    }

    /// Dies at one point after the other, each time with `damage` to its work, and finishes. An import that ends before
    /// the next point begins again. Returns each point and the run after it, and forgets the database.
    #[track_caller]
    pub fn resumes_from_each<'a>(&self, points: &[&'a str], mut damage: impl FnMut()) -> Vec<(&'a str, Ended)> {
        self.put_old();
        let (mut runs, mut last) = (Vec::new(), None);
        for &point in points {
            let mut ended = self.dying_at(point).run();
            if let (Some(0), Some(before)) = (ended.code, last) {
                self.has_finished(&ended);
                runs.push((before, ended));
                self.put_old();
                (ended, last) = (self.dying_at(point).run(), None);
            }
            self.has_died(&ended, point);
            damage();
            runs.extend(last.replace(point).map(|before| (before, ended)));
        }
        runs.extend(last.map(|before| (before, self.finishes())));
        self.again();
        runs
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

    /// Runs to the end: the same records as an import without a kill, and no unfinished work.
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
