//! Publishing of files while the next ones are built.
//!
//! A file is queued when the journal lists it as built, and noted in the journal when it is published, so no later run
//! publishes it again. All files are published before RocksDB ingests them. The caller's [`Publish`] decides where files go.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::built::SstFile;
use crate::load::journal::{Entry, Journal, ResumedState};
use crate::parallel;
use crate::report::{BundleReport, ImportReport, OptionRow};
use crate::schema::{BLOCK_IDS, TRANSACTIONS};

/// Files that wait for an upload; with more, the builder blocks.
const WAITING: usize = 2;

/// The place of finished files.
pub(crate) trait Publish: Sync {
    /// The place and its signer. Files that were published elsewhere, or for another signer, are published again.
    fn place(&self) -> String;

    /// Files that are published at once.
    fn at_once(&self) -> usize;

    /// Receives the options that files are built with, before the first file.
    fn begin(&self, options: &[OptionRow]) -> Result<()>;

    /// True if a file that an earlier run published is unchanged at the place.
    fn is_there(&self, file: &SstFile) -> Result<bool>;

    /// Publishes the file at `path`. Returns size and BLAKE3 of the published file, which may be another one with the same
    /// records.
    fn publish(&self, file: &SstFile, path: &Path) -> Result<(u64, String)>;

    /// Publishes the description of all files, of the database in `dir` and its report.
    fn finish(&self, report: &ImportReport, files: &[SstFile], dir: &Path) -> Result<BundleReport>;
}

pub(super) struct Uploads<'a> {
    publish: &'a dyn Publish,
    place: String,
    /// The directory of the files.
    dir: &'a Path,
    journal: &'a Journal,
    state: Mutex<UploadQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct UploadQueue {
    queue: VecDeque<SstFile>,
    /// Files that are being published.
    active: usize,
    closed: bool,
    done: Vec<SstFile>,
    failed: Option<Error>,
}

/// Does `work` with uploads of the files in `dir`, beginning with those that an earlier run has built. `family` is the column
/// family of the blocks.
pub(super) fn with<T>(
    publish: &dyn Publish,
    (dir, family): (&Path, &str),
    (journal, resumed): (&Journal, &ResumedState),
    work: impl FnOnce(&Uploads<'_>) -> Result<T>,
) -> Result<T> {
    let place = publish.place();
    let mut done: Vec<SstFile> = Vec::new();
    // Only the last entry of a file counts.
    for (_, file) in resumed.published.iter().rev().filter(|(at, _)| *at == place) {
        // Others may have changed the place meanwhile.
        if done.iter().all(|done| done.name != file.name) && publish.is_there(file)? {
            done.push(file.clone());
        }
    }
    let state = Mutex::new(UploadQueue { done, ..UploadQueue::default() });
    let uploads = Uploads { publish, place, dir, journal, state, changed: Condvar::new() };
    std::thread::scope(|scope| {
        let workers =
            || (0..publish.at_once().max(1)).try_for_each(|_| parallel::start(scope, || uploads.run()).map(drop));
        let outcome = workers().and_then(|()| uploads.add_earlier(family, resumed)).and_then(|()| work(&uploads));
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
    /// Queues files of a family that the journal lists as built. Blocks while enough files wait. After a failed upload it
    /// returns [`Error::Interrupted`], and [`with`] returns the error of the upload.
    pub fn add(&self, family: &str, files: &[SstFile]) -> Result<()> {
        for file in files {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| state.failed.is_none() && state.queue.len() >= WAITING);
            if state.failed.is_some() {
                return Err(Error::interrupted());
            }
            state.queue.push_back(SstFile { family: family.into(), ..file.clone() });
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Queues files that an earlier run has built and not published.
    fn add_earlier(&self, family: &str, resumed: &ResumedState) -> Result<()> {
        let done: HashSet<String> = self.state.lock().done.iter().map(|done| done.name.clone()).collect();
        let add = |family: &str, files: &[SstFile]| {
            files
                .iter()
                .filter(|file| !done.contains(&file.name))
                .try_for_each(|file| self.add(family, std::slice::from_ref(file)))
        };
        if resumed.ranges.is_empty() {
            return add(family, &resumed.built.files);
        }
        for range in &resumed.ranges {
            add(family, &range.blocks.files)?;
            add(BLOCK_IDS, &range.ids.files)?;
        }
        add(TRANSACTIONS, &resumed.built.files)
    }

    /// Waits until all files are published, because RocksDB moves them when it ingests them. Fails as [`Uploads::add`].
    pub fn drain(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.changed
            .wait_while(&mut state, |state| state.failed.is_none() && (!state.queue.is_empty() || state.active > 0));
        if state.failed.is_some() { Err(Error::interrupted()) } else { Ok(()) }
    }

    pub fn finish(&self, report: &ImportReport, dir: &Path) -> Result<BundleReport> {
        self.drain()?;
        let done = std::mem::take(&mut self.state.lock().done);
        self.publish.finish(report, &done, dir)
    }

    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| state.queue.is_empty() && !state.closed);
            let Some(file) = state.queue.pop_front() else { return };
            state.active += 1;
            drop(state);
            self.changed.notify_all();
            let published = self.publish(file);
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

    fn publish(&self, file: SstFile) -> Result<SstFile> {
        let (bytes, blake3) = self.publish.publish(&file, &self.dir.join(&file.name))?;
        let published = SstFile { bytes, blake3, ..file };
        self.journal.append(&Entry::Published { place: self.place.clone(), file: published.clone() })?;
        failpoint::reach("published");
        Ok(published)
    }
}
