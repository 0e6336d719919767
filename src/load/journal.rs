//! The journal of what is done and durable: the file `journal` in `<db>.partial`.
//!
//! One line an entry, only ever appended, and only after what it names is on the disk:
//!
//! ```text
//! <16 hex digits: XXH3-64 of the rest of the line> <JSON>\n
//! ```
//!
//! A line that is torn, or whose checksum is wrong, ends the journal: it and what follows is dropped. Every entry can
//! be lost without harm to those before it. An entry never takes anything back, but for what was done in an existing
//! database ([`Entry::Restoring`], [`Entry::Undone`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::hash::digest_key::DigestKey;
use crate::load::built::{RangeDone, SstFile, Tally, UploadFile};
use crate::load::database_state::DatabaseState;
use crate::load::identity::{Identity, SpillPlace};
use crate::load::source_identity::Inode;
use crate::os::files::sync_dir;
use crate::os::private;
use crate::sort::marks::Mark;
use crate::sort::router::{ClassCounts, Router};
use crate::sort::spill::Extent;
use crate::source::car::sources::SourceRead;
use crate::source::input::Restart;
use crate::text::size::{counted, grouped, human};

/// The version of the form of all entries, [`Identity`] among them.
const VERSION: u32 = 7;

/// A line longer than this is not ours: the longest one has two numbers and a digest for each of 65,536 partitions.
const MAX_LINE: u64 = 64 << 20;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum Entry {
    /// The first line: what is imported, and how; and, if the source may be read twice, the key of its digests.
    Start { version: u32, identity: Box<Identity>, digest_key: Option<DigestKey> },
    /// How keys are routed; later entries count in these partitions.
    Routed {
        router: Router,
        /// Whether partitions refer to the source.
        #[serde(default)]
        by_reference: bool,
    },
    /// Hash functions that keys are digests of: at least those of all blocks of later entries. Only where keys do not name
    /// their function.
    Hashed { functions: Vec<u64> },
    /// All blocks before `checkpoint` are in the partitions, which are at least as long as `extents` say.
    Read {
        #[serde(rename = "mark")]
        checkpoint: Checkpoint,
        extents: Vec<(u32, Extent)>,
        #[serde(default, skip_serializing_if = "SourceNews::is_empty")]
        news: SourceNews,
    },
    /// The source has been read to its end, into memory or through memtables: a later run reads it again, or compares it.
    Held {
        #[serde(rename = "mark")]
        checkpoint: Checkpoint,
        padding: u64,
        #[serde(default, skip_serializing_if = "SourceNews::is_empty")]
        news: SourceNews,
    },
    /// The source has been read to its end.
    ReadDone {
        #[serde(rename = "mark")]
        checkpoint: Checkpoint,
        extents: Vec<(u32, Extent)>,
        padding: u64,
        #[serde(default, skip_serializing_if = "SourceNews::is_empty")]
        news: SourceNews,
    },
    /// The partitions from `first` to before `end` are in finished files; their own may be gone. `repeats` are duplicates
    /// by the source that has them.
    Built {
        first: u32,
        end: u32,
        files: Vec<SstFile>,
        tally: Tally,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repeats: Vec<(u32, u64)>,
    },
    /// A file of a bundle is here, and its bytes are those that the bundle names. While it has this inode and ctime they stay so.
    Fetched { number: u32, file: SstFile, tally: Tally, inode: Inode },
    /// A finished file is published there.
    Published { place: String, file: UploadFile },
    /// Consecutive blocks of a log are in finished files.
    Range(Box<RangeDone>),
    /// RocksDB begins to ingest the files; from here on they may move one by one.
    Ingesting,
    /// RocksDB has all files.
    Ingested,
    /// An existing database has been opened for writing, and has this state until the next opening.
    Opened { state: DatabaseState },
    /// The existing database goes back to its checkpoint.
    Restoring,
    /// The existing database has nothing of this import, or nothing that is used.
    Undone,
    /// The database is complete; all that is left is its name.
    Complete,
    /// The name of the complete database is exchanged with that of the one that it replaces, from here on at any time.
    /// Only the new one has a `BEDLOAD.json` with this checksum.
    Exchanging { record: String },
}

/// What is known of the sources of CARs, beyond what earlier entries say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SourceNews {
    /// Each source that was read since the last entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceRead>,
    /// Where partitions pass from one source to another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(u32, Mark)>,
}

/// How far the source has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// The source that is read, counted from 0; those before it are read to their ends.
    #[serde(default, skip_serializing_if = "is_first")]
    pub source: u32,
    /// Offset in the decompressed source of the next section.
    pub offset: u64,
    /// Bytes of the compressed sources taken.
    pub consumed: u64,
    /// XXH3-64 of the decompressed source between its header and `offset`; only for sources that cannot be sought.
    pub checksum: Option<u64>,
    /// Where a stream can be unpacked from, at or before `offset`; `None` where that is its beginning only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Blocks before `offset`.
    pub blocks: u64,
    /// Bytes of their values.
    pub payload: u64,
    /// Digest of their records, duplicates included: the sum of all that was verified. Keyed, if the import has partitions.
    pub digest: ContentDigest,
    /// All blocks before `offset`, those of other shards included, by their classes; none where they were not routed.
    #[serde(default)]
    pub framed: ClassCounts,
}

impl SourceNews {
    fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.marks.is_empty()
    }
}

fn is_first(source: &u32) -> bool {
    *source == 0
}

impl Checkpoint {
    /// The records of all blocks before it.
    pub fn content(&self) -> Content {
        Content { records: self.blocks, digest: self.digest }
    }

    /// Whether both are of the same blocks.
    pub fn is_same(&self, other: &Self) -> bool {
        // How far a decoder has read ahead, and where it could begin again, say nothing.
        Self { consumed: 0, restart: None, ..*self } == Self { consumed: 0, restart: None, ..*other }
    }
}

/// The state of an import after all entries of its journal.
#[derive(Debug, Default)]
pub(super) struct ResumedState {
    pub identity: Option<Identity>,
    /// The key by which the records of a CAR are compared with those that were verified. Without one nothing is read twice, and
    /// the content digest suffices.
    pub digest_key: Option<DigestKey>,
    /// Of each source, whether its inode or ctime is not what it was, or not known: what was taken is compared with what is
    /// there now.
    pub touched: Vec<bool>,
    /// Whether the run that began has compared the source, where it is one, with the same sum as this one.
    pub compared: bool,
    /// The sources of CARs that were read.
    pub sources: Vec<SourceRead>,
    /// Where partitions pass from one source to another.
    pub marks: Vec<(u32, Mark)>,
    /// Duplicates of partitions that are built, by source.
    pub repeats: Vec<(u32, u64)>,
    pub router: Option<Router>,
    /// Whether partitions refer to the source, as the run that made them decided.
    pub by_reference: Option<bool>,
    pub functions: BTreeSet<u64>,
    /// The last durable checkpoint, and the partitions' lengths at it.
    pub read: Option<(Checkpoint, Vec<(u32, Extent)>)>,
    /// Bytes of null padding, once the source has been read to its end.
    pub read_done: Option<u64>,
    /// What was read into memory, and its null padding.
    pub held: Option<(Checkpoint, u64)>,
    /// Ranges of partitions that are built.
    pub built: Vec<(u32, u32)>,
    pub files: Vec<SstFile>,
    pub tally: Tally,
    /// The files of those partitions.
    pub built_files: Vec<SstFile>,
    /// Files of a bundle that are here: their numbers, and their inodes when they were verified.
    pub fetched: BTreeMap<u32, Inode>,
    /// Files that are published, and where.
    pub published: Vec<(String, UploadFile)>,
    /// Ranges of a log that are built.
    pub ranges: Vec<RangeDone>,
    pub ingesting: bool,
    pub ingested: bool,
    /// The state of an existing database as this import has left it.
    pub opened: Option<DatabaseState>,
    /// Whether an existing database may be on its way back to its checkpoint.
    pub restoring: bool,
    pub complete: bool,
    /// The checksum of the complete database's `BEDLOAD.json`, once its name may have been exchanged.
    pub exchanging: Option<String>,
    /// Whether the journal ends in a line that is torn or damaged.
    pub is_damaged: bool,
}

impl Entry {
    /// The first line of a journal in the current form.
    pub fn start(identity: Identity, digest_key: Option<DigestKey>) -> Self {
        Self::Start { version: VERSION, identity: Box::new(identity), digest_key }
    }
}

impl ResumedState {
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Start { identity, digest_key, .. } => {
                (self.identity, self.digest_key) = (Some(*identity), digest_key);
            }
            Entry::Routed { router, by_reference } => {
                (self.router, self.by_reference) = (Some(router), Some(by_reference));
            }
            Entry::Hashed { functions } => self.functions.extend(functions),
            Entry::Held { checkpoint, padding, news } => {
                self.held = Some((checkpoint, padding));
                self.learn(news);
            }
            Entry::Read { checkpoint, extents, news } => {
                self.read = Some((checkpoint, extents));
                self.learn(news);
            }
            Entry::ReadDone { checkpoint, extents, padding, news } => {
                self.read = Some((checkpoint, extents));
                self.read_done = Some(padding);
                self.learn(news);
            }
            Entry::Built { first, end, files, tally, repeats } => {
                self.repeats.extend(repeats);
                self.built.push((first, end));
                self.built_files.extend(files.iter().cloned());
                self.files.extend(files);
                self.tally.add(tally);
            }
            Entry::Fetched { number, file, tally, inode } => {
                // A file that was found changed was fetched once more.
                if self.fetched.insert(number, inode).is_none() {
                    self.tally.add(tally);
                    self.files.push(file);
                }
            }
            Entry::Published { place, file } => self.published.push((place, file)),
            Entry::Range(done) => {
                self.files.extend(done.files().cloned());
                self.ranges.push(*done);
            }
            Entry::Ingesting => self.ingesting = true,
            Entry::Ingested => self.ingested = true,
            Entry::Opened { state } => self.opened = Some(state),
            Entry::Restoring => self.restoring = true,
            Entry::Undone => self.undo(),
            Entry::Complete => self.complete = true,
            Entry::Exchanging { record } => self.exchanging = Some(record),
        }
    }

    /// The existing database has nothing of this import any more. Files of the import stay.
    fn undo(&mut self) {
        (self.restoring, self.opened, self.ingesting, self.ingested) = (false, None, false, false);
    }

    fn learn(&mut self, news: SourceNews) {
        for read in news.sources {
            // Entries come in the order of the sources.
            match self.sources.binary_search_by_key(&read.source, |known| known.source) {
                Ok(place) => self.sources[place].take(read),
                Err(place) => self.sources.insert(place, read),
            }
        }
        self.marks.extend(news.marks);
    }

    /// The hint for an interrupted import that has come so far.
    pub fn hint(&self) -> String {
        let again = "run the same command again: it resumes";
        let files = match self.files.len() as u64 {
            0 => None,
            count => {
                let bytes = self.files.iter().map(|file| file.bytes).sum();
                Some(format!("{}, {}", counted(count, "finished file", "finished files"), human(bytes)))
            }
        };
        let read = self.read.as_ref().map(|(checkpoint, _)| match self.read_done {
            Some(_) => "after the last byte of the source".to_owned(),
            None => format!("at byte {} of the source", grouped(checkpoint.consumed)),
        });
        match (read, files) {
            _ if self.ingesting || self.complete => format!("{again} with the complete database"),
            (Some(read), Some(files)) => format!("{again} {read}, with {files}"),
            (Some(read), None) => format!("{again} {read}"),
            (None, Some(files)) if self.held.is_some() => format!("{again} with {files}, and reads the source again"),
            (None, Some(files)) => format!("{again} with {files}"),
            (None, None) => "nothing is durable yet: the same command starts from the beginning".into(),
        }
    }

    /// Whether any source was touched since.
    pub fn is_touched(&self) -> bool {
        self.touched.is_empty() || self.touched.iter().any(|touched| *touched)
    }

    /// Whether a source may be another one than it was.
    pub fn is_source_touched(&self, source: u32) -> bool {
        self.touched.get(source as usize).is_none_or(|touched| *touched)
    }

    /// How far a CAR was read, and its null padding, if that was to its end.
    pub fn whole(&self) -> Option<(Checkpoint, u64)> {
        let read = self.read.as_ref().zip(self.read_done).map(|((checkpoint, _), padding)| (*checkpoint, padding));
        read.or(self.held)
    }

    /// Whether all of a log was read.
    pub fn is_whole_log(&self) -> bool {
        self.ingesting || self.held.is_some()
    }

    /// Takes the entries of a journal; how many bytes of it are valid.
    fn replay(&mut self, journal: impl Read) -> io::Result<u64> {
        let (valid, is_damaged) = parse(journal, |entry| self.take(entry))?;
        self.is_damaged = is_damaged;
        Ok(valid)
    }

    /// Whether a partition is in finished files.
    pub fn is_built(&self, partition: u32) -> bool {
        self.built.iter().any(|&(first, end)| (first..end).contains(&partition))
    }
}

/// An open journal.
pub(super) struct Journal {
    /// The error after a failure: a line behind a torn one would be lost without an error.
    file: Mutex<io::Result<File>>,
    path: PathBuf,
    functions: Mutex<Functions>,
}

/// Hash functions of blocks that were read.
#[derive(Debug, Default)]
struct Functions {
    met: BTreeSet<u64>,
    /// How many of them are in the file.
    written: usize,
}

impl Journal {
    /// The journal's path in a partial directory.
    pub fn path(partial: &Path) -> PathBuf {
        partial.join("journal")
    }

    /// Opens the journal of a partial directory, or makes one, and replays it.
    pub fn open(partial: &Path) -> Result<(Self, ResumedState)> {
        let path = Self::path(partial);
        let mut file = private::open_file(&path, true)?;
        let mut resumed = ResumedState::default();
        let valid = resumed.replay(&file).map_err(Error::io("read", &path))?;
        // A torn line is cut off, so that the next one begins at the start of a line.
        let mut cut = || {
            file.set_len(valid)?;
            file.seek(SeekFrom::Start(valid))?;
            file.sync_all()
        };
        cut().map_err(Error::io("cut", &path))?;
        sync_dir(partial)?;
        let met = resumed.functions.clone();
        let functions = Mutex::new(Functions { written: met.len(), met });
        Ok((Self { file: Mutex::new(Ok(file)), path, functions }, resumed))
    }

    /// Checks that a journal, where there is one, has the current form.
    pub fn check_version(partial: &Path) -> Result<()> {
        #[derive(Deserialize)]
        struct Start {
            entry: String,
            /// The first form had none.
            #[serde(default)]
            version: u32,
        }
        match checked(&Self::first_line(partial)).and_then(|json| serde_json::from_slice(json).ok()) {
            Some(Start { entry, version }) if entry == "start" && version != VERSION => Err(Error::State {
                path: partial.to_owned(),
                reason: format!(
                    "another version of bedload began the unfinished import: its journal has the form {version}, this \
                     program reads the form {VERSION}"
                ),
                hint: "finish it with the program that began it, or throw it away with --restart".into(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the place of the partitions of the import that has begun in a partial directory.
    pub fn spill_place(partial: &Path) -> Option<SpillPlace> {
        #[derive(Deserialize)]
        struct Start {
            identity: SpillPlace,
        }
        let start: Start = serde_json::from_slice(checked(&Self::first_line(partial))?).ok()?;
        Some(start.identity)
    }

    /// The first line; nothing where the journal cannot be read, which [`Self::open`] reports.
    fn first_line(partial: &Path) -> Vec<u8> {
        let mut line = Vec::new();
        if let Ok(file) = private::read_file(&Self::path(partial)) {
            let _ = BufReader::new(file).take(MAX_LINE).read_until(b'\n', &mut line);
        }
        line
    }

    /// Reads the journal of a partial directory without changing it; nothing when there is none.
    pub fn peek(partial: &Path) -> ResumedState {
        let mut resumed = ResumedState::default();
        if let Ok(file) = private::read_file(&Self::path(partial)) {
            // What cannot be read is not known.
            let _ = resumed.replay(&file);
        }
        resumed
    }

    /// Appends an entry and waits until it is on the disk. What it names must be there already.
    pub fn append(&self, entry: &Entry) -> Result<()> {
        let functions = self.functions_entry().map(|entry| self.line(&entry)).transpose()?.unwrap_or_default();
        let line = self.line(entry)?;
        let mut slot = self.file.lock();
        let outcome = match &mut *slot {
            Ok(file) => file.write_all(&functions).and_then(|()| file.write_all(&line)).and_then(|()| file.sync_data()),
            Err(error) => Err(same(error)),
        };
        if let Err(error) = &outcome {
            *slot = Err(same(error));
        }
        outcome.map_err(Error::io("write", &self.path))
    }

    /// Notes the hash function of a key that does not name it; written with the next entry.
    pub fn met(&self, function: u64) {
        self.functions.lock().met.insert(function);
    }

    /// All that were noted, also by earlier runs.
    pub fn functions(&self) -> Vec<u64> {
        self.functions.lock().met.iter().copied().collect()
    }

    /// The entry for functions that are not in the file yet, if any.
    fn functions_entry(&self) -> Option<Entry> {
        let mut functions = self.functions.lock();
        let has_new = functions.met.len() > functions.written;
        functions.written = functions.met.len();
        has_new.then(|| Entry::Hashed { functions: functions.met.iter().copied().collect() })
    }

    fn line(&self, entry: &Entry) -> Result<Vec<u8>> {
        // The line of many sources is long: it is written once, and then its checksum in front of it.
        const SUM: usize = 17;
        let mut line = vec![b' '; SUM];
        serde_json::to_writer(&mut line, entry).map_err(|error| {
            Error::io("write", &self.path)(std::io::Error::new(std::io::ErrorKind::InvalidData, error))
        })?;
        let (sum, json) = line.split_at_mut(SUM);
        let text = format!("{:016x} ", checksum(json));
        sum.copy_from_slice(text.as_bytes());
        line.push(b'\n');
        Ok(line)
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

/// Passes on the entries of all lines up to the first invalid one. Returns how many bytes they take, and whether more
/// follows. A journal may be long, so it is read line by line.
fn parse(text: impl Read, mut take: impl FnMut(Entry)) -> io::Result<(u64, bool)> {
    let mut text = BufReader::new(text);
    let (mut valid, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let len = (&mut text).take(MAX_LINE).read_until(b'\n', &mut line)?;
        match checked(&line).and_then(|json| serde_json::from_slice(json).ok()) {
            Some(entry) => take(entry),
            None => return Ok((valid, len > 0)),
        }
        valid += len as u64;
    }
}

/// The JSON of a line that is complete and matches its checksum.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (sum, json) = line.strip_suffix(b"\n")?.split_at_checked(16)?;
    let json = json.strip_prefix(b" ")?;
    let sum = u64::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    (sum == checksum(json)).then_some(json)
}

/// The journal for `benches/`: entries of the kind that is written most often.
#[cfg(feature = "testing")]
pub(crate) struct JournalBench(Journal);

#[cfg(feature = "testing")]
impl JournalBench {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(Journal::open(dir)?.0))
    }

    /// Appends what is durable after reading up to `offset` into so many partitions.
    pub fn append_read(&self, offset: u64, partitions: u32) -> Result<()> {
        let checkpoint = Checkpoint {
            offset,
            consumed: offset,
            checksum: None,
            restart: None,
            blocks: offset / 1000,
            payload: offset,
            digest: ContentDigest::default(),
            source: 0,
            framed: ClassCounts::default(),
        };
        let extent =
            Extent { bytes: offset / u64::from(partitions.max(1)), blocks: offset / 1000, ..Extent::default() };
        let extents = (0..partitions).map(|partition| (partition, extent)).collect();
        self.0.append(&Entry::Read { checkpoint, extents, news: SourceNews::default() })
    }
}

/// An error like this one: of several threads, the first to report a failure need not be the one that met it.
fn same(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(checkpoint: Checkpoint, extents: Vec<(u32, Extent)>) -> Entry {
        Entry::Read { checkpoint, extents, news: SourceNews::default() }
    }

    fn entries() -> Vec<Entry> {
        let checkpoint = Checkpoint {
            offset: 1 << 28,
            consumed: 9,
            checksum: Some(u64::MAX),
            blocks: 7,
            payload: 5,
            ..Checkpoint::default()
        };
        let keys = |key: &str| key.to_owned();
        let (first, last) = (keys("00ff"), keys("01"));
        let digest = ContentDigest::default();
        let files = vec![SstFile { name: "000001.sst".into(), bytes: 12, first, last, records: 3, digest }];
        let tally = Tally { records: 3, duplicates: 1, ..Tally::default() };
        vec![
            read(checkpoint, vec![(3, Extent { bytes: 100, blocks: 2, ..Extent::default() })]),
            Entry::Built { first: 0, end: 4, files, tally, repeats: Vec::new() },
            Entry::Ingested,
        ]
    }

    #[test]
    fn after_a_failure_every_write_fails_for_the_same_reason() {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, _) = Journal::open(dir.path()).expect("opened");
        // It cannot be written to.
        *journal.file.lock() = File::open(Journal::path(dir.path()));
        for _ in 0..2 {
            let error = journal.append(&Entry::Ingested).expect_err("refused");
            let Error::Io { source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.raw_os_error(), Some(libc::EBADF), "{source}");
        }
    }

    fn written() -> (tempfile::TempDir, Vec<u8>) {
        let dir = tempfile::tempdir().expect("a directory");
        let (journal, _) = Journal::open(dir.path()).expect("made");
        entries().iter().for_each(|entry| journal.append(entry).expect("appended"));
        let text = std::fs::read(Journal::path(dir.path())).expect("read");
        (dir, text)
    }

    fn parsed(text: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        parse(text, |entry| entries.push(entry)).expect("memory");
        entries
    }

    #[test]
    fn a_journal_of_an_import_of_hundreds_of_gigabytes_is_read_to_its_end() {
        let (dir, text) = written();
        // As many partitions as an import may have, and a line for each 256 MiB.
        let extent = |partition| (partition, Extent { bytes: 1 << 40, blocks: 1 << 30, ..Extent::default() });
        let extents = (0..1 << 16).map(extent).collect();
        let entry = read(Checkpoint::default(), extents);
        let long = {
            let dir = tempfile::tempdir().expect("a directory");
            Journal::open(dir.path()).expect("made").0.append(&entry).expect("appended");
            std::fs::read(Journal::path(dir.path())).expect("read")
        };
        let mut file = File::options().write(true).truncate(true).open(Journal::path(dir.path())).expect("open");
        let lines = (300 << 20) / long.len();
        (0..lines).for_each(|_| file.write_all(&long).expect("write"));
        file.write_all(&text).expect("write");
        let (_, resumed) = Journal::open(dir.path()).expect("opened");
        assert!(resumed.ingested && !resumed.is_damaged, "the last lines count");
        let len = file.metadata().expect("there").len();
        assert_eq!(len, (lines * long.len() + text.len()) as u64, "nothing is cut off");
    }

    #[test]
    fn what_is_appended_is_read_again() {
        let (dir, _) = written();
        let (_, resumed) = Journal::open(dir.path()).expect("opened");
        assert_eq!(resumed.read.expect("read").0.offset, 1 << 28);
        assert!(resumed.ingested && !resumed.complete);
        assert_eq!((resumed.built, resumed.tally.records), (vec![(0, 4)], 3));
    }

    #[test]
    fn hash_functions_are_reported_before_what_speaks_of_their_blocks() {
        let (dir, _) = written();
        let (journal, _) = Journal::open(dir.path()).expect("opened");
        [0xb220, 0x12, 0xb220].into_iter().for_each(|function| journal.met(function));
        entries().iter().for_each(|entry| journal.append(entry).expect("appended"));
        let (journal, resumed) = Journal::open(dir.path()).expect("opened");
        assert_eq!((journal.functions(), resumed.functions.len()), (vec![0x12, 0xb220], 2));
        let text = std::fs::read(Journal::path(dir.path())).expect("read");
        let all = [entries(), vec![Entry::Hashed { functions: vec![0x12, 0xb220] }], entries()].concat();
        assert_eq!(parsed(&text), all, "once, before the first entry that follows");
    }

    #[test]
    fn a_journal_cut_anywhere_keeps_every_whole_line_and_goes_on() {
        let (dir, text) = written();
        for len in 0..text.len() {
            std::fs::write(Journal::path(dir.path()), &text[..len]).expect("cut");
            let (journal, _) = Journal::open(dir.path()).expect("opened");
            let whole = text[..len].iter().filter(|&&byte| byte == b'\n').count();
            journal.append(&Entry::Complete).expect("appended");
            let now = std::fs::read(Journal::path(dir.path())).expect("read");
            assert_eq!(parsed(&now).len(), whole + 1, "cut at {len}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_journal_there() {
        let (_dir, text) = written();
        for at in 0..text.len() {
            let mut bad = text.clone();
            bad[at] ^= 1;
            let line = text[..at].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(parsed(&bad), entries()[..line], "flipped at {at}");
        }
    }
}
