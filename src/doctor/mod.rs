//! Measures disk, cores and limits of this machine, forecasts an import, and gives advice.
//!
//! [`diagnose`] takes some seconds. It writes one file without a name, and imports a small generated snapshot into a
//! directory that it removes before it returns. The directory of a killed process is removed by the next one.

mod advice;
mod disk;
mod forecast;
mod scratch;
mod snapshot;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::hash::{Checker, Claim, Function};
use crate::load::planner::MIN_MEMORY;
use crate::load::{self, ImportOptions};
use crate::os::file_system::FileSystem;
use crate::os::files::check_parent;
use crate::os::resources;
use crate::parallel;
use crate::preset;
use crate::progress::{CancellationToken, Observer, Phase, PhaseWeights, Progress};
use crate::read;
use crate::report::{Advice, DOCTOR_SCHEMA, DoctorReport, FileSystemInfo, Forecast, HashRate, MachineInfo};

use snapshot::SampleSnapshot;
pub use snapshot::{SizedForm, SnapshotForm};

/// Blocks that are hashed, and bytes of each: the mean of mainnet.
const BLOCKS: usize = 16 << 10;
const BLOCK: usize = 1100;
const BLAKE2B_256: u64 = 0xb220;

/// Rounds of hashing. The best counts, because other processes only make it slower.
const ROUNDS: usize = 5;

#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// The directory of a database, or for one. Defaults to the current directory.
    pub dir: PathBuf,
    /// The import to forecast; its `db` does not count. Without a source there is no forecast.
    pub import: ImportOptions,
    /// The snapshot to forecast if `import` has no source.
    pub assumed: Option<SizedForm>,
    /// Token that the caller cancels.
    pub stop: CancellationToken,
    /// The limits of open files when these options were made: the program may raise them afterwards.
    open_files: (Option<u64>, Option<u64>),
}

impl DoctorOptions {
    /// Default options for a directory and an optional snapshot.
    pub fn new(dir: impl Into<PathBuf>, source: Option<PathBuf>) -> Self {
        let dir = dir.into();
        // An unused name: nothing is made under it.
        let unused = format!("bedload-doctor-{}", std::process::id());
        let db = if dir.exists() { dir.join(unused) } else { dir.clone() };
        let import = ImportOptions { sources: source.into_iter().collect(), ..ImportOptions::new("", db) };
        Self { dir, import, assumed: None, stop: CancellationToken::default(), open_files: resources::open_files() }
    }
}

/// Examines this machine.
///
/// # Errors
/// [`Error::BadInput`] or [`Error::Io`]: the snapshot or the directory cannot be read; [`Error::Preset`] or
/// [`Error::Usage`]: the preset cannot be; [`Error::Interrupted`]: the caller cancels it. An unwritable directory is a
/// finding.
pub fn diagnose(options: &DoctorOptions, observer: &dyn Observer) -> Result<DoctorReport> {
    let progress = Progress::new(observer);
    let report = progress.sampled(|| examine(options, &progress));
    if report.is_ok() {
        progress.end();
    }
    report
}

/// Limits of the phases in seconds: one per measurement, and a sample on a slow machine.
const SECONDS: [(Phase, f64); 2] = [(Phase::Measure, (disk::STEPS + HASHING) as f64), (Phase::Sample, 4.0)];

const HASHING: u64 = 2;

fn examine(options: &DoctorOptions, progress: &Progress<'_>) -> Result<DoctorReport> {
    let started = Instant::now();
    let no_dir = missing_dir(&options.dir)?;
    let mut import = ImportOptions { stop: options.stop.clone(), ..options.import.without_secrets() };
    let limit = forecast::sample_limit(&import);
    let mut generated = None;
    if let Some(assumed) = options.assumed {
        let sample = generated.insert(SampleSnapshot::new(assumed, limit, &options.stop)?);
        import = ImportOptions { sources: vec![sample.path()], assumed_bytes: Some(assumed.bytes), ..import };
    }
    let mut plan = if import.sources.is_empty() { None } else { Some(load::plan(&import)?) };
    // The report of the forecast names the source, and a sample has no name.
    plan.iter_mut().for_each(|plan| plan.source.clear());
    if plan.is_none() {
        // Without an import to be planned, the preset is validated anyway.
        let preset = import.overrides.preset(import.preset.as_deref())?;
        preset::resolve(&preset, &import.overrides)?;
        if let Some(memory) = import.memory.filter(|memory| *memory < MIN_MEMORY) {
            return Err(Error::memory_too_small(memory, MIN_MEMORY));
        }
    }
    let place = FileSystem::of(&options.dir)?;
    let machine = machine(options.open_files);
    let phases = SECONDS.iter().copied().filter(|(phase, _)| *phase == Phase::Measure || plan.is_some()).collect();
    progress.expect(PhaseWeights { phases, ..PhaseWeights::default() });
    progress.begin(Phase::Measure, None);
    progress.expect_blocks(disk::STEPS + HASHING);
    let step = || progress.add(0, 1);
    let disk = match disk::measure(&place.path, disk::MeasureLimits::for_free(place.free), &options.stop, &step) {
        Ok(disk) => Some(disk),
        Err(error @ Error::Interrupted { .. }) => return Err(error),
        // A failure is a finding; the rest is reported.
        Err(_) => None,
    };
    let hash = hash_rate(&options.stop, &step)?;
    let (mut prediction, mut no_sample) = (None, None);
    if let (Some(plan), Some(disk)) = (&plan, &disk)
        && plan.memtable().is_none()
        && plan.records().is_none()
    {
        progress.begin(Phase::Sample, None);
        match forecast::forecast(&import, plan, generated, &place, disk) {
            Ok(found) => prediction = found,
            Err(Error::Interrupted { .. }) => return Err(disk::interrupted()),
            Err(error) => {
                // The path of a sample in memory means nothing to the user.
                let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                no_sample = Some(Advice {
                    id: "sample".into(),
                    finding: format!("the import cannot be forecast: {cause}"),
                    remedy: error.hint(),
                });
            }
        }
    }
    let source = options.assumed.map_or_else(|| import.source().display().to_string(), |assumed| assumed.to_string());
    let forecast = plan.map(|plan| Forecast { source, plan, prediction });
    let budget = forecast.as_ref().map_or_else(|| options.import.memory_budget(), |forecast| forecast.plan.memory);
    let dir = place.path.display().to_string();
    let file_system =
        FileSystemInfo { device: place.device, total_bytes: place.total, free_bytes: place.free, kind: place.kind };
    // `verify` reports a database that does not open.
    let mut warnings = read::advice::on_database_in(&options.dir).unwrap_or_default();
    warnings.extend(no_dir.into_iter().chain(no_sample));
    let schema = DOCTOR_SCHEMA.into();
    let mut report = DoctorReport { schema, dir, file_system, disk, machine, hash, forecast, warnings, seconds: 0.0 };
    report.warnings.extend(advice::advise(&report, budget));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// The warning about a directory that does not exist yet.
///
/// # Errors
/// [`Error::Io`]: its parent does not exist either, or it cannot be read.
fn missing_dir(dir: &Path) -> Result<Option<Advice>> {
    match dir.metadata() {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound && check_parent(dir).is_ok() => Ok(Some(Advice {
            id: "directory".into(),
            finding: format!("{} does not exist: its parent directory was measured", dir.display()),
            remedy: "check the path, if the directory should exist".into(),
        })),
        Err(error) => Err(Error::io("read metadata of", dir)(error)),
    }
}

/// Bytes hashed per second by one thread and by all cores.
fn hash_rate(stop: &CancellationToken, step: &dyn Fn()) -> Result<HashRate> {
    let bytes: Vec<u8> = (0..BLOCKS * BLOCK).map(|at| (at % 251) as u8).collect();
    let digests: Vec<Vec<u8>> = bytes.chunks(BLOCK).map(|data| Function::Blake2b(32).digest(data)).collect();
    let claim = |(digest, data)| Claim { code: BLAKE2B_256, digest, data };
    let claims: Vec<Claim<'_>> = digests.iter().map(Vec::as_slice).zip(bytes.chunks(BLOCK)).map(claim).collect();
    let rate = |count: usize| -> Result<f64> {
        let pool = parallel::pool(count)?;
        let mut best = 0.0_f64;
        for _ in 0..ROUNDS {
            stop.check(disk::interrupted)?;
            let started = Instant::now();
            pool.broadcast(|_| Checker::new().check(&claims).is_ok());
            best = best.max((count * bytes.len()) as f64 / started.elapsed().as_secs_f64());
        }
        step();
        Ok(best)
    };
    Ok(HashRate { one_core: rate(1)?, all_cores: rate(parallel::cores())? })
}

fn machine((open_files_soft, open_files_hard): (Option<u64>, Option<u64>)) -> MachineInfo {
    MachineInfo {
        cores: parallel::cores() as u64,
        memory_bytes: resources::machine_memory(),
        available_bytes: resources::available_memory(),
        cgroup_bytes: resources::cgroup_memory(),
        open_files_soft,
        open_files_hard,
    }
}
