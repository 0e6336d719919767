//! Verifies the records of a database, all of them or a sample.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::progress::{Phase, PhaseWeights};
use crate::read::verify::against::SourceIndex;
use crate::read::verify::job::VerifyJob;
use crate::read::verify::scan::{Totals, for_each, read_all};
use crate::read::visited::Visited;
use crate::report::{Against, ImportReport};
use crate::rocks::key_ranges::Window;

/// Picked records per batch of a thread.
const PICKS: usize = 256;

pub(super) fn everything(job: &VerifyJob<'_>, record: Option<&ImportReport>) -> Result<(Totals, Option<Against>)> {
    let own = job.ranges_of(job.family);
    let index = job.options.against.first().map(|path| -> Result<_> {
        let phases = vec![(Phase::Read, 1.0), (Phase::Verify, 1.0)];
        job.progress.expect(PhaseWeights { phases, ..PhaseWeights::default() });
        Ok((path, SourceIndex::read(job, path, &own, record)?))
    });
    let index = index.transpose()?;
    let payload = record.map(|record| record.payload_bytes);
    let total = payload.unwrap_or_else(|| job.files.iter().map(|file| file.size).sum());
    let totals = read_all(job, &own, &[job.family], total, |worker, item, range| {
        let entries = index.as_ref().map(|(_, index)| index.take_range(item)).transpose()?;
        worker.scan_range(job.family, range, entries)
    })?;
    let against = index.map(|(path, index)| Against {
        source: path.display().to_string(),
        blocks: index.blocks.load(Ordering::Relaxed),
        distinct: totals.source.records,
        digest: totals.source.digest,
        imported: record.map(|record| record.digest == totals.source.digest),
        same: totals.same,
        extra: totals.extra,
        unreadable: totals.unreadable,
    });
    Ok((totals, against))
}

/// Checks `count` distinct records at random positions, in proportion to the sizes of the files.
pub(super) fn sample(job: &VerifyJob<'_>, count: u64) -> Result<Totals> {
    let files = job.files_of(job.family);
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    job.progress.begin(Phase::Verify, None);
    job.progress.expect_blocks(count);
    let mut keys = Vec::new();
    let mut before = 0;
    for file in files {
        // Rounded so that the shares of all files add up.
        let share = |bytes_before: u64| u128::from(count) * u128::from(bytes_before) / u128::from(bytes.max(1));
        let picks = share(before + file.size) - share(before);
        before += file.size;
        let window = Window::between(&file.smallest, &file.largest);
        keys.extend((0..picks).map(|_| match &window {
            Some(window) => window.key(window.part(random() >> 1, u64::MAX >> 1)),
            None => file.smallest.clone(),
        }));
    }
    keys.sort_unstable();
    let groups: Vec<&[Vec<u8>]> = keys.chunks(PICKS).collect();
    let resources = &job.options.resources;
    let picked = Visited::new(resources.memory_budget()? / 2, resources.scratch_parent());
    // A group ends where the next one begins, so that no two threads pick the same record.
    let mut totals = for_each(job, groups.len(), |worker, item| {
        let to = groups.get(item + 1).and_then(|next| next.first());
        worker.pick(groups.get(item).copied().unwrap_or_default(), to.map(Vec::as_slice), &picked)
    })?;
    // Groups with fewer records than picks leave the rest to the first records that were not picked.
    let missing = count.saturating_sub(totals.content.records + totals.unreadable);
    let first = vec![Vec::new(); usize::try_from(missing).unwrap_or(0)];
    totals.merge(&for_each(job, usize::from(missing > 0), |worker, _| worker.pick(&first, None, &picked))?);
    Ok(totals)
}

/// A random number from the seed of the standard library's maps.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
