//! What a place has already, of the newest bundle there.

use std::collections::HashMap;

use super::document::BundleFile;
use super::place::{Place, file};
use super::signature::Signer;
use super::target::Target;
use crate::error::{Error, Result};
use crate::progress::{CancellationToken, Event, Progress};
use crate::report::OptionRow;

/// The options that files depend on, as far as they are known by name: those of column families and of tables.
fn of_files(options: &[OptionRow]) -> Vec<(&str, &str)> {
    let rows = options.iter().map(|row| (row.option.as_str(), row.value.as_str()));
    rows.filter(|(option, _)| !option.starts_with("db.")).collect()
}

/// The files of the newest bundle of a place: one with the same records and options stands for an own one, since SSTs have a
/// random identity each.
#[derive(Default)]
pub(super) struct Known(HashMap<(String, String), BundleFile>);

impl Known {
    /// The files of the bundle that is the newest there; none where it cannot be read. What one describes was believed by
    /// whoever signed it: who signs names only files that he has described himself.
    pub fn find(
        place: &Place,
        options: &[OptionRow],
        signer: Option<&Signer>,
        progress: &Progress<'_>,
    ) -> Result<Self> {
        let own = signer.map(Signer::own).into_iter().collect::<Vec<_>>();
        let found = match place.latest().and_then(|id| id.map(|id| place.describe(&id, &own)).transpose()) {
            Err(error @ Error::BadInput { .. }) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                let message =
                    format!("the bundle that is there is not used ({error}: {cause}): all files are looked at anew");
                progress.report(&Event::Warning { message });
                None
            }
            found => found?,
        };
        let same = found.filter(|found| of_files(&found.record.options) == of_files(options));
        let files = same.into_iter().flat_map(|found| found.files);
        Ok(Self(files.map(|file| ((file.column_family.clone(), file.first.clone()), file)).collect()))
    }

    /// The other file that stands for `own`, if it is there. One that is not is warned of: its bytes are nowhere here.
    pub fn stand_in(
        &self,
        own: &BundleFile,
        (place, target): (&Place, &Target<'_>),
        progress: &Progress<'_>,
        stop: &CancellationToken,
    ) -> Result<Option<&BundleFile>> {
        let known = self.0.get(&(own.column_family.clone(), own.first.clone()));
        let Some(known) = known.filter(|known| known.holds_what(own) && known.name != own.name) else {
            return Ok(None);
        };
        if target.has(known, stop)? {
            return Ok(Some(known));
        }
        let message = format!(
            "{} is damaged or missing, and the bundle that was the newest names it: no database is seeded from that one any \
             more",
            place.at(&file(&known.name)).0.display()
        );
        progress.report(&Event::Warning { message });
        Ok(None)
    }
}
