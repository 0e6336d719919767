//! Lookup of blocks in a database of a block log: by number, by id, or by the id of a transaction.

use std::path::Path;

use super::access::open_lenient;
use crate::blocks::chain::{self, ChainProblem, Family, Header, Id};
use crate::error::{Error, Result};
use crate::os::watched_dir::WatchedDir;
use crate::report::ImportReport;
use crate::rocks::Reader;
use crate::schema::{BLOCK_IDS, NUMBER, TRANSACTIONS};
use crate::sort::key::KeyLayout;

/// Most digits of a block number; an id has 40 or 64.
const NUMBER_DIGITS: usize = 10;

/// A database of a block log, open for lookups. Other processes may have it open too. Writes after
/// [`BlockLookup::open`] are not visible.
#[derive(Debug)]
pub struct BlockLookup {
    dir: WatchedDir,
    reader: Reader,
    /// Kind of chain, which determines the format of headers.
    pub family: Family,
    version: u32,
}

/// A block of a block log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoundBlock {
    /// The stored bytes.
    pub block: Vec<u8>,
    /// Decoded header; `None` if it cannot be read.
    pub header: Option<Header>,
    /// The block number, which is also the key.
    pub number: u32,
    /// Position of the requested transaction, from 0.
    pub transaction: Option<u32>,
}

impl BlockLookup {
    /// Opens the database in `db`; `None` if it was not made from a block log.
    ///
    /// # Errors
    /// [`Error::State`]: there is no database, or its record is damaged; [`Error::Rocks`] or [`Error::Io`]: it cannot
    /// be opened; [`Error::Replaced`].
    pub fn open(db: &Path) -> Result<Option<Self>> {
        let dir = WatchedDir::open(db);
        let Some(record) = dir.guard(|| ImportReport::load(db))?.filter(|record| record.key == KeyLayout::Number)
        else {
            return Ok(None);
        };
        let (family, version) = record.chain();
        let reader = dir.guard(|| open_lenient(db))?;
        // The record and the files belong to the same database.
        dir.check()?;
        Ok(Some(Self { dir, reader, family, version }))
    }

    /// Looks up a block by its decimal number, its id in hex, or the id of one of its transactions. `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`]: the text is none of these; [`Error::Rocks`] or [`Error::Io`]: the block cannot be read;
    /// [`Error::Replaced`].
    pub fn get(&self, text: &str) -> Result<Option<FoundBlock>> {
        self.checked(|| self.find(text))
    }

    /// Looks up a block by its number; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Rocks`] or [`Error::Io`]: the block cannot be read; [`Error::Replaced`].
    pub fn get_number(&self, number: u32) -> Result<Option<FoundBlock>> {
        self.checked(|| self.block(number, None))
    }

    /// Looks up a block by its id, or by the id of one of its transactions; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`BlockLookup::get_number`].
    pub fn get_id(&self, id: &Id) -> Result<Option<FoundBlock>> {
        self.checked(|| self.find_id(id))
    }

    fn checked(&self, find: impl FnOnce() -> Result<Option<FoundBlock>>) -> Result<Option<FoundBlock>> {
        let found = self.dir.guard(find)?;
        if found.is_none() {
            self.dir.check()?;
        }
        Ok(found)
    }

    fn find(&self, text: &str) -> Result<Option<FoundBlock>> {
        let text = text.trim();
        if text.len() <= NUMBER_DIGITS && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return match text.parse() {
                Ok(number) => self.block(number, None),
                // No chain has that many blocks.
                Err(_) => Ok(None),
            };
        }
        let id: Id = text.parse().map_err(|error| Error::Usage {
            reason: format!("`{text}` is neither the number of a block nor an id: {error}"),
            hint: "give a number, or the id of a block or of a transaction as hex".into(),
        })?;
        self.find_id(&id)
    }

    fn find_id(&self, id: &Id) -> Result<Option<FoundBlock>> {
        let value = match self.value(BLOCK_IDS, id.as_bytes())? {
            None => self.value(TRANSACTIONS, id.as_bytes())?,
            value => value,
        };
        // The entry of a transaction has a position after the number.
        match value.and_then(|value| Some((number_at(&value, 0)?, number_at(&value, NUMBER)))) {
            Some((number, position)) => self.block(number, position),
            None => Ok(None),
        }
    }

    /// Returns the block's transactions as JSON; `None` if its header cannot be read.
    pub(crate) fn transactions(&self, found: &FoundBlock) -> Option<Result<serde_json::Value, ChainProblem>> {
        let header = found.header.as_ref()?;
        Some(chain::transactions_json(self.family, self.version, &found.block, header))
    }

    /// Returns the numbers of the first and the last block; `None` if there are no blocks.
    pub(crate) fn bounds(&self) -> Result<Option<(u32, u32)>> {
        self.dir.guard(|| {
            let mut scan = self.reader.pick("default")?;
            scan.seek(&[]);
            let first = scan.item().and_then(|(key, _)| number_at(key, 0));
            scan.seek_to_last();
            let last = scan.item().and_then(|(key, _)| number_at(key, 0));
            scan.status()?;
            Ok(first.zip(last))
        })
    }

    pub(crate) fn has(&self, family: &str) -> bool {
        self.reader.families.iter().any(|name| name == family)
    }

    /// Reads a record of a family; `None` if there is no such family.
    fn value(&self, family: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if !self.has(family) {
            return Ok(None);
        }
        let found = self.reader.get_many(family, &[key], false)?.pop();
        found.transpose().map(|found| found.flatten().map(|value| value.as_ref().to_vec()))
    }

    fn block(&self, number: u32, transaction: Option<u32>) -> Result<Option<FoundBlock>> {
        let Some(block) = self.value("default", &number.to_be_bytes())? else { return Ok(None) };
        let header = chain::header(self.family, self.version, &block).ok();
        Ok(Some(FoundBlock { block, header, number, transaction }))
    }
}

fn number_at(value: &[u8], at: usize) -> Option<u32> {
    value.get(at..)?.first_chunk().map(|number| u32::from_be_bytes(*number))
}
