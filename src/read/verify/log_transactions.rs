//! Checks that `transactions` finds the transactions of all blocks if several blocks name the same one.
//!
//! An import keeps the first position of an id and counts the others. A node that adds blocks may keep the first or the last one,
//! so that sums over all records cannot decide. All ids are sorted with their positions and compared with the family one by one.

use std::path::Path;

use parking_lot::Mutex;

use super::job::{VerifyJob, ranges_of};
use crate::blocks::chain;
use crate::error::{Error, Result};
use crate::external_sort::{Sorted, Sorter};
use crate::parallel;
use crate::progress::Phase;
use crate::rocks::DataFile;
use crate::rocks::key_ranges::KeyRange;
use crate::schema::{PLACE, TRANSACTIONS};
use crate::source::block_log::Lookup;

/// Length of the longest id, in bytes.
const ID: usize = 32;

/// An id, padded with zeros, and a position at which a block names it.
type Named = [u8; ID + PLACE];

/// Checks that the family has each id that a block names, at one of its positions, and nothing else.
pub(super) fn agree(job: &VerifyJob<'_>, files: &[DataFile], lookup: &Lookup) -> Result<bool> {
    let dir = job.options.resources.scratch_parent();
    let named = sorted(job, files, lookup, &dir)?;
    let failed = || Error::io("sort ids of transactions in", &dir);
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
        if job.options.resources.stop.is_cancelled() {
            return Err(Error::interrupted_reading());
        }
    }
    scan.status()?;
    Ok(scan.item().is_none())
}

/// Sorts the ids of all transactions with their positions.
fn sorted(job: &VerifyJob<'_>, files: &[DataFile], lookup: &Lookup, dir: &Path) -> Result<Sorted<Named>> {
    let resources = &job.options.resources;
    let memory = usize::try_from(resources.memory_budget()? / 2).unwrap_or(usize::MAX);
    let sorter = Mutex::new(Sorter::new(dir, memory, usize::MAX));
    let work = ranges_of(files, job.family);
    job.progress.begin(Phase::Verify, Some(files.iter().map(|file| file.size).sum()));
    parallel::for_each(
        resources.thread_count(),
        work.len(),
        || (),
        |(), item| work.get(item).map_or(Ok(()), |range| add_range(job, range, lookup, &sorter, dir)),
    )?;
    sorter.into_inner().sorted().map_err(Error::io("sort ids of transactions in", dir))
}

fn add_range(
    job: &VerifyJob<'_>,
    range: &KeyRange,
    lookup: &Lookup,
    sorter: &Mutex<Sorter<Named>>,
    dir: &Path,
) -> Result<()> {
    let mut scan = job.reader.scan(job.family, range.from.as_deref(), range.to.as_deref())?;
    let mut bytes = 0;
    while let Some((_, block)) = scan.item() {
        bytes += block.len() as u64;
        // Unreadable records have been reported.
        if let Ok(header) = chain::header(lookup.family, lookup.version, block)
            && let Ok(found) = lookup.of_block(block, &header, false)
        {
            let mut sorter = sorter.lock();
            for (position, id) in (0u32..).zip(&found.ids) {
                let mut named = [0; ID + PLACE];
                named[..id.as_bytes().len()].copy_from_slice(id.as_bytes());
                named[ID..ID + 4].copy_from_slice(&header.number.to_be_bytes());
                named[ID + 4..].copy_from_slice(&position.to_be_bytes());
                sorter.push(named).map_err(Error::io("sort ids of transactions in", dir))?;
            }
        }
        if job.options.resources.stop.is_cancelled() {
            return Err(Error::interrupted_reading());
        }
        scan.next();
    }
    job.progress.add(bytes, 0);
    scan.status()
}
