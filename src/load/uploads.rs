//! Files that are published while the next ones are built.
//!
//! A file is handed over when the journal has it as built, and noted when it is where it was to go: a later run publishes no
//! such file again. Before RocksDB ingests the files, all are noted. Where files go is the business of the caller's [`Publish`].

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::built::{SstFile, UploadFile};
use crate::load::journal::{Entry, Journal, ResumedState};
use crate::parallel;
use crate::report::{BundleReport, ImportReport, OptionRow};
use crate::schema::{BLOCK_IDS, TRANSACTIONS};

/// Files that wait for an upload; whoever builds waits when there are more.
const WAITING: usize = 2;

/// Where finished files go.
pub(crate) trait Publish: Sync {
    /// The place and who signs: what was published elsewhere, or for another one, is not looked for.
    fn place(&self) -> String;

    /// Files that are published at once.
    fn at_once(&self) -> usize;

    /// Learns, before the first file, the options that files are built with.
    fn begin(&self, options: &[OptionRow]) -> Result<()>;

    /// Whether what an earlier run has published is there, as it was.
    fn is_there(&self, file: &UploadFile) -> Result<bool>;

    /// Publishes the file at `path`, and returns size and BLAKE3 of what stands for it there: itself, or another file with the
    /// same records.
    fn publish(&self, file: &UploadFile, path: &Path) -> Result<(u64, String)>;

    /// Publishes the description of all files, of the database in `dir` and its report.
    fn finish(&self, report: &ImportReport, files: &[UploadFile], dir: &Path) -> Result<BundleReport>;
}

/// The files of one import on their way.
pub(super) struct Uploads<'a> {
    publish: &'a dyn Publish,
    /// Where they go.
    place: String,
    /// Where the files are.
    dir: &'a Path,
    journal: &'a Journal,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<UploadFile>,
    /// Files that workers have in hand.
    active: usize,
    closed: bool,
    done: Vec<UploadFile>,
    failed: Option<Error>,
}

impl State {
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.active == 0
    }
}

/// What an import that publishes has.
pub(super) struct Parts<'a> {
    pub publish: &'a dyn Publish,
    /// Where the files are.
    pub dir: &'a Path,
    /// The column family of the blocks.
    pub family: &'a str,
    pub journal: &'a Journal,
    pub resumed: &'a ResumedState,
}

/// Does `work` with uploads, beginning with the files that an earlier run has built.
pub(super) fn with<T>(parts: &Parts<'_>, work: impl FnOnce(&Uploads<'_>) -> Result<T>) -> Result<T> {
    let &Parts { publish, dir, journal, resumed, .. } = parts;
    let place = publish.place();
    let mut done: Vec<UploadFile> = Vec::new();
    // A file that was published twice is where it was last.
    for (_, file) in resumed.published.iter().rev().filter(|(at, _)| *at == place) {
        let is_known = done.iter().any(|done| done.file.name == file.file.name);
        // Whoever can write there may have changed it meanwhile.
        if !is_known && publish.is_there(file)? {
            done.push(file.clone());
        }
    }
    let state = Mutex::new(State { done, ..State::default() });
    let uploads = Uploads { publish, place, dir, journal, state, changed: Condvar::new() };
    std::thread::scope(|scope| {
        let workers =
            || (0..publish.at_once().max(1)).try_for_each(|_| parallel::start(scope, || uploads.run()).map(drop));
        let outcome = workers().and_then(|()| uploads.add_earlier(parts.family, resumed));
        let outcome = outcome.and_then(|()| work(&uploads));
        let mut state = uploads.state.lock();
        state.closed = true;
        if outcome.is_err() {
            state.queue.clear();
        }
        uploads.changed.notify_all();
        state.failed.take().map_or(outcome, Err)
    })
}

impl Uploads<'_> {
    /// Hands over files of a family that the journal has as built. Waits while enough others wait.
    pub fn add(&self, family: &str, files: &[SstFile]) -> Result<()> {
        for file in files {
            let mut state = self.state.lock();
            while state.failed.is_none() && state.queue.len() >= WAITING {
                self.changed.wait(&mut state);
            }
            if state.failed.is_some() {
                return Err(Error::interrupted());
            }
            state.queue.push_back(UploadFile {
                family: family.into(),
                file: file.clone(),
                bytes: 0,
                blake3: String::new(),
            });
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Hands over what an earlier run has built and not published.
    fn add_earlier(&self, family: &str, resumed: &ResumedState) -> Result<()> {
        let done: HashSet<String> = self.state.lock().done.iter().map(|done| done.file.name.clone()).collect();
        let left = |files: &[SstFile]| -> Vec<SstFile> {
            files.iter().filter(|file| !done.contains(&file.name)).cloned().collect()
        };
        if resumed.ranges.is_empty() {
            return self.add(family, &left(&resumed.files));
        }
        for range in &resumed.ranges {
            self.add(family, &left(&range.blocks.files))?;
            self.add(BLOCK_IDS, &left(&range.ids.files))?;
        }
        self.add(TRANSACTIONS, &left(&resumed.built_files))
    }

    /// Waits until all files are published: RocksDB moves them when it ingests them.
    pub fn drain(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.failed.is_none() && !state.is_idle() {
            self.changed.wait(&mut state);
        }
        if state.failed.is_some() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Publishes the description.
    pub fn finish(&self, report: &ImportReport, dir: &Path) -> Result<BundleReport> {
        self.drain()?;
        let done = std::mem::take(&mut self.state.lock().done);
        self.publish.finish(report, &done, dir)
    }

    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            while state.queue.is_empty() && !state.closed {
                self.changed.wait(&mut state);
            }
            let Some(file) = state.queue.pop_front() else { return };
            state.active += 1;
            drop(state);
            self.changed.notify_all();
            let published = self.one(&file);
            let mut state = self.state.lock();
            state.active -= 1;
            match published {
                Ok(published) => state.done.push(published),
                Err(error) => {
                    state.failed.get_or_insert(error);
                    state.queue.clear();
                }
            }
            self.changed.notify_all();
        }
    }

    fn one(&self, file: &UploadFile) -> Result<UploadFile> {
        let path = self.dir.join(&file.file.name);
        let (bytes, blake3) = self.publish.publish(file, &path)?;
        let published = UploadFile { bytes, blake3, ..file.clone() };
        let entry = Entry::Published { place: self.place.clone(), file: published.clone() };
        self.journal.append(&entry)?;
        failpoint::reach("published");
        Ok(published)
    }
}
