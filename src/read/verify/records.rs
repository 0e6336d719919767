//! Verifies the records of a database, all of them or a sample.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::progress::{Phase, PhaseWeights};
use crate::read::verify::against::{Source, SourceIndex};
use crate::read::verify::job::{VerifyJob, ranges_of};
use crate::read::verify::scan::{Totals, for_each};
use crate::report::{Against, ImportReport};
use crate::rocks::DataFile;
use crate::rocks::key_ranges::{KeyRange, Window};
use crate::source::car::NullPadding;

/// Picked records per batch of a thread.
const PICKS: usize = 256;

/// Verifies all column families.
pub(super) fn everything(
    job: &VerifyJob<'_>,
    files: &[DataFile],
    record: Option<&ImportReport>,
) -> Result<(Totals, Option<Against>)> {
    let own = ranges_of(files, job.family);
    let index = match &job.options.against {
        Some(path) => {
            let phases = vec![(Phase::Read, 1.0), (Phase::Verify, 1.0)];
            job.progress.expect(PhaseWeights { phases, ..PhaseWeights::default() });
            Some(read_source(job, path, &own, record)?)
        }
        None => None,
    };
    let payload = record.map(|record| record.payload_bytes);
    let total = payload.unwrap_or_else(|| files.iter().map(|file| file.size).sum());
    job.progress.begin(Phase::Verify, Some(total));
    let mut work: Vec<(&str, usize, KeyRange)> =
        own.into_iter().enumerate().map(|(number, range)| (job.family, number, range)).collect();
    work.extend(job.others(files, &[job.family]).into_iter().map(|(family, range)| (family, 0, range)));
    let totals = for_each(job, work.len() + 1, |worker, item| {
        let Some((family, number, range)) = item.checked_sub(1).and_then(|item| work.get(item)) else {
            return job.check_tables(files);
        };
        let index = index.as_ref().filter(|_| *family == job.family);
        let entries = index.map(|index| index.take_range(*number)).transpose()?;
        worker.go_through(family, range, entries)
    })?;
    let against = index.map(|index| Against {
        source: job.options.against.as_deref().unwrap_or(Path::new("")).display().to_string(),
        blocks: index.blocks.load(Ordering::Relaxed),
        distinct: totals.distinct,
        digest: totals.source,
        imported: record.filter(|record| !record.into_existing).map(|record| record.digest == totals.source),
        same: totals.same,
        extra: totals.extra,
        unreadable: totals.unreadable,
    });
    Ok((totals, against))
}

fn read_source(
    job: &VerifyJob<'_>,
    path: &Path,
    ranges: &[KeyRange],
    record: Option<&ImportReport>,
) -> Result<SourceIndex> {
    let padded = record.is_some_and(|record| record.source.null_padding > 0);
    let resources = &job.options.resources;
    let source = Source {
        path,
        layout: job.keys.layout,
        null_padding: job.options.null_padding.unwrap_or(if padded { NullPadding::Eof } else { NullPadding::Error }),
        left_out: record.map(ImportReport::left_out).unwrap_or_default(),
        memory: resources.memory_budget()?,
        threads: resources.thread_count(),
        network: &job.options.network,
        work_dir: resources.scratch_parent(),
        stop: &resources.stop,
    };
    SourceIndex::read(&source, ranges, job.progress)
}

/// Checks `count` records at random positions, in proportion to the sizes of the files.
pub(super) fn sample(job: &VerifyJob<'_>, files: &[DataFile], count: u64) -> Result<Totals> {
    let files: Vec<&DataFile> = files.iter().filter(|file| file.family == job.family).collect();
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
    for_each(job, groups.len(), |worker, item| worker.pick(groups.get(item).copied().unwrap_or_default()))
}

/// A random number from the seed of the standard library's maps.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
