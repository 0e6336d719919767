//! Checks that `transactions` finds the transactions of all blocks if several blocks name the same one. An import keeps the first
//! position, a node any of them, so that sums cannot decide. All ids are sorted with their positions and compared one by one.

use std::path::Path;

use parking_lot::Mutex;

use super::job::VerifyJob;
use crate::blocks::chain;
use crate::error::{Error, Result};
use crate::external_sort::Sorter;
use crate::progress::Phase;
use crate::rocks::Visit;
use crate::schema::{PLACE, TRANSACTIONS};
use crate::source::block_log::TransactionLookup;

/// Length of the longest id, in bytes.
const ID: usize = 32;

/// An id, padded with zeros, and a position at which a block names it.
type Named = [u8; ID + PLACE];

/// Checks that the family has each id that a block names, at one of its positions, and nothing else.
pub(super) fn agree(job: &VerifyJob<'_>, lookup: &TransactionLookup) -> Result<bool> {
    let dir = &job.options.resources.scratch_parent();
    let failed = || Error::io("sort ids of transactions in", dir);
    let memory = usize::try_from(job.options.resources.memory_budget()? / 2).unwrap_or(usize::MAX);
    let sorter = Mutex::new(Sorter::new(dir, memory, usize::MAX));
    job.progress.begin(Phase::Verify, Some(job.files.iter().map(|file| file.size).sum()));
    job.scan_of(job.family).visit(|| NamedTransactions { lookup, sorter: &sorter, dir })?;
    let named = sorter.into_inner().sorted().map_err(failed())?;
    let mut all = named.iter().map_err(failed())?.peekable();
    let mut scan = job.reader.scan(TRANSACTIONS, None, None)?;
    while let Some(first) = all.next().transpose().map_err(failed())? {
        let Some((key, value)) = scan.item() else { return Ok(false) };
        let is_it = |named: &Named| {
            let (id, place) = named.split_at(ID);
            id.starts_with(key) && key.len() == lookup.family.id_len() && place == value
        };
        let mut found = is_it(&first);
        while let Some(Ok(next)) = all.next_if(|next| next.as_ref().is_ok_and(|next| next[..ID] == first[..ID])) {
            found |= is_it(&next);
        }
        if !found {
            return Ok(false);
        }
        scan.next();
        job.options.resources.stop.check(Error::interrupted_reading)?;
    }
    scan.status()?;
    Ok(scan.item().is_none())
}

/// Takes the ids of the transactions of blocks.
struct NamedTransactions<'a> {
    lookup: &'a TransactionLookup,
    sorter: &'a Mutex<Sorter<Named>>,
    dir: &'a Path,
}

impl Visit for NamedTransactions<'_> {
    fn record(&mut self, _: &[u8], block: &[u8]) -> Result<()> {
        // Unreadable records have been reported.
        let Ok(header) = chain::header(self.lookup.family, self.lookup.version, block) else { return Ok(()) };
        let Ok(found) = self.lookup.of_block(block, &header, false) else { return Ok(()) };
        let mut sorter = self.sorter.lock();
        for (position, id) in (0u32..).zip(&found.ids) {
            let mut named = [0; ID + PLACE];
            named[..id.as_bytes().len()].copy_from_slice(id.as_bytes());
            named[ID..ID + 4].copy_from_slice(&header.number.to_be_bytes());
            named[ID + 4..].copy_from_slice(&position.to_be_bytes());
            sorter.push(named).map_err(Error::io("sort ids of transactions in", self.dir))?;
        }
        Ok(())
    }
}
