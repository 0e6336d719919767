//! The file of the journal.
//!
//! Each entry is a line, and lines are only appended:
//!
//! ```text
//! <16 hex digits: XXH3-64 of the rest of the line> <JSON>\n
//! ```
//!
//! The journal ends before the first torn or damaged line. Its entries stay valid if later ones are lost. Only
//! [`Entry::Restoring`] and [`Entry::Undone`] revoke earlier entries, of an existing database.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::error::{Error, Result, StateKind};
use crate::load::identity::SpillPlace;
use crate::load::journal::entry::VERSION;
use crate::load::journal::{Entry, ResumedState};
use crate::os::files::sync_dir;
use crate::os::private;

/// Bytes of the longest line: it has two numbers and a digest for each of 65,536 partitions.
const MAX_LINE: u64 = 64 << 20;

pub(in crate::load) struct Journal {
    /// The error after a failed write: a line after a torn one would be lost without an error.
    file: Mutex<io::Result<File>>,
    path: PathBuf,
    /// Hash functions of keys that do not name theirs, and how many of them are in the file.
    functions: Mutex<(BTreeSet<u64>, usize)>,
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
        let valid = replay(&file, &mut resumed).map_err(Error::io("read", &path))?;
        // Cuts a torn line off, so that the next line begins at the start of a line.
        let cut = file.set_len(valid).and_then(|()| file.seek(SeekFrom::Start(valid))).and_then(|_| file.sync_all());
        cut.map_err(Error::io("truncate", &path))?;
        sync_dir(partial)?;
        let functions = Mutex::new((resumed.functions.clone(), resumed.functions.len()));
        Ok((Self { file: Mutex::new(Ok(file)), path, functions }, resumed))
    }

    /// Checks that a journal, if there is one, has the current form. The lines of another form would be taken for torn ones.
    pub fn check_version(partial: &Path) -> Result<()> {
        #[derive(Deserialize)]
        struct Start {
            entry: String,
            /// The first form had none.
            #[serde(default)]
            version: u32,
        }
        match checked(&Self::first_line(partial)).and_then(|json| serde_json::from_slice(json).ok()) {
            Some(Start { entry, version }) if entry == "start" && version != VERSION => Err(Error::state(
                partial,
                StateKind::Unfinished,
                format!(
                    "another version of bedload began the unfinished import: its journal has the form {version}, this \
                     program reads the form {VERSION}"
                ),
                "finish it with the program that began it, or discard it with --restart",
            )),
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

    /// The first line; empty if the journal cannot be read, which [`Self::open`] reports.
    fn first_line(partial: &Path) -> Vec<u8> {
        let mut line = Vec::new();
        if let Ok(file) = private::read_file(&Self::path(partial)) {
            let _ = BufReader::new(file).take(MAX_LINE).read_until(b'\n', &mut line);
        }
        line
    }

    /// Reads the journal of a partial directory without changing it. What cannot be read is missing in the result.
    pub fn peek(partial: &Path) -> ResumedState {
        let mut resumed = ResumedState::default();
        if let Ok(file) = private::read_file(&Self::path(partial)) {
            let _ = replay(&file, &mut resumed);
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
            Err(error) => Err(clone_io_error(error)),
        };
        if let Err(error) = &outcome {
            *slot = Err(clone_io_error(error));
        }
        outcome.map_err(Error::io("write", &self.path))
    }

    /// Notes the hash function of a key that does not name it. It is written with the next entry.
    pub fn note_hash_function(&self, function: u64) {
        self.functions.lock().0.insert(function);
    }

    /// All hash functions that were noted, also by earlier runs.
    pub fn functions(&self) -> Vec<u64> {
        self.functions.lock().0.iter().copied().collect()
    }

    /// The entry for functions that are not in the file yet, if there are any.
    fn functions_entry(&self) -> Option<Entry> {
        let (functions, written) = &mut *self.functions.lock();
        let has_new = std::mem::replace(written, functions.len()) < functions.len();
        has_new.then(|| Entry::Hashed { functions: functions.iter().copied().collect() })
    }

    fn line(&self, entry: &Entry) -> Result<Vec<u8>> {
        // The line of many sources is long, so its checksum is filled in instead of prepended.
        const SUM: usize = 17;
        let mut line = vec![b' '; SUM];
        let invalid = |error| Error::io("write", &self.path)(io::Error::new(io::ErrorKind::InvalidData, error));
        serde_json::to_writer(&mut line, entry).map_err(invalid)?;
        let (sum, json) = line.split_at_mut(SUM);
        sum.copy_from_slice(format!("{:016x} ", checksum(json)).as_bytes());
        line.push(b'\n');
        Ok(line)
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

/// Adds the entries of a journal to `resumed`. Returns the bytes of the valid lines.
fn replay(journal: impl Read, resumed: &mut ResumedState) -> io::Result<u64> {
    let (valid, is_damaged) = parse(journal, |entry| resumed.apply(entry))?;
    resumed.is_damaged = is_damaged;
    Ok(valid)
}

/// Passes the entries of all lines before the first invalid one to `take`. Returns the bytes of those lines, and true if
/// that line is damaged; a crash leaves a torn one, at the end. A journal may be long, so it is read line by line.
fn parse(text: impl Read, mut take: impl FnMut(Entry)) -> io::Result<(u64, bool)> {
    let mut text = BufReader::new(text);
    let (mut valid, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let len = (&mut text).take(MAX_LINE).read_until(b'\n', &mut line)?;
        match checked(&line).and_then(|json| serde_json::from_slice(json).ok()) {
            Some(entry) => take(entry),
            None => return Ok((valid, len > 0 && !is_torn(&line))),
        }
        valid += len as u64;
    }
}

/// True if only the first part of a line was written. A line whose last byte has changed was complete.
fn is_torn(line: &[u8]) -> bool {
    let whole = line.split_last().map(|(_, rest)| [rest, b"\n"].concat());
    !line.ends_with(b"\n") && whole.is_none_or(|whole| checked(&whole).is_none())
}

/// The JSON of a line that is complete and matches its checksum.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (sum, json) = line.strip_suffix(b"\n")?.split_at_checked(16)?;
    let json = json.strip_prefix(b" ")?;
    let sum = u64::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    (sum == checksum(json)).then_some(json)
}

/// Copies an error: each thread that writes after the failure returns it.
fn clone_io_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Content;
    use crate::load::built::{FamilyDone, SstFile, Tally};
    use crate::load::journal::{Checkpoint, PartitionCheckpoint, SourceDelta};
    use crate::sort::PartitionExtent;

    fn read(checkpoint: Checkpoint, extents: Vec<(u32, PartitionExtent)>) -> Entry {
        Entry::Read(PartitionCheckpoint { checkpoint, extents, delta: SourceDelta::default() })
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
        let (name, first, last) = ("000001.sst".into(), "00ff".into(), "01".into());
        let files = vec![SstFile { name, bytes: 12, first, last, records: 3, ..SstFile::default() }];
        let tally = Tally { written: Content { records: 3, ..Content::default() }, ..Tally::default() };
        let built = FamilyDone { files, tally, repeats: vec![(1, 1)] };
        vec![
            read(checkpoint, vec![(3, PartitionExtent { bytes: 100, blocks: 2, ..PartitionExtent::default() })]),
            Entry::Built { first: 0, end: 4, built },
            Entry::Ingested,
        ]
    }

    #[test]
    fn writes_after_a_failure_repeat_its_reason() {
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
    fn large_journal_is_read_to_its_end() {
        let (dir, text) = written();
        // As many partitions as an import may have, and a line for each 256 MiB.
        let extent =
            |partition| (partition, PartitionExtent { bytes: 1 << 40, blocks: 1 << 30, ..PartitionExtent::default() });
        let extents = (0..1 << 16).map(extent).collect();
        let entry = read(Checkpoint::default(), extents);
        let long = {
            let dir = tempfile::tempdir().expect("a directory");
            Journal::open(dir.path()).expect("made").0.append(&entry).expect("appended");
            std::fs::read(Journal::path(dir.path())).expect("read")
        };
        let mut file = File::options().write(true).truncate(true).open(Journal::path(dir.path())).expect("open");
        let lines = (100 << 20) / long.len();
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
        assert_eq!(resumed.car.read.as_ref().expect("read").0.offset, 1 << 28);
        assert!(resumed.ingested && !resumed.is_complete);
        assert!(resumed.is_built(3) && !resumed.is_built(4) && resumed.built.tally.written.records == 3);
    }

    #[test]
    fn hash_functions_precede_their_blocks() {
        let (dir, _) = written();
        let (journal, _) = Journal::open(dir.path()).expect("opened");
        [0xb220, 0x12, 0xb220].into_iter().for_each(|function| journal.note_hash_function(function));
        entries().iter().for_each(|entry| journal.append(entry).expect("appended"));
        let (journal, resumed) = Journal::open(dir.path()).expect("opened");
        assert_eq!((journal.functions(), resumed.functions.len()), (vec![0x12, 0xb220], 2));
        let text = std::fs::read(Journal::path(dir.path())).expect("read");
        let all = [entries(), vec![Entry::Hashed { functions: vec![0x12, 0xb220] }], entries()].concat();
        assert_eq!(parsed(&text), all, "once, before the first entry that follows");
    }

    #[test]
    fn cut_journal_keeps_its_complete_lines() {
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
