//! What a column family holds, counted and digested by all threads: no hash is checked, only RocksDB's checksums are.

use rayon::prelude::*;

use super::ranges::{KeyRange, ranges};
use crate::error::{Error, Result};
pub(crate) use crate::hash::content_digest::Content;
use crate::progress::{Progress, Stop};
use crate::rocks::{DataFile, Reader};

/// Records between two bumps of the progress counters.
const BATCH: u64 = 1024;

/// Ranges for each thread where files of level 0 overlap: each range has to look into all of them.
const PARTS: usize = 4;

/// What looks at the records of one range of keys, which come in ascending order.
pub(crate) trait Visit: Send {
    /// Takes the next record.
    ///
    /// # Errors
    /// What ends the scan.
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// There are no more in this range.
    ///
    /// # Errors
    /// What ends the scan.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Visit for Content {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.records += 1;
        self.digest.add_record(key, value);
        Ok(())
    }
}

/// Counts and digests all records of `family`, whose files `files` has.
///
/// # Errors
/// A block that does not match its checksum, or somebody asked to stop.
pub(crate) fn content(
    reader: &Reader,
    files: &[DataFile],
    family: &str,
    progress: &Progress<'_>,
    stop: &Stop,
) -> Result<Content> {
    let parts = visit(reader, files, family, progress, stop, Content::default)?;
    Ok(parts.into_iter().fold(Content::default(), |mut all, part| {
        all.merge(part);
        all
    }))
}

/// Goes through all records of `family`, whose files `files` has, with a visitor for each range of keys; all of them.
///
/// # Errors
/// A block that does not match its checksum, somebody asked to stop, or what a visitor says.
pub(crate) fn visit<V: Visit>(
    reader: &Reader,
    files: &[DataFile],
    family: &str,
    progress: &Progress<'_>,
    stop: &Stop,
    new: impl Fn() -> V + Sync,
) -> Result<Vec<V>> {
    let files: Vec<&DataFile> = files.iter().filter(|file| file.family == family).collect();
    let of_range = |range: &KeyRange| {
        let mut visitor = new();
        let mut untold = (0, 0);
        let mut scan = reader.scan(family, range.from.as_deref(), range.to.as_deref())?;
        while let Some((key, value)) = scan.item() {
            visitor.record(key, value)?;
            untold = (untold.0 + value.len() as u64, untold.1 + 1);
            if untold.1 == BATCH {
                progress.add(untold.0, untold.1);
                untold = (0, 0);
                if stop.asked() {
                    return Err(Error::Interrupted { hint: "run it again".into() });
                }
            }
            scan.next();
        }
        progress.add(untold.0, untold.1);
        scan.status()?;
        visitor.end().map(|()| visitor)
    };
    let mut ranges = ranges(&files);
    if files.iter().any(|file| file.level == 0) {
        ranges = coarse(&ranges, rayon::current_num_threads() * PARTS);
    }
    ranges.par_iter().map(of_range).collect()
}

/// The same ranges as at most `count`.
fn coarse(ranges: &[KeyRange], count: usize) -> Vec<KeyRange> {
    let join = |group: &[KeyRange]| match group {
        [first, .., last] => Some(KeyRange { from: first.from.clone(), to: last.to.clone() }),
        group => group.first().cloned(),
    };
    ranges.chunks(ranges.len().div_ceil(count.max(1)).max(1)).filter_map(join).collect()
}

/// The first key of `family` that `wanted` knows.
///
/// # Errors
/// A block that does not match its checksum.
pub(crate) fn find_key(reader: &Reader, family: &str, wanted: impl Fn(&[u8]) -> bool) -> Result<Option<Vec<u8>>> {
    let mut scan = reader.scan(family, None, None)?;
    while let Some((key, _)) = scan.item() {
        if wanted(key) {
            return Ok(Some(key.to_vec()));
        }
        scan.next();
    }
    scan.status().map(|()| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_ranges_cover_what_fine_ones_do() {
        let key = |number: u8| Some(vec![number]);
        let fine: Vec<KeyRange> = (0..10u8)
            .map(|n| KeyRange { from: if n == 0 { None } else { key(n) }, to: if n == 9 { None } else { key(n + 1) } })
            .collect();
        for count in 1..12 {
            let coarse = coarse(&fine, count);
            assert!(coarse.len() <= count, "{count}");
            assert_eq!((&coarse[0].from, &coarse[coarse.len() - 1].to), (&None, &None));
            assert!(coarse.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].to.is_some()));
        }
    }
}
