//! What decides how long an import takes on this machine, measured before it starts: the disk, the cores, the limits;
//! the plan that would be chosen, what it would take, and what could be better.
//!
//! [`examine`] measures for some seconds and writes one file without a name, which is gone however it ends. What it
//! found is kept in the user's cache directory, for the predictions of imports; an import that finds nothing there looks
//! for itself, briefly, if it is long enough for that not to matter.

mod advice;
mod disk;
mod kept;
mod latency;
mod predict;
mod scratch;
mod source;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kept::{DiskRates, Kept, cores};
use predict::Rates;

use crate::error::{Error, Result};
use crate::load::rehearse::Sample;
use crate::load::rehearse_log;
use crate::load::{ImportOptions, Outcome, Plan};
use crate::os::file_system::FileSystem;
use crate::os::resources;
use crate::preset::{self, Loader};
use crate::progress::{Silent, Stop};
use crate::read;
use crate::report::{DOCTOR_SCHEMA, DoctorReport, FileSystemInfo, Forecast, MachineInfo, Prediction, Rate, WorkSpeed};
use crate::rocks::option_map::OptionMap;
use crate::source::block_log::Log;

/// Bytes of the sample that cores are measured with, here and in an import's brief look.
const SAMPLE: u64 = 48 << 20;
const BRIEF_SAMPLE: u64 = 12 << 20;

/// Bytes of a log that are rehearsed before its import: beginning costs something, which a smaller piece would tell of.
const BRIEF_PIECE: u64 = 32 << 20;

/// The share of available memory that the sample may take: it is there up to three times.
const MEMORY_SHARE: u64 = 16;

/// Rounds of which the best counts.
const ROUNDS: usize = 5;

/// How long a packed snapshot is unpacked to see how fast that goes.
const UNPACKING: Duration = Duration::from_millis(1500);
const BRIEF_UNPACKING: Duration = Duration::from_millis(100);

/// What an import's brief look writes at most, and how long.
const BRIEF_DISK: disk::Limits = disk::Limits { bytes: 64 << 20, time: Duration::from_millis(100) };

/// From this size on an import takes a brief look when nothing is kept, in bytes: a smaller one would be over sooner
/// than it pays.
const WORTH_A_LOOK: u64 = 1 << 30;

/// What to look at.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// Where a database would stand, or stands. Defaults to the current directory.
    pub dir: PathBuf,
    /// The import that is meant; its `db` does not count. Without a source there is no forecast.
    pub import: ImportOptions,
    /// Whether there is a source in `import`.
    pub has_source: bool,
    /// Keep what was measured for the predictions of imports. Defaults to `true`.
    pub keep: bool,
    /// Asked by somebody else to make it stop.
    pub stop: Stop,
}

impl DoctorOptions {
    /// The defaults, for a directory and perhaps a snapshot.
    pub fn new(dir: impl Into<PathBuf>, source: Option<PathBuf>) -> Self {
        let dir = dir.into();
        let has_source = source.is_some();
        // A name that nobody has: nothing is made under it.
        let db = dir.join(format!("bedload-doctor-{}", std::process::id()));
        let import = ImportOptions { dry_run: true, ..ImportOptions::new(source.unwrap_or_default(), db) };
        Self { dir, import, has_source, keep: true, stop: Stop::default() }
    }
}

/// Looks at this machine.
///
/// # Errors
/// The snapshot cannot be read, the preset cannot be, somebody asks to stop. A directory that cannot be written is no
/// error but a finding.
pub fn examine(options: &DoctorOptions) -> Result<DoctorReport> {
    let started = Instant::now();
    let plan = if options.has_source { Some(planned(&options.import)?) } else { None };
    let is_log = plan.as_ref().is_some_and(|plan| plan.log.is_some());
    let default = if is_log { preset::DEFAULT_OF_LOGS } else { preset::DEFAULT };
    let chosen = options.import.overrides.preset_or(options.import.preset.as_deref(), default)?;
    let preset = preset::resolve(&chosen, &options.import.overrides)?;
    let loading = preset.loading();
    let place = FileSystem::of(&options.dir)?;
    let machine = machine();
    let disk = match disk::measure(&place.path, disk::Limits::for_free(place.free), &options.stop) {
        Ok(disk) => Some(disk),
        Err(error @ Error::Interrupted { .. }) => return Err(error),
        // What is wrong with it is a finding, and the rest is worth knowing all the same.
        Err(_) => None,
    };
    let work = work(&loading, SAMPLE, ROUNDS, &options.stop)?;

    let mut kept = Kept::load();
    kept.set_work(&loading, work);
    let rates = disk.as_ref().map(|disk| DiskRates {
        write: disk.synced_write_bytes_per_second,
        read: disk.read_bytes_per_second,
        sync: disk.fsync.map(|sync| sync.median_us / 1e6),
    });
    if let Some(rates) = rates {
        kept.set_disk(&place, rates);
    }
    let kept_in = if options.keep { kept.save() } else { None };

    let prediction = match (&plan, preset.loader, rates) {
        (Some(plan), Loader::Ingest, Some(disk)) => {
            let (source, same_disk) = of_source(&options.import, &place, &kept, disk);
            let rates = Rates { work, disk, source, same_disk };
            let basis = "measured just now".to_owned();
            match is_log.then(|| rehearse_log::open(&options.import)).transpose()?.flatten() {
                Some(log) => source::look_at_log(&log, &options.import, plan, &loading, SAMPLE)?
                    .map(|facts| predict::predict_log(plan, &facts, &rates, 0.0, basis)),
                None => source::look(&options.import, plan, UNPACKING)?
                    .map(|facts| predict::predict(plan, &facts, &rates, 0.0, basis)),
            }
        }
        _ => None,
    };
    let source = options.import.source.display().to_string();
    let forecast = plan.map(|plan| Forecast { source, plan, prediction });
    let dir = place.path.display().to_string();
    let file_system = FileSystemInfo {
        rotational: place.rotational(),
        in_memory: place.is_in_memory(),
        device: place.device,
        total_bytes: place.total,
        free_bytes: place.free,
        kind: place.kind,
    };
    let budget = forecast.as_ref().map_or_else(|| options.import.memory_budget(), |forecast| forecast.plan.memory);
    // What does not open is for `verify` to tell.
    let mut warnings = read::advice::on_database_in(&options.dir).unwrap_or_default();
    warnings.extend(advice::advise(&advice::Known {
        dir: &dir,
        file_system: &file_system,
        disk: disk.as_ref(),
        machine: &machine,
        budget,
        forecast: forecast.as_ref(),
    }));
    Ok(DoctorReport {
        schema: DOCTOR_SCHEMA.into(),
        dir,
        file_system,
        disk,
        machine,
        work,
        forecast,
        warnings,
        kept_in: kept_in.map(|path| path.display().to_string()),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// What an import will take, from what is kept, or from a brief look if it is large; `None` where that cannot be told.
/// Whatever fails here fails silently: an import does not need it.
pub(crate) fn foresee(
    options: &ImportOptions,
    plan: &Plan,
    loading: &OptionMap,
    log: Option<&Log>,
    before: f64,
) -> Option<Prediction> {
    let expected = plan.expected_bytes?;
    let place = FileSystem::of(&options.db).ok()?;
    let mut kept = Kept::load();
    let (work, disk) = (kept.work(loading), kept.disk(&place));
    // What cores do with a log is seen by a piece of it.
    let knows_all = disk.is_some() && (log.is_some() || work.is_some());
    if expected < WORTH_A_LOOK && !knows_all {
        return None;
    }
    let started = Instant::now();
    let (disk, disk_age) = match disk {
        Some(found) => found,
        None => {
            let write = disk::measure_writing(&place.path, BRIEF_DISK).ok()?;
            let rates = DiskRates { write, read: None, sync: None };
            kept.set_disk(&place, rates);
            (rates, 0)
        }
    };
    let (work, work_age) = match (work, log) {
        (Some(found), _) => found,
        (None, Some(_)) => (WorkSpeed::default(), 0),
        (None, None) => {
            let found = self::work(loading, BRIEF_SAMPLE, 1, &options.stop).ok()?;
            kept.set_work(loading, found);
            (found, 0)
        }
    };
    if !knows_all {
        let _ = kept.save();
    }
    let (source, same_disk) = of_source(options, &place, &kept, disk);
    let rates = Rates { work, disk, source, same_disk };
    let before = |started: Instant| before + started.elapsed().as_secs_f64();
    let basis = match work_age.max(disk_age) {
        _ if !knows_all => "a brief look before this import; `bedload doctor` measures with more care".to_owned(),
        age => format!("measured {age} seconds before"),
    };
    if let Some(log) = log {
        let facts = source::look_at_log(log, options, plan, loading, BRIEF_PIECE).ok()??;
        return Some(predict::predict_log(plan, &facts, &rates, before(started), basis));
    }
    let facts = source::look(options, plan, BRIEF_UNPACKING).ok()??;
    Some(predict::predict(plan, &facts, &rates, before(started), basis))
}

/// The plan that an import would choose.
fn planned(import: &ImportOptions) -> Result<Plan> {
    match crate::load::import(&ImportOptions { dry_run: true, ..import.clone() }, &Silent)? {
        Outcome::Planned(plan) => Ok(plan),
        Outcome::Imported(_) => Err(Error::Usage {
            reason: format!("{} holds a database already", import.db.display()),
            hint: "name another --dir".into(),
        }),
    }
}

/// The speed of the file system that has the snapshot, as far as it is known, and whether it is that of the database.
fn of_source(options: &ImportOptions, place: &FileSystem, kept: &Kept, disk: DiskRates) -> (DiskRates, bool) {
    let of = |path: &Path| FileSystem::of(path).ok();
    match of(&options.source) {
        Some(source) if source.device != place.device => {
            let unknown = DiskRates { write: None, read: None, sync: None };
            (kept.disk(&source).map_or(unknown, |(rates, _)| rates), false)
        }
        _ => (disk, true),
    }
}

/// What the cores do, alone and together: the best of `rounds`.
fn work(loading: &OptionMap, bytes: u64, rounds: usize, stop: &Stop) -> Result<WorkSpeed> {
    let bytes = bytes.min(resources::available_memory().unwrap_or(bytes * MEMORY_SHARE) / MEMORY_SHARE).max(2 << 20);
    let sample = Sample::new(bytes)?;
    let bytes = sample.bytes() as f64;
    let mut built_share = 1.0;
    let mut measure = |threads: usize| -> Result<[f64; 3]> {
        let rounds: Vec<[f64; 3]> = (0..rounds.max(1))
            .map(|_| {
                if stop.asked() {
                    return Err(Error::Interrupted { hint: "nothing is left over; run the same command again".into() });
                }
                let pace = sample.rehearse(threads, loading, true)?;
                built_share = pace.built_bytes as f64 / bytes;
                // Each thread has hashed all of it.
                let hashed = bytes * threads as f64 / sample.check_hashes(threads)?.as_secs_f64();
                Ok([hashed, bytes / pace.read.as_secs_f64(), bytes / pace.build.as_secs_f64()])
            })
            .collect::<Result<_>>()?;
        // The best of them: whatever else runs only ever makes it slower.
        Ok([0, 1, 2].map(|index| rounds.iter().map(|round| round[index]).fold(0.0, f64::max)))
    };
    let all = measure(cores())?;
    let one = if cores() > 1 && rounds > 1 { measure(1)? } else { all.map(|rate| rate / cores() as f64) };
    let rate = |index: usize| Rate { one_core: one[index], all_cores: all[index] };
    Ok(WorkSpeed { hash: rate(0), read: rate(1), build: rate(2), built_share })
}

fn machine() -> MachineInfo {
    let swap = resources::swap();
    let (open_files_soft, open_files_hard) = resources::open_files();
    MachineInfo {
        cores: cores() as u64,
        memory_bytes: resources::machine_memory(),
        available_bytes: resources::available_memory(),
        cgroup_bytes: resources::cgroup_memory(),
        swap_bytes: swap.map(|(total, _)| total),
        swap_used_bytes: swap.map(|(_, used)| used),
        open_files_soft,
        open_files_hard,
    }
}
