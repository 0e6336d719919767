//! Publishes files. SST files have random identities, so a published file with the same records and options replaces the new one.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::document::BundleFile;
use super::place::file;
use super::signature::Signer;
use super::target::BundleTarget;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::progress::{CancellationToken, Event, Progress};
use crate::report::{BundleReport, OptionRow};

/// Options that affect the files: those of column families and tables.
fn file_options(options: &[OptionRow]) -> Vec<(&str, &str)> {
    let rows = options.iter().map(|row| (row.option.as_str(), row.value.as_str()));
    rows.filter(|(option, _)| !option.starts_with("db.")).collect()
}

pub(super) struct Uploader<'a> {
    pub target: &'a BundleTarget,
    pub signer: Option<&'a Signer>,
    /// True if no database remains, which would share the damage of a hard link.
    pub discards: bool,
    pub progress: &'a Progress<'a>,
    pub stop: &'a CancellationToken,
    /// Files of the newest bundle by column family and first key.
    newest: OnceLock<HashMap<(String, String), BundleFile>>,
    /// Number and bytes of the files that were written.
    written: (AtomicU64, AtomicU64),
    start: Instant,
}

impl<'a> Uploader<'a> {
    pub fn new(
        target: &'a BundleTarget,
        signer: Option<&'a Signer>,
        progress: &'a Progress<'a>,
        stop: &'a CancellationToken,
    ) -> Self {
        let (newest, written, start) = (OnceLock::new(), Default::default(), Instant::now());
        Self { target, signer, discards: false, progress, stop, newest, written, start }
    }

    /// Reads the newest bundle. With a signer it must have the same signer: a key signs only files that it has described itself.
    pub fn read_newest(&self, options: &[OptionRow]) -> Result<()> {
        let place = &self.target.place;
        let own: Vec<_> = self.signer.map(|signer| signer.own.clone()).into_iter().collect();
        let found = match place.latest().and_then(|id| id.map(|id| place.describe(&id, &own)).transpose()) {
            Err(error @ Error::BadInput { .. }) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                let message =
                    format!("the newest bundle cannot be reused ({error}: {cause}); all files are published again");
                self.progress.report(&Event::Warning { message });
                None
            }
            found => found?,
        };
        let same = found.filter(|found| file_options(&found.record.options) == file_options(options));
        let files = same.into_iter().flat_map(|found| found.files);
        let files = files.map(|file| ((file.column_family.clone(), file.first.clone()), file)).collect();
        // Each import begins once.
        let _ = self.newest.set(files);
        Ok(())
    }

    /// Publishes a file unless the target has it. Returns the file to describe: this one, or one with the same records.
    pub fn upload(&self, own: BundleFile, path: &Path, blake3: blake3::Hash) -> Result<BundleFile> {
        let Self { target, stop, .. } = self;
        let newest = self.newest.get().and_then(|newest| newest.get(&(own.column_family.clone(), own.first.clone())));
        if let Some(known) = newest.filter(|known| known.has_same_records(&own) && known.name != own.name) {
            if target.has(known, stop)? {
                return Ok(known.clone());
            }
            let message = format!(
                "{} is damaged or missing: the newest bundle names it and can no longer be seeded",
                target.place.at(&file(&known.name)).0.display()
            );
            self.progress.report(&Event::Warning { message });
        }
        if !target.has(&own, stop)? {
            if !self.discards || !target.link_file(&own, path)? {
                target.put_file(&own, path, blake3, stop)?;
            }
            self.written.0.fetch_add(1, Ordering::Relaxed);
            self.written.1.fetch_add(own.bytes, Ordering::Relaxed);
            failpoint::reach("bundle-file");
        }
        Ok(own)
    }

    pub fn complete(&self, report: BundleReport) -> BundleReport {
        let [uploaded_files, uploaded_bytes] =
            [&self.written.0, &self.written.1].map(|written| written.load(Ordering::Relaxed));
        BundleReport { uploaded_files, uploaded_bytes, seconds: self.start.elapsed().as_secs_f64(), ..report }
    }
}
