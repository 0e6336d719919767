//! State that the threads of a verification share.

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::read::verify::claims::KeyReader;
use crate::read::verify::options::VerifyOptions;
use crate::read::verify::problems::Collector;
use crate::report::ProblemKind;
use crate::rocks::key_ranges::{KeyRange, ranges};
use crate::rocks::{DataFile, FamilyScan, Reader, ScanMemory, TableCheck};
use crate::text::size::human;

pub(super) struct VerifyJob<'a> {
    pub options: &'a VerifyOptions,
    pub reader: &'a Reader,
    pub files: &'a [DataFile],
    /// Zeros if the memory is not limited.
    pub scan_memory: ScanMemory,
    /// The column family of the blocks.
    pub family: &'a str,
    pub keys: KeyReader,
    pub problems: &'a Collector<'a>,
    pub progress: &'a Progress<'a>,
}

impl VerifyJob<'_> {
    /// Reports that the database lacks a block of the source.
    pub fn add_missing(&self, key: &[u8]) {
        let message = || "the source has this block, but the database does not".to_owned();
        self.problems.add_key(ProblemKind::Missing, self.family, key, message);
    }

    pub fn files_of(&self, family: &str) -> Vec<&DataFile> {
        self.files.iter().filter(|file| file.family == family).collect()
    }

    pub fn ranges_of(&self, family: &str) -> Vec<KeyRange> {
        ranges(&self.files_of(family), self.reader.is_reversed(family), self.options.resources.thread_count())
    }

    /// Threads whose scans of the database and of the `source` take half of the memory that is left beside the indexes.
    pub fn threads(&self, source: ScanMemory) -> Result<usize> {
        let (own, budget) = (self.scan_memory, self.options.resources.memory_budget()?);
        // `check_tables` opens the database once more.
        let held = 2 * own.held + source.held;
        if held > budget {
            let reason = format!("the indexes of the SST files take {}", human(held));
            return Err(Error::limit(&self.options.db, reason, held));
        }
        let most = (budget - held) / 2 / own.each.saturating_add(source.each).max(1);
        Ok(self.options.resources.thread_count().min(most.max(1) as usize))
    }

    pub fn scan_of<'a>(&'a self, family: &'a str) -> FamilyScan<'a> {
        self.options.resources.scan(self.reader, self.files, family, self.progress)
    }

    /// Checks the blocks of all files that a scan of records does not read.
    pub fn check_tables(&self) -> Result<()> {
        let check = TableCheck::open(&self.options.db)?;
        if let Some((file, error)) = check.fault_at_open(self.files) {
            self.problems.add(ProblemKind::Checksum, file, error.to_string());
        }
        for (file, fault) in check.faults(self.files) {
            self.options.resources.stop.check(Error::interrupted_reading)?;
            if let Some(message) = fault {
                self.problems.add(ProblemKind::Checksum, Some(&file.path), message);
            }
        }
        Ok(())
    }
}
