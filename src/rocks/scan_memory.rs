//! The memory that scans of a database take, from the properties of its SST files.

use super::store::LEAST_OPEN_FILES;
use super::{DataFile, Reader, TableSize, count_merged_files, levels_of};
use crate::error::Result;

/// Copies of a record in an iterator: the block, and the buffer from which it was read, each of which may just be replaced (measured
/// with RocksDB 11.12).
const COPIES: u64 = 4;

/// Tables that a [`Reader`] for scans has open beside those it scans: RocksDB keeps 10 files for other uses.
const OPEN_TABLES: usize = LEAST_OPEN_FILES as usize - 10;

/// Copies of the first and last keys of the files, in RocksDB and in [`Reader::files`].
const KEY_COPIES: u64 = 4;

/// RocksDB's default of `block_size`.
const DEFAULT_BLOCK: u64 = 4 << 10;

/// Memory that the scans of a database can take, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanMemory {
    /// The records and indexes of one scan; `u64::MAX` if they are not known.
    pub each: u64,
    /// The indexes of open files, and the first and last keys of all files.
    pub held: u64,
}

impl TableSize {
    /// The most bytes that one record can have. RocksDB ends a block when it has nine tenths of `block` bytes, which include up to 8
    /// bytes beside the parts of a record. If the blocks are smaller, a record may have all bytes.
    fn largest(&self, block: u64) -> u64 {
        let others = self.blocks.saturating_sub(2).saturating_mul(block / 10 * 9);
        self.bytes.saturating_add(self.entries.saturating_mul(8)).checked_sub(others).unwrap_or(self.bytes)
    }
}

impl Reader {
    /// The most memory that scans can take: RocksDB has `COPIES` of a record, and the index, of each file of level 0 and of one file of
    /// each other level.
    pub fn scan_memory(&self) -> Result<ScanMemory> {
        let files = self.files()?;
        let (mut each, mut open, mut indexes) = (0, OPEN_TABLES, Vec::new());
        for name in &self.families {
            let own: Vec<&DataFile> = files.iter().filter(|file| file.family == *name).collect();
            let tables = self.totals(name)?.tables;
            let block = self.stored_option(name, "block_size").and_then(|size| size.parse().ok());
            let largest = |table: &TableSize| table.largest(block.unwrap_or(DEFAULT_BLOCK));
            let merged = count_merged_files(&levels_of(own.iter().map(|file| (file.level, file.size))));
            // A value in a blob file is as large as all that are live at most.
            let bytes = tables.iter().map(largest).max().unwrap_or_default().saturating_add(self.blobs(name)?.1);
            let index = tables.iter().map(|table| table.index).max().unwrap_or_default();
            // A file that cannot be opened has no known limit.
            let is_known = tables.len() >= own.len();
            let of_file = COPIES.saturating_mul(bytes).saturating_add(index);
            each = each.max(if is_known { merged.saturating_mul(of_file) } else { u64::MAX });
            open = open.max(merged as usize);
            indexes.extend(tables.iter().map(|table| table.index));
        }
        indexes.sort_unstable();
        let keys = files.iter().map(|file| (file.smallest.len() + file.largest.len()) as u64).sum::<u64>();
        Ok(ScanMemory { each, held: KEY_COPIES * keys + indexes.iter().rev().take(open).sum::<u64>() })
    }
}
