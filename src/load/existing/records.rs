//! The records that a database had before an import.

use crate::error::{Error, Result, errno_of};
use crate::load::existing::Existing;
use crate::load::existing::backup_files::check_whole;
use crate::rocks::{Reader, ReaderOptions};

/// Options for looking keys up in any order. Each open file has its index and its filter in memory.
const LOOKING_UP: ReaderOptions = ReaderOptions { cache: 16 << 20, open_files: 128, ..ReaderOptions::once() };

pub(in crate::load) struct ExistingRecords {
    pub reader: Reader,
    /// The column family of the blocks, if the database had it.
    pub family: Option<String>,
}

impl Existing<'_> {
    /// Opens the records that the database had before this import.
    pub fn records(&self, family: &str) -> Result<ExistingRecords> {
        let backup = &self.target.backup;
        check_whole(backup)?;
        let reader = Reader::open(backup, &LOOKING_UP).map_err(|error| match error {
            // A backup of a damaged database is damaged, too: then the error is that of the database.
            Error::Rocks { message, .. } if errno_of(&message).is_none() => {
                let own = Reader::open(&self.target.db, &LOOKING_UP).err();
                own.unwrap_or_else(|| Error::damaged_work(backup, format!("is damaged: {message}")))
            }
            error => error,
        })?;
        let family = reader.families.iter().any(|name| name == family).then(|| family.to_owned());
        Ok(ExistingRecords { reader, family })
    }
}

impl ExistingRecords {
    /// Looks up `keys`, which ascend if `sorted`, and passes each value to `found` with the index of its key.
    pub fn look_up(
        &self,
        keys: &[&[u8]],
        sorted: bool,
        mut found: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(family) = &self.family else { return Ok(()) };
        for (index, value) in self.reader.get_many(family, keys, sorted)?.into_iter().enumerate() {
            if let Some(value) = value? {
                found(index, value.as_ref())?;
            }
        }
        Ok(())
    }
}
