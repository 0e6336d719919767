//! Publishing during an import: each file when it is finished, the description at the end.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::description::write_description;
use super::document::{BundleFile, file_name};
use super::hashing;
use super::place::{BundlePlace, file};
use super::publish::{oldest_rocksdb, strip_machine_data};
use super::published_files::PublishedFiles;
use super::signature::Signer;
use super::target::BundleTarget;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::{self, ImportOptions, Outcome, Publish, SstFile};
use crate::os::files::open_regular;
use crate::progress::{CancellationToken, Observer, Progress};
use crate::report::{BundleReport, ImportReport, OptionRow};

/// An import that publishes its files.
#[derive(Debug)]
pub(crate) struct PublishedImport {
    pub import: ImportOptions,
    /// A directory, or a URL of an object store.
    pub to: PathBuf,
    pub signer: Option<Signer>,
}

/// Imports, and publishes each file while the next one is built.
pub(crate) fn import(options: &PublishedImport, observer: &dyn Observer) -> Result<Outcome> {
    let place = BundlePlace::new(&options.to, &options.import.network);
    let target = BundleTarget::open(&place, Some(&options.import.db))?;
    let publisher = Publisher {
        place: &place,
        target,
        signer: options.signer.as_ref(),
        discards: options.import.discard,
        progress: Progress::new(observer),
        stop: &options.import.stop,
        known: OnceLock::new(),
        uploaded: Default::default(),
        start: Instant::now(),
    };
    load::import_and_publish(&options.import, &publisher, observer)
}

struct Publisher<'a> {
    place: &'a BundlePlace,
    target: BundleTarget<'a>,
    signer: Option<&'a Signer>,
    /// True if no database remains.
    discards: bool,
    progress: Progress<'a>,
    stop: &'a CancellationToken,
    known: OnceLock<PublishedFiles>,
    /// Number and bytes of the files that were written.
    uploaded: (AtomicU64, AtomicU64),
    start: Instant,
}

impl Publish for Publisher<'_> {
    fn place(&self) -> String {
        let root = self.place.root.display();
        // Reused files belong to bundles of one key: another key starts over after a kill.
        self.signer.map_or_else(|| root.to_string(), |signer| format!("{root} {}", signer.text()))
    }

    fn at_once(&self) -> usize {
        self.target.at_once(None)
    }

    fn begin(&self, options: &[OptionRow]) -> Result<()> {
        let known = PublishedFiles::find(self.place, options, self.signer, &self.progress)?;
        // Each import begins once.
        let _ = self.known.set(known);
        Ok(())
    }

    fn is_there(&self, file: &SstFile) -> Result<bool> {
        self.target.has(&to_bundle_file(file.clone()), self.stop)
    }

    fn publish(&self, built: &SstFile, path: &Path) -> Result<(u64, String)> {
        let opened = match open_regular(path) {
            // The file was published and then ingested.
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(self.lost(&to_bundle_file(built.clone()))),
            opened => opened.map_err(Error::io("read", path))?,
        };
        let (bytes, blake3) = hashing::hash(&opened, path, built.bytes, self.stop)?;
        if bytes != built.bytes {
            return Err(Error::damaged_work(path, format!("has {bytes} bytes, {} were written", built.bytes)));
        }
        let own = to_bundle_file(SstFile { bytes, blake3: blake3.to_hex().to_string(), ..built.clone() });
        let places = (self.place, &self.target);
        if let Some(known) = self.known.get()
            && let Some(there) = known.replacement(&own, places, &self.progress, self.stop)?
        {
            return Ok((there.bytes, there.blake3.clone()));
        }
        if self.target.has(&own, self.stop)? {
            return Ok((own.bytes, own.blake3));
        }
        if !self.discards || !self.target.link_file(&own, path)? {
            self.target.put_file(&own, path, blake3, self.stop)?;
        }
        self.uploaded.0.fetch_add(1, Ordering::Relaxed);
        self.uploaded.1.fetch_add(own.bytes, Ordering::Relaxed);
        failpoint::reach("bundle-file");
        Ok((own.bytes, own.blake3))
    }

    fn finish(&self, report: &ImportReport, files: &[SstFile], dir: &Path) -> Result<BundleReport> {
        let mut files: Vec<BundleFile> = files.iter().cloned().map(to_bundle_file).collect();
        let families: HashMap<String, usize> =
            super::document::families(report).into_iter().zip(0..).map(|((family, _), at)| (family, at)).collect();
        let key = |file: &BundleFile| (families.get(&file.column_family).copied(), file.first.clone());
        files.sort_by_cached_key(key);
        // Hours may have passed since the first file was published.
        for one in &files {
            if self.target.size_of(&file(&one.name))? != Some(one.bytes) {
                return Err(self.lost(one));
            }
        }
        failpoint::reach("bundle-files");
        let oldest_rocksdb = oldest_rocksdb(dir, &report.column_family)?;
        let report = write_description(
            (self.place, &self.target),
            (strip_machine_data(report.clone()), oldest_rocksdb),
            files,
            dir,
            self.signer,
        )?;
        Ok(BundleReport {
            uploaded_files: self.uploaded.0.load(Ordering::Relaxed),
            uploaded_bytes: self.uploaded.1.load(Ordering::Relaxed),
            seconds: self.start.elapsed().as_secs_f64(),
            ..report
        })
    }
}

impl Publisher<'_> {
    /// The error for a published file that is gone and cannot be sent again.
    fn lost(&self, lost: &BundleFile) -> Error {
        Error::State {
            path: self.place.at(&file(&lost.name)).0,
            reason: "was published, but has been removed or changed since".into(),
            hint: "run the same command again with --restart; files must not change while they are published".into(),
        }
    }
}

/// Converts a finished file to its description.
fn to_bundle_file(file: SstFile) -> BundleFile {
    BundleFile {
        name: file_name(&file.blake3),
        bytes: file.bytes,
        blake3: file.blake3,
        column_family: file.family,
        first: file.first,
        last: file.last,
        records: file.records,
        digest: file.digest,
    }
}
