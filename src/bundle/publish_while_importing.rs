//! Publishing during an import: each file when it is finished, the description at the end.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use derive_setters::Setters;

use super::description::write_description;
use super::document::{BundleFile, families, file_name};
use super::hashing;
use super::place::file;
use super::publish::strip_machine_data;
use super::signature::Signer;
use super::target::BundleTarget;
use super::uploader::Uploader;
use crate::error::{Error, Result, StateKind};
use crate::failpoint;
use crate::load::{self, ImportOptions, Publish, SstFile};
use crate::os::files::open_regular;
use crate::progress::{Observer, Progress};
use crate::report::{BundleReport, ImportReport, OptionRow};

/// Options of a publication during an import.
#[derive(Debug, Clone, Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct Publication {
    /// A directory, or a URL of an object store.
    #[setters(skip)]
    pub(crate) to: PathBuf,
    /// The key that signs the bundle. Defaults to no signature.
    pub(crate) signer: Option<Signer>,
    /// Keeps the database. Defaults to `true`. If `false`, the database's path only locates the unfinished work.
    pub(crate) keep_database: bool,
}

impl Publication {
    /// Creates options for a bundle at `place`: a directory, or a URL of an object store (s3, gs, az).
    pub fn new(place: impl Into<PathBuf>) -> Self {
        Self { to: place.into(), signer: None, keep_database: true }
    }
}

/// Imports a snapshot as [`import`](fn@crate::import) does, and publishes each file when it is built, as
/// [`bundle`](fn@crate::bundle) does with a finished database. The report names the bundle.
///
/// # Errors
/// Those of both.
pub fn import_and_bundle(
    import: &ImportOptions,
    publication: &Publication,
    observer: &dyn Observer,
) -> Result<ImportReport> {
    let Publication { to, signer, keep_database } = publication;
    let import = &ImportOptions { discard: !keep_database, ..import.clone() };
    let target = BundleTarget::open(to, &import.network, Some(&import.db))?;
    let progress = Progress::new(observer);
    let mut uploader = Uploader::new(&target, signer.as_ref(), &progress, &import.stop);
    uploader.discards = import.discard;
    load::import_and_publish(import, Some(&uploader), observer)
}

impl Publish for Uploader<'_> {
    fn place(&self) -> String {
        let root = self.target.place.root.display();
        // Reused files belong to bundles of one key: another key starts over after a kill.
        self.signer.map_or_else(|| root.to_string(), |signer| format!("{root} {}", signer.text))
    }

    fn at_once(&self) -> usize {
        self.target.at_once(None)
    }

    fn begin(&self, options: &[OptionRow]) -> Result<()> {
        self.read_newest(options)
    }

    fn is_there(&self, file: &SstFile) -> Result<bool> {
        self.target.has(&to_bundle_file(file.clone()), self.stop)
    }

    fn publish(&self, built: &SstFile, path: &Path) -> Result<(u64, String)> {
        let opened = match open_regular(path) {
            // The file was published and then ingested.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(lost(self.target, &to_bundle_file(built.clone())));
            }
            opened => opened.map_err(Error::io("read", path))?,
        };
        let (bytes, blake3) = hashing::hash(&opened, path, built.bytes, self.stop)?;
        if bytes != built.bytes {
            return Err(Error::damaged_work(path, format!("has {bytes} bytes, {} were written", built.bytes)));
        }
        let own = to_bundle_file(SstFile { bytes, blake3: blake3.to_hex().to_string(), ..built.clone() });
        let published = self.upload(own, path, blake3)?;
        Ok((published.bytes, published.blake3))
    }

    fn finish(&self, report: &ImportReport, files: &[SstFile], dir: &Path) -> Result<BundleReport> {
        let Self { target, signer, .. } = self;
        let mut files: Vec<BundleFile> = files.iter().cloned().map(to_bundle_file).collect();
        let families: HashMap<String, usize> =
            families(report).into_iter().zip(0..).map(|((family, _), at)| (family, at)).collect();
        files.sort_by_cached_key(|file| (families.get(&file.column_family).copied(), file.first.clone()));
        // Hours may have passed since the first file was published.
        for one in &files {
            if target.size_of(&file(&one.name))? != Some(one.bytes) {
                return Err(lost(self.target, one));
            }
        }
        failpoint::reach("bundle-files");
        let report = write_description(target, strip_machine_data(report.clone()), files, dir, *signer)?;
        Ok(self.complete(report))
    }
}

/// The error for a published file that is gone and cannot be sent again.
fn lost(target: &BundleTarget, lost: &BundleFile) -> Error {
    let reason = "was published, but has been removed or changed since";
    let hint = "run the same command again with --restart; files must not change while they are published";
    Error::state(target.place.at(&file(&lost.name)).0, StateKind::Other, reason, hint)
}

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
