//! Publishing while an import builds: each file when it is finished, the description in the end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::document::{BundleFile, file_name};
use super::hashing;
use super::place::{Place, file};
use super::publish::{Target, conclude, earlier, of_files, oldest_rocksdb, published};
use super::signature::Signer;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::{self, ImportOptions, Outcome, Publish, UploadFile};
use crate::os::files::open_regular;
use crate::progress::{CancellationToken, Observer, Progress};
use crate::report::{BundleReport, ImportReport, OptionRow};

/// An import whose files are published.
#[derive(Debug)]
pub(crate) struct PublishedImport {
    pub import: ImportOptions,
    /// A directory, or a URL of an object store.
    pub to: PathBuf,
    pub signer: Option<Signer>,
}

/// Imports, and publishes each file while the next one is built.
///
/// # Errors
/// As [`crate::import`]; [`Error::Usage`]: nothing can be written there.
pub(crate) fn import(options: &PublishedImport, observer: &dyn Observer) -> Result<Outcome> {
    let place = Place::new(&options.to, &options.import.network);
    let target = Target::open(&place)?;
    let publisher = Publisher {
        place: &place,
        target,
        signer: options.signer.as_ref(),
        progress: Progress::new(observer),
        stop: &options.import.stop,
        known: Mutex::default(),
        uploaded: Default::default(),
        start: Instant::now(),
    };
    load::import_and_publish(&options.import, &publisher, observer)
}

struct Publisher<'a> {
    place: &'a Place,
    target: Target<'a>,
    signer: Option<&'a Signer>,
    progress: Progress<'a>,
    stop: &'a CancellationToken,
    /// Files of the newest bundle that is there, by column family and first key, where it has the same options.
    known: Mutex<HashMap<(String, String), BundleFile>>,
    /// Files that were written, and their bytes.
    uploaded: (AtomicU64, AtomicU64),
    start: Instant,
}

impl Publish for Publisher<'_> {
    fn place(&self) -> String {
        self.place.root.display().to_string()
    }

    fn at_once(&self) -> usize {
        self.target.at_once(None)
    }

    fn begin(&self, options: &[OptionRow]) -> Result<()> {
        let earlier =
            earlier(self.place, &self.progress)?.filter(|found| of_files(&found.record.options) == of_files(options));
        let files = earlier.into_iter().flat_map(|earlier| earlier.files);
        *self.known.lock() = files.map(|file| ((file.column_family.clone(), file.first.clone()), file)).collect();
        Ok(())
    }

    fn publish(&self, built: &UploadFile, path: &Path) -> Result<(u64, String)> {
        let opened = open_regular(path).map_err(Error::io("read", path))?;
        let (bytes, blake3) = hashing::hash(&opened, path, built.file.bytes, self.stop)?;
        if bytes != built.file.bytes {
            return Err(Error::damaged_work(path, format!("has {bytes} bytes, {} were written", built.file.bytes)));
        }
        let own = described(UploadFile { bytes, blake3: blake3.to_hex().to_string(), ..built.clone() });
        let known = self.known.lock().get(&(own.column_family.clone(), own.first.clone())).cloned();
        let known = known.filter(|known| known.holds_what(&own));
        for there in known.iter().chain([&own]) {
            if self.target.has(there, self.stop)? {
                return Ok((there.bytes, there.blake3.clone()));
            }
        }
        self.target.put_file(&own, path, blake3, self.stop)?;
        self.uploaded.0.fetch_add(1, Ordering::Relaxed);
        self.uploaded.1.fetch_add(own.bytes, Ordering::Relaxed);
        failpoint::reach("bundle-file");
        Ok((own.bytes, own.blake3))
    }

    fn finish(&self, report: &ImportReport, files: &[UploadFile], dir: &Path) -> Result<BundleReport> {
        let mut files: Vec<BundleFile> = files.iter().cloned().map(described).collect();
        let families: HashMap<String, usize> =
            super::document::families(report).into_iter().zip(0..).map(|((family, _), at)| (family, at)).collect();
        let key = |file: &BundleFile| (families.get(&file.column_family).copied(), file.first.clone());
        files.sort_by_cached_key(key);
        // Hours may have passed since the first one was published.
        for one in &files {
            if self.target.size_of(&file(&one.name))? != Some(one.bytes) {
                return Err(Error::State {
                    path: self.place.at(&file(&one.name)).0,
                    reason: "was published and is not there any more".into(),
                    hint:
                        "run the same command again with --restart; nobody should remove files while they are published"
                            .into(),
                });
            }
        }
        failpoint::reach("bundle-files");
        let oldest_rocksdb = oldest_rocksdb(dir, &report.column_family)?;
        let report =
            conclude((self.place, &self.target), (published(report.clone()), oldest_rocksdb), files, dir, self.signer)?;
        Ok(BundleReport {
            uploaded_files: self.uploaded.0.load(Ordering::Relaxed),
            uploaded_bytes: self.uploaded.1.load(Ordering::Relaxed),
            seconds: self.start.elapsed().as_secs_f64(),
            ..report
        })
    }
}

/// A finished file as a bundle describes it.
fn described(UploadFile { family, file, bytes, blake3 }: UploadFile) -> BundleFile {
    BundleFile {
        name: file_name(&blake3),
        bytes,
        blake3,
        column_family: family,
        first: file.first,
        last: file.last,
        records: file.records,
        digest: file.digest,
    }
}
