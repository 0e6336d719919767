//! Files of the newest bundle at a place, reused for equal records.

use std::collections::HashMap;

use super::document::BundleFile;
use super::place::{BundlePlace, file};
use super::signature::Signer;
use super::target::BundleTarget;
use crate::error::{Error, Result};
use crate::progress::{CancellationToken, Event, Progress};
use crate::report::OptionRow;

/// Options that affect the files: those of column families and tables.
fn file_options(options: &[OptionRow]) -> Vec<(&str, &str)> {
    let rows = options.iter().map(|row| (row.option.as_str(), row.value.as_str()));
    rows.filter(|(option, _)| !option.starts_with("db.")).collect()
}

/// Files of the newest bundle. SST files have random identities, so a published file with the same records and options replaces
/// the new one.
#[derive(Default)]
pub(super) struct PublishedFiles(HashMap<(String, String), BundleFile>);

impl PublishedFiles {
    /// Reads the newest bundle; empty if it cannot be read. With a signer, only a bundle signed by the same key is used, so that
    /// the key signs only files that it has described itself.
    pub fn find(
        place: &BundlePlace,
        options: &[OptionRow],
        signer: Option<&Signer>,
        progress: &Progress<'_>,
    ) -> Result<Self> {
        let own = signer.map(Signer::own).into_iter().collect::<Vec<_>>();
        let found = match place.latest().and_then(|id| id.map(|id| place.describe(&id, &own)).transpose()) {
            Err(error @ Error::BadInput { .. }) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                let message =
                    format!("the newest bundle cannot be reused ({error}: {cause}); all files are published again");
                progress.report(&Event::Warning { message });
                None
            }
            found => found?,
        };
        let same = found.filter(|found| file_options(&found.record.options) == file_options(options));
        let files = same.into_iter().flat_map(|found| found.files);
        Ok(Self(files.map(|file| ((file.column_family.clone(), file.first.clone()), file)).collect()))
    }

    /// Returns the published file to use instead of `own`, if it exists. Warns if that file is damaged or missing.
    pub fn replacement(
        &self,
        own: &BundleFile,
        (place, target): (&BundlePlace, &BundleTarget<'_>),
        progress: &Progress<'_>,
        stop: &CancellationToken,
    ) -> Result<Option<&BundleFile>> {
        let known = self.0.get(&(own.column_family.clone(), own.first.clone()));
        let Some(known) = known.filter(|known| known.has_same_records(own) && known.name != own.name) else {
            return Ok(None);
        };
        if target.has(known, stop)? {
            return Ok(Some(known));
        }
        let message = format!(
            "{} is damaged or missing: the newest bundle names it and can no longer be seeded",
            place.at(&file(&known.name)).0.display()
        );
        progress.report(&Event::Warning { message });
        Ok(None)
    }
}
