//! A sample of a snapshot, imported by [`crate::import`] into a directory on the disk where the database would be.
//!
//! Of a CAR it is the beginning, decompressed, cut behind a whole section and held in memory as a file; of a block log it
//! is consecutive ranges from its middle, as many as there are threads: its first blocks are smaller than those of later
//! years.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::scratch;
use crate::error::{Error, Result};
use crate::load::{ImportOptions, Outcome, Plan, PlanChoice};
use crate::os::file_system::FileSystem;
use crate::os::resources;
use crate::progress::Silent;
use crate::report::ImportReport;
use crate::source::block_log::{Dictionaries, Log, LogBody, Opened, Sought};
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::car::header_bytes;
use crate::source::input::{self, Body, InputOptions};

/// Bytes of the sample of a CAR, and the share of available memory that it may take: an import holds it once more.
const SAMPLE: u64 = 128 << 20;
const MEMORY_SHARE: u64 = 16;

/// The share of the import's memory that the sample of a CAR may take.
const BUDGET_SHARE: u64 = 4;

/// The share of the free space that the import of a sample may take; it takes its bytes up to twice.
const SPACE_SHARE: u64 = 8;

/// How long the sample of a CAR is read: some sources decompress slowly.
const TIME: Duration = Duration::from_secs(2);

/// Bytes of one chunk, and memory for decompression.
const CHUNK: usize = 2 << 20;
const DECOMPRESSION: u64 = 64 << 20;

/// Pieces of a file that are read to see how fast it comes from its disk, and bytes of each.
const PIECES: u64 = 24;
const PIECE: usize = 4 << 20;

/// A sample that has been imported.
pub(super) struct Sample {
    /// Bytes of the sample, and of the snapshot that it represents; of a CAR both decompressed.
    pub bytes: u64,
    pub whole: u64,
    /// What its import did.
    pub report: ImportReport,
    /// What reading the source takes where the sample was read from memory.
    pub source: Option<Source>,
}

/// How long it takes to read the whole source of a sample.
#[derive(Default)]
pub(super) struct Source {
    /// Seconds when nothing else is to do.
    pub seconds: f64,
    /// Seconds of processor time, which threads that check blocks lack.
    pub cpu_seconds: f64,
}

/// Imports a sample into a directory of its own in `place`, which is removed before this returns. `None` of a pipe, and
/// where there is too little room.
///
/// # Errors
/// As [`crate::import`].
pub(super) fn import(options: &ImportOptions, plan: &Plan, place: &FileSystem) -> Result<Option<Sample>> {
    let dictionaries = Dictionaries::new(options.log.dictionaries.as_deref());
    if options.source().is_dir() && plan.log().is_none() {
        // A sample of one of several CARs says little of the others.
        return Ok(None);
    }
    if plan.log().is_some() {
        return of_log(options, plan, place, &dictionaries);
    }
    of_car(options, plan, place)
}

fn of_log(
    options: &ImportOptions,
    plan: &Plan,
    place: &FileSystem,
    dictionaries: &Dictionaries,
) -> Result<Option<Sample>> {
    let opened = match Log::of_set(options.source(), options.log.tail, dictionaries)? {
        Some(log) => log,
        None => {
            let input = open(options, plan)?;
            match Log::detect(input, Sought::Log, options.log.tail, dictionaries)? {
                Opened::Log(log) => *log,
                Opened::Other(_) => return Ok(None),
            }
        }
    };
    let (LogBody::Files(files), Some(log)) = (&opened.body, plan.log()) else { return Ok(None) };
    let ranges = files.ranges(log.range_bytes, &[], dictionaries)?;
    let from = (ranges.len() / 2).min(ranges.len().saturating_sub(plan.threads));
    let chosen: Vec<_> = ranges.iter().skip(from).take(plan.threads).collect();
    let bytes = chosen.iter().map(|range| range.end - range.start).sum();
    let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else { return Ok(None) };
    if bytes > place.free / SPACE_SHARE {
        return Ok(None);
    }
    let mut options = options.clone();
    (options.log.from, options.log.to) = (Some(first.first), Some(last.last));
    (options.log.expect_head, options.log.checkpoints) = (None, Vec::new());
    let report = import_into_scratch(options, place)?;
    Ok(report.map(|report| Sample { bytes, whole: files.size(), report, source: None }))
}

fn of_car(options: &ImportOptions, plan: &Plan, place: &FileSystem) -> Result<Option<Sample>> {
    let input = open(options, plan)?;
    let Some(size) = input.size else { return Ok(None) };
    let is_plain = matches!(input.body, Body::File(_));
    let available = resources::available_memory().map_or(SAMPLE, |memory| memory / MEMORY_SHARE);
    let limit = SAMPLE.min(available).min(plan.memory / BUDGET_SHARE);
    if limit > place.free / SPACE_SHARE {
        return Ok(None);
    }
    let (started, cpu) = (Instant::now(), resources::cpu_seconds());
    let limits = Limits {
        max_block: options.max_block_size,
        null_padding: options.null_padding,
        fits: u64::MAX,
        budget: u64::MAX,
        chunk: CHUNK,
    };
    let (_, mut chunks) = Chunks::open(input, limits)?;
    let (memory, bytes) = hold(&mut chunks, limit)?;
    let (seconds, consumed) = (started.elapsed().as_secs_f64(), chunks.consumed().clamp(1, size.max(1)));
    let cpu_seconds = resources::cpu_seconds().zip(cpu).map_or(seconds, |(after, before)| after - before);
    drop(chunks);
    let whole = if is_plain { size } else { (size as f64 * bytes as f64 / consumed as f64) as u64 };
    let times = whole as f64 / bytes.max(1) as f64;
    let from_disk = seconds_to_read(options.source(), size);
    let source = if is_plain {
        Source { seconds: from_disk, cpu_seconds: 0.0 }
    } else {
        Source { seconds: from_disk.max(seconds * times), cpu_seconds: cpu_seconds * times }
    };
    let choice = match plan.sort() {
        Some(sort) if sort.by_reference => PlanChoice::Source,
        Some(sort) if !sort.spill && whole <= sort.hold_bytes => PlanChoice::Memory,
        _ => PlanChoice::Spill,
    };
    let options = ImportOptions {
        sources: vec![PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()))],
        plan: choice,
        ..options.clone()
    };
    let report = import_into_scratch(options, place)?;
    Ok(report.map(|report| Sample { bytes, whole, report, source: Some(source) }))
}

fn open(options: &ImportOptions, plan: &Plan) -> Result<input::Input> {
    let network = options.network.clone();
    input::open(options.source(), &InputOptions { network, ..InputOptions::new(plan.threads, DECOMPRESSION) })
}

/// A CAR in memory with the next sections, `limit` bytes of them at least where there are as many and [`TIME`] suffices;
/// and how many bytes these are.
fn hold(chunks: &mut Chunks, limit: u64) -> Result<(File, u64)> {
    let failed = |error: std::io::Error| Error::io("hold a sample in", "memory")(error);
    let mut memory = file_in_memory("bedload-sample").map_err(failed)?;
    memory.write_all(&header_bytes(std::iter::empty())).map_err(failed)?;
    let (started, mut bytes, mut spare) = (Instant::now(), 0, None);
    while bytes < limit && started.elapsed() < TIME {
        let Some(chunk) = chunks.next(spare.take())? else { break };
        memory.write_all(&chunk.bytes).map_err(failed)?;
        bytes += chunk.bytes.len() as u64;
        spare = chunk.bytes.release();
    }
    Ok((memory, bytes))
}

/// A file without a name that is held in memory.
pub(super) fn file_in_memory(name: &str) -> std::io::Result<File> {
    Ok(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Seconds to read `size` bytes of a file, from pieces that are spread over it: as far as it is in the page cache, so
/// are they.
fn seconds_to_read(path: &Path, size: u64) -> f64 {
    let Ok(file) = File::open(path) else { return 0.0 };
    let mut buffer = vec![0; PIECE.min(usize::try_from(size / PIECES).unwrap_or(PIECE))];
    let (started, mut bytes) = (Instant::now(), 0_usize);
    for piece in 0..PIECES {
        // The import reports a file that cannot be read.
        bytes += file.read_at(&mut buffer, size / PIECES * piece).unwrap_or_default();
        if started.elapsed() > TIME {
            break;
        }
    }
    started.elapsed().as_secs_f64() * size as f64 / bytes.max(1) as f64
}

/// Imports what `options` name into a new directory in `place`, with its partitions in another one in their work
/// directory.
fn import_into_scratch(options: ImportOptions, place: &FileSystem) -> Result<Option<ImportReport>> {
    let database = scratch::directory(&place.path)?;
    let partitions = options.work_dir.as_deref().map(scratch::directory).transpose()?;
    let options = ImportOptions {
        db: database.path().join("db"),
        work_dir: partitions.as_ref().map(|dir| dir.path().to_owned()),
        into_existing: false,
        replace: false,
        restart: false,
        dry_run: false,
        assumed_bytes: None,
        ..options
    };
    Ok(match crate::load::import(&options, &Silent)? {
        Outcome::Imported(report) => Some(*report),
        Outcome::Planned(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, Format, Profile, Spec};

    fn sample(format: Format) -> (u64, Sample) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let mut file = File::create(&path).expect("created");
        let made = generate::write(&Spec::new(Profile::Mainnet, 8 << 20).format(format), &mut file).expect("written");
        let options = ImportOptions { memory: Some(16 << 20), ..ImportOptions::new(&path, dir.path().join("db")) };
        let Ok(Outcome::Planned(dry_run)) =
            crate::load::import(&ImportOptions { dry_run: true, ..options.clone() }, &Silent)
        else {
            panic!("no plan")
        };
        let place = FileSystem::of(dir.path()).expect("a file system");
        let sample = import(&options, &dry_run.plan, &place).expect("imported").expect("a file");
        assert_eq!(dir.path().read_dir().expect("listed").count(), 1, "only the snapshot is left");
        (made.blocks, sample)
    }

    #[test]
    fn the_beginning_of_a_car_stands_for_all_of_it() {
        for format in [Format::Car, Format::CarZst] {
            let (blocks, sample) = sample(format);
            let times = sample.whole as f64 / sample.bytes as f64;
            assert!((1.2..2.5).contains(&times), "{times} of {format:?}");
            let found = sample.report.blocks.read as f64 * times / blocks as f64;
            assert!((0.7..1.4).contains(&found), "{found} of the blocks of {format:?}");
            assert!(sample.source.is_some_and(|source| source.seconds > 0.0), "{format:?}");
        }
    }
}
