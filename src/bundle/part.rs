//! A part of a bundle: a subset of its column families.

use super::document::{Bundle, BundleFile, families};
use crate::error::{Error, Result};
use crate::report::Part;

/// Returns the bundle with only the named column families and a report that matches them; the whole bundle if none is named.
pub(super) fn select_families(wanted: &[String], id: &str, mut bundle: Bundle) -> Result<Bundle> {
    let wrong = |reason: String, hint: String| Err(Error::Usage { reason, hint });
    let known: Vec<String> = families(&bundle.record).into_iter().map(|(name, _)| name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        let hint = format!("this bundle has the column families {}", known.join(", "));
        return wrong(format!("the bundle has no column family `{unknown}`"), hint);
    }
    if wanted.is_empty() || known.iter().all(|name| wanted.contains(name)) {
        return Ok(bundle);
    }
    let blocks = &bundle.record.column_family;
    if !wanted.contains(blocks) {
        let reason = format!("without the column family `{blocks}` there are no blocks");
        return wrong(reason, format!("give --column-family {blocks} as well"));
    }
    let files: Vec<BundleFile> =
        bundle.files.iter().filter(|file| wanted.contains(&file.column_family)).cloned().collect();
    bundle.record.part = Some(Part {
        bundle: id.to_owned(),
        files: files.len() as u64,
        of_files: bundle.files.len() as u64,
        of_digest: bundle.record.digest,
    });
    // Only block logs have more than one column family.
    if let Some(log) = &mut bundle.record.log {
        log.families.retain(|family| wanted.contains(&family.name));
    }
    Ok(Bundle { files, ..bundle })
}
