//! The forecast of an import. A small generated snapshot is imported on the disk of the database, and its times are scaled
//! to the size of the source.
//!
//! ```text
//! read     the longest of: the sample's time scaled, reading the source, and writing all blocks once if they spill
//! build    the longest of: the sample's time scaled, and writing the database
//! ingest, compact, commit    the sample's time: a few syncs, whatever the size of the source
//! ```
use std::collections::BTreeMap;

use super::scratch;
use super::snapshot::{SampleSnapshot, probe, read_rate};
use crate::error::Result;
use crate::load::{ImportOptions, Plan, PlanChoice};
use crate::os::file_system::FileSystem;
use crate::os::resources;
use crate::progress::Silent;
use crate::report::{DiskSpeed, ImportReport, Prediction};

/// Bytes of the sample, and the share of available memory that it may take: an import holds it once more.
const SAMPLE: u64 = 256 << 20;
const MEMORY_SHARE: u64 = 16;

/// The share of the import's memory that the sample may take.
const BUDGET_SHARE: u64 = 4;

/// The share of the free space that the import of the sample may take; it takes its bytes up to twice.
const SPACE_SHARE: u64 = 8;

/// Bytes resident besides those that the plan counts: the program and RocksDB.
const BASE: u64 = 32 << 20;

/// Bytes that a thread holds of a block log.
const MEMORY_OF_LOGS: u64 = 12 << 20;

/// Returns the largest size of a sample, in bytes.
pub(super) fn sample_limit(import: &ImportOptions) -> u64 {
    let available = resources::available_memory().map_or(SAMPLE, |memory| memory / MEMORY_SHARE);
    SAMPLE.min(available).min(import.memory_budget() / BUDGET_SHARE)
}

/// Forecasts an import through the ingest loader; `generated` is the sample if it exists already. `None` if no sample of
/// the source's form can be generated, or the disk has too little room for one.
pub(super) fn forecast(
    import: &ImportOptions,
    plan: &Plan,
    generated: Option<SampleSnapshot>,
    place: &FileSystem,
    disk: &DiskSpeed,
) -> Result<Option<Prediction>> {
    let limit = sample_limit(import);
    if limit > place.free / SPACE_SHARE {
        return Ok(None);
    }
    let (generated, source_rate) = match generated {
        Some(generated) => (generated, None),
        None => match probe(import, plan.log().is_some())? {
            Some(snapshot) => (SampleSnapshot::new(snapshot, limit, &import.stop)?, read_rate(import)),
            None => return Ok(None),
        },
    };
    let source_seconds =
        source_rate.or(disk.read_bytes_per_second).map_or(0.0, |rate| generated.forecast_bytes as f64 / rate.max(1.0));
    let report = import_sample(import, plan, &generated, place)?;
    Ok(Some(predict(plan, &generated, &report, source_seconds, disk.synced_write_bytes_per_second)))
}

/// Imports the generated snapshot into a new directory in `place`, with its partitions in another one in their work
/// directory. Both are removed before this returns.
fn import_sample(
    import: &ImportOptions,
    plan: &Plan,
    generated: &SampleSnapshot,
    place: &FileSystem,
) -> Result<ImportReport> {
    let database = scratch::directory(&place.path)?;
    let partitions = import.work_dir.as_deref().map(scratch::directory).transpose()?;
    let options = ImportOptions {
        sources: vec![generated.path()],
        db: database.dir.join("db"),
        work_dir: partitions.as_ref().map(|dir| dir.dir.clone()),
        plan: match plan.sort() {
            None => import.plan,
            Some(sort) if sort.by_reference => PlanChoice::Source,
            Some(sort) if !sort.spill && generated.whole() <= sort.hold_bytes => PlanChoice::Memory,
            Some(_) => PlanChoice::Spill,
        },
        assumed_bytes: None,
        ..import.clone()
    };
    crate::load::import(&options, &Silent)
}

/// Scales the sample's import; the disk of the database writes `write` bytes in a second.
fn predict(
    plan: &Plan,
    generated: &SampleSnapshot,
    report: &ImportReport,
    source_seconds: f64,
    write: Option<f64>,
) -> Prediction {
    let took = |phase: &str| report.seconds.get(phase).copied().unwrap_or(0.0);
    let write = |bytes: f64| write.map_or(0.0, |rate| bytes / rate.max(1.0));
    let written = write(report.levels.iter().map(|level| level.bytes).sum::<u64>() as f64 * generated.times);
    let (read_writes, build_writes) = match (plan.log(), report.plan.spills_blocks()) {
        (Some(_), _) => (written, 0.0),
        (None, true) => (write(generated.whole() as f64), written),
        (None, false) => (0.0, written),
    };
    let scaled = |phase: &str| took(phase) * generated.times;
    let (read, read_by) = longest([("processor", scaled("read")), ("source", source_seconds), ("disk", read_writes)]);
    let (build, build_by) = longest([("processor", scaled("build")), ("disk", build_writes)]);

    let phases = [
        ("read", read),
        ("build", build),
        ("ingest", took("ingest")),
        ("compact", took("compact")),
        ("commit", took("commit")),
    ];
    let total = ("total".to_owned(), rounded(phases.iter().map(|(_, seconds)| seconds).sum()));
    let mut seconds = BTreeMap::from([total]);
    seconds.extend(phases.map(|(name, value)| (name.to_owned(), rounded(value))));
    let memory = match plan.log() {
        Some(_) => MEMORY_OF_LOGS * plan.threads as u64,
        None if report.plan.spills() => plan.memory,
        None => generated.whole() + generated.whole() / 32,
    };
    let needed = plan.space.iter().map(|space| space.needed_bytes);
    Prediction {
        seconds,
        peak_disk_bytes: needed.sum(),
        memory_bytes: BASE + memory.min(plan.memory),
        limited_by: if read > build { read_by } else { build_by }.into(),
        sample_bytes: generated.bytes,
        sample_seconds: took("total"),
    }
}

/// Returns the longest time of a phase, and what takes it.
fn longest<const N: usize>(all: [(&'static str, f64); N]) -> (f64, &'static str) {
    all.into_iter().fold((0.0, "processor"), |most, (by, seconds)| if seconds > most.0 { (seconds, by) } else { most })
}

/// Milliseconds are more than can be predicted.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
