//! Counts and digests the records of a column family on all threads. RocksDB checks its checksums. No hash of a block
//! is checked.

use super::key_ranges::{KeyRange, ranges};
use super::{DataFile, Reader};
use crate::error::{Error, Result};
use crate::hash::Content;
use crate::parallel::for_each;
use crate::progress::{CancellationToken, Progress};

const BATCH: u64 = 1024;

/// A visitor of the records of one range of keys, in ascending order.
pub(crate) trait Visit: Send {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Counts records. The number is the bytes of their values.
impl Visit for (Content, u64) {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.add_record(key, value);
        self.1 += value.len() as u64;
        Ok(())
    }
}

/// A scan of the column family `family`, whose files are among `files`.
pub(crate) struct FamilyScan<'a> {
    pub reader: &'a Reader,
    pub files: &'a [DataFile],
    pub family: &'a str,
    pub threads: usize,
    pub progress: &'a Progress<'a>,
    pub stop: &'a CancellationToken,
}

impl FamilyScan<'_> {
    /// Counts and digests all records. Returns the content and the bytes of the values.
    pub fn content(&self) -> Result<(Content, u64)> {
        let parts = self.visit(<(Content, u64)>::default)?;
        Ok(parts.into_iter().fold(Default::default(), |(mut all, payload): (Content, u64), (content, bytes)| {
            all.merge(content);
            (all, payload + bytes)
        }))
    }

    /// Visits all records with a visitor for each range of keys, and returns the visitors.
    pub fn visit<V: Visit>(&self, new: impl Fn() -> V + Sync) -> Result<Vec<V>> {
        let files: Vec<&DataFile> = self.files.iter().filter(|file| file.family == self.family).collect();
        let ranges = ranges(&files, self.reader.is_reversed(self.family), self.threads);
        let visitors = for_each(self.threads, ranges.len(), Vec::new, |visitors, item| {
            let Some(range) = ranges.get(item) else { return Ok(()) };
            visitors.push(self.visit_range(range, new())?);
            Ok(())
        })?;
        Ok(visitors.into_iter().flatten().collect())
    }

    fn visit_range<V: Visit>(&self, range: &KeyRange, mut visitor: V) -> Result<V> {
        let mut pending = (0, 0);
        let mut scan = self.reader.scan(self.family, range.from.as_deref(), range.to.as_deref())?;
        while let Some((key, value)) = scan.item() {
            visitor.record(key, value)?;
            pending = (pending.0 + value.len() as u64, pending.1 + 1);
            if pending.1 == BATCH {
                self.progress.add(pending.0, pending.1);
                pending = (0, 0);
                if self.stop.is_cancelled() {
                    return Err(Error::interrupted_reading());
                }
            }
            scan.next();
        }
        self.progress.add(pending.0, pending.1);
        scan.status()?;
        visitor.end().map(|()| visitor)
    }
}

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
