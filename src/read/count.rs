//! Counting what is in a column family: records, bytes and the content digest, on all threads.

use super::ranges::ranges;
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::parallel::for_each;
use crate::progress::{Progress, Stop};
use crate::rocks::{DataFile, Reader};

/// What is in a column family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub records: u64,
    pub payload: u64,
    pub digest: ContentDigest,
}

/// Records between two looks at the clock and at who wants to stop.
const BATCH: u64 = 1024;

/// Reads all records of `family`.
///
/// # Errors
/// A block that cannot be read; `verify` tells all of them.
pub(super) fn count(
    reader: &Reader,
    family: &str,
    threads: usize,
    progress: &Progress<'_>,
    stop: &Stop,
) -> Result<Content> {
    let files = reader.files()?;
    let own: Vec<&DataFile> = files.iter().filter(|file| file.family == family).collect();
    let ranges = ranges(&own);
    let contents = for_each(threads, ranges.len(), Content::default, |content: &mut Content, item| {
        let Some(range) = ranges.get(item) else { return Ok(()) };
        let mut scan = reader.scan(family, range.from.as_deref(), range.to.as_deref())?;
        let mut payload = 0;
        while let Some((key, value)) = scan.item() {
            content.records += 1;
            payload += value.len() as u64;
            content.digest.add_record(key, value);
            if content.records.is_multiple_of(BATCH) {
                progress.add(payload, BATCH);
                content.payload += std::mem::take(&mut payload);
                if stop.asked() {
                    return Err(Error::Interrupted { hint: "nothing was changed; run it again".into() });
                }
            }
            scan.next();
        }
        content.payload += payload;
        scan.status()
    })?;
    Ok(contents.into_iter().fold(Content::default(), |mut all, one| {
        all.records += one.records;
        all.payload += one.payload;
        all.digest.merge(one.digest);
        all
    }))
}
