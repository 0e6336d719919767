//! Sorting partitions whose records have one size.

use zerocopy::IntoBytes;

use crate::error::{Error, Result};
use crate::external_sort::{Fixed, Sorter};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::sort::spill::Spill;

/// Bytes of a partition that are read at once.
const READ: usize = 1 << 20;

impl Spill {
    /// Passes the records of a partition to `take` in order, equal ones included, and sorts them within `memory` bytes.
    /// `numbers` turns stored bytes into numbers that sort. The first `key_len` bytes of a record are its key.
    pub fn for_each_sorted<T: Fixed>(
        &self,
        partition: u32,
        key_len: usize,
        memory: usize,
        numbers: impl Fn(T) -> T,
        mut take: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let extent = self.extent(partition);
        let failed = || Error::io("sort a partition in", &self.dir);
        let mut sorter = Sorter::new(&self.dir, memory, usize::try_from(extent.blocks).unwrap_or(usize::MAX));
        let mut content = Content::default();
        let mut piece = vec![T::new_zeroed(); READ / size_of::<T>()];
        let (mut at, records) = (0, extent.bytes / size_of::<T>() as u64);
        while at < records {
            piece.truncate(usize::try_from(records - at).unwrap_or(usize::MAX));
            self.read(partition, at * size_of::<T>() as u64, piece.as_mut_bytes())?;
            for record in &piece {
                content.add(ContentDigest::of_section(record.as_bytes(), key_len));
                sorter.push(numbers(*record)).map_err(failed())?;
            }
            at += piece.len() as u64;
        }
        if content != extent.content() {
            return Err(self.damaged_error(partition, content));
        }
        let sorted = sorter.sorted().map_err(failed())?;
        sorted.iter().map_err(failed())?.try_for_each(|record| take(record.map_err(failed())?))
    }
}
