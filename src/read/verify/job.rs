//! State that the threads of a verification share.

use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::progress::Progress;
use crate::read::verify::claims::KeyReader;
use crate::read::verify::options::VerifyOptions;
use crate::read::verify::problems::Collector;
use crate::report::ProblemKind;
use crate::rocks::key_ranges::{KeyRange, ranges};
use crate::rocks::{DataFile, Reader, TableCheck};
use crate::text::size::{counted, grouped};

/// State that the threads share.
pub(super) struct VerifyJob<'a> {
    pub options: &'a VerifyOptions,
    pub reader: &'a Reader,
    pub files: &'a [DataFile],
    pub family: &'a str,
    pub keys: KeyReader,
    pub problems: &'a Collector<'a>,
    pub progress: &'a Progress<'a>,
}

impl VerifyJob<'_> {
    /// Last key in a file of `family`.
    pub fn largest_key(&self, family: &str) -> Option<Vec<u8>> {
        let files = self.files.iter().filter(|file| file.family == family);
        files.map(|file| file.largest.clone()).max()
    }

    /// Key ranges of all other column families, which are read, whichever program wrote them.
    pub fn others(&self, files: &[DataFile], known: &[&str]) -> Vec<(&str, KeyRange)> {
        let others = self.reader.families().iter().map(String::as_str).filter(|family| !known.contains(family));
        others.flat_map(|family| ranges_of(files, family).into_iter().map(move |range| (family, range))).collect()
    }

    /// Checks the blocks of all files that a scan of records does not read.
    pub fn check_tables(&self, files: &[DataFile]) -> Result<()> {
        let check = TableCheck::open(&self.options.db)?;
        if let Some((file, error)) = check.fault_at_open(files) {
            self.problems.add(ProblemKind::Checksum, file, error.to_string());
        }
        for file in files {
            if self.options.resources.stop.is_cancelled() {
                return Err(Error::interrupted_reading());
            }
            if let Some(message) = check.fault(file, files) {
                self.problems.add(ProblemKind::Checksum, Some(&file.path), message);
            }
        }
        Ok(())
    }
}

/// Key ranges of a column family.
pub(super) fn ranges_of(files: &[DataFile], family: &str) -> Vec<KeyRange> {
    let files: Vec<&DataFile> = files.iter().filter(|file| file.family == family).collect();
    ranges(&files)
}

/// Compares records and digest of a family with the record.
pub(super) fn compare(
    family: &str,
    found: (u64, ContentDigest),
    recorded: (u64, ContentDigest),
    problems: &Collector<'_>,
) {
    let of = if family.is_empty() { String::new() } else { format!(" of {family}") };
    if found.0 != recorded.0 {
        let records = counted(found.0, "record", "records");
        let message = format!("{records}{of} can be read, the import wrote {}", grouped(recorded.0));
        problems.add(ProblemKind::Count, None, message);
    }
    if found.1 != recorded.1 {
        let message = format!("the content digest{of} is {}, the import recorded {}", found.1, recorded.1);
        problems.add(ProblemKind::Digest, None, message);
    }
}
