//! One run: an import in a process of its own and measurements of its database, or a copy.
//!
//! ```text
//! quiet disk -> cache warm or cold -> import -> scan -> lookups cold -> lookups warm -> everything removed
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::cache;
use super::child::{self, ChildJob, Ended};
use super::matrix::block_cache;
use super::options::BenchOptions;
use super::reads::{Iterated, KINDS_OF_LOOKUPS};
use super::store::MOST_BYTES;
use crate::error::{Error, Result, StateKind};
use crate::os::files::{create_last_dir, read_regular};
use crate::os::private;
use crate::report::bench::{
    BenchRun, COPY, ImportFigures, ProcessFigures, RUN_SCHEMA, ReadFigures, Reads, RunFailure, ScanFigures, ScanKind,
    Variant,
};
use crate::report::{ImportReport, WalkReport};
use crate::rocks::Level;
use crate::text::size::counted;

/// The name of the directory in `dir` for the files of one run.
const RUN_DIR: &str = "bedload-bench.run";

pub(super) struct Runner<'a> {
    pub options: &'a BenchOptions,
    /// The local path of the snapshot.
    pub source: &'a Path,
    pub work_dir: WorkDir,
    /// Receives each step of a run, in one word.
    pub watch: &'a (dyn Fn(&'static str) + 'a),
}

/// The working directory of all runs, locked against other processes.
pub(super) struct WorkDir {
    dir: PathBuf,
    _lock: File,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub round: u32,
    pub position: u32,
    pub warmup: bool,
}

/// An end of a run before its last step.
enum Stopped {
    /// A process failed, which is a result.
    Failed(RunFailure),
    Error(Error),
}

type Attempt<T> = std::result::Result<T, Stopped>;

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl WorkDir {
    /// Locks the working directory in `dir`, and removes the files of a killed run.
    ///
    /// # Errors
    /// [`Error::Io`]: it is not writable; [`Error::State`]: another process measures there.
    pub fn take(dir: &Path) -> Result<Self> {
        create_last_dir(dir)?;
        let dir = fs::canonicalize(dir).map_err(Error::io("find", dir))?;
        // A lock file would be removed at the end, and another process could create and lock a new one meanwhile.
        let lock = File::open(&dir).map_err(Error::io("open", &dir))?;
        let locked = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        if locked == Err(rustix::io::Errno::WOULDBLOCK) {
            let hint = "wait for it, or give another --dir; two at once would disturb each other anyway";
            return Err(Error::state(dir, StateKind::Busy, "another comparison runs here", hint));
        }
        locked.map_err(|errno| Error::io("lock", &dir)(errno.into()))?;
        let work_dir = Self { dir: dir.join(RUN_DIR), _lock: lock };
        work_dir.clear()?;
        Ok(work_dir)
    }

    fn clear(&self) -> Result<()> {
        private::remove_dir(&self.dir, |_| true)
    }

    fn renew(&self) -> Result<()> {
        self.clear()?;
        fs::create_dir(&self.dir).map_err(Error::io("create", &self.dir))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // The next run removes the rest.
        let _ = self.clear();
    }
}

impl Runner<'_> {
    /// Copies the snapshot: the baseline of every import.
    ///
    /// # Errors
    /// [`Error::Io`]: the working directory is unusable; [`Error::Interrupted`]: the caller cancelled it. A failed copy is
    /// a result.
    pub fn copy(&self, turn: Turn) -> Result<BenchRun> {
        self.run(COPY, turn, |run| {
            let target = self.work_dir.dir.join("copy");
            let mut copy = vec!["--reflink=never".into(), "--".into(), self.source.into(), target.clone().into()];
            if self.source.is_dir() {
                copy.insert(0, "-r".into());
            }
            let step = |program, words| match self.start(Path::new(program), words, program) {
                Ok(ended) => Ok(check("copy", ended)?.process),
                Err(error @ Error::Interrupted { .. }) => Err(Stopped::Error(error)),
                Err(error) => Err(Stopped::Failed(RunFailure {
                    action: "copy".into(),
                    exit: None,
                    signal: None,
                    error: std::error::Error::source(&error)
                        .map_or(error.to_string(), |cause| format!("{error}: {cause}")),
                    hint: Some(error.hint()),
                })),
            };
            run.process = Some(sum_processes(step("cp", copy)?, step("sync", vec!["-f".into(), target.into()])?));
            Ok(())
        })
    }

    /// Imports with a variant and reads from its database.
    ///
    /// # Errors
    /// [`Error::Io`]: the working directory is unusable; [`Error::Interrupted`]: the caller cancelled it. A failed import
    /// is a result.
    pub fn import(&self, variant: &Variant, turn: Turn) -> Result<BenchRun> {
        self.run(&variant.name, turn, |run| {
            let (db, report) = (self.work_dir.dir.join("db"), self.work_dir.dir.join("report.json"));
            let mut words: Vec<OsString> = vec!["import".into(), self.source.into(), "--db".into(), db.clone().into()];
            words.extend(["--report".into(), report.clone().into(), "--quiet".into()]);
            words.extend(variant.words().into_iter().map(OsString::from));
            if let Some(bytes) = self.options.sample {
                words.extend(["--sample".into(), bytes.to_string().into()]);
            }
            let ended = self.bedload(words, "import")?;
            run.process = Some(ended.process.clone());
            let Ended { mut process, .. } = check("import", ended)?;
            let report: ImportReport = read_json(&report)?;
            process.peak_rss_bytes = process.peak_rss_bytes.max(report.peak_rss_bytes);
            run.import = Some(import_figures(&report, process.seconds, &db));
            run.process = Some(process);
            let cache = variant.resolve().map_or(0, |resolved| block_cache(&resolved));
            if !self.options.no_scan {
                self.scan(run, &report, &db, cache)?;
            }
            if self.options.lookups > 0 {
                self.read(run, &report, &db, cache)?;
            }
            Ok(())
        })
    }

    /// Prepares the page cache, does `work`, and removes its files.
    fn run(&self, variant: &str, turn: Turn, work: impl FnOnce(&mut BenchRun) -> Attempt<()>) -> Result<BenchRun> {
        (self.watch)("prepare");
        self.work_dir.renew()?;
        let cache = cache::prepare(self.source, self.options.is_cold())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut run = BenchRun {
            schema: RUN_SCHEMA.into(),
            variant: variant.to_owned(),
            round: turn.round,
            position: turn.position,
            warmup: turn.warmup,
            started_unix_seconds: now.as_secs(),
            cache,
            ..BenchRun::default()
        };
        match work(&mut run) {
            Ok(()) => {}
            Err(Stopped::Failed(failure)) => run.failure = Some(failure),
            Err(Stopped::Error(error)) => return Err(error),
        }
        self.work_dir.clear()?;
        Ok(run)
    }

    fn scan(&self, run: &mut BenchRun, report: &ImportReport, db: &Path, cache: u64) -> Attempt<()> {
        if self.options.is_cold() {
            cache::evict(db)?;
        }
        let resident_before = cache::resident(db);
        if report.source.format == "car" && !report.source.roots.is_empty() {
            let ended = self.bedload(vec!["walk".into(), "--db".into(), db.into(), "--json".into()], "walk")?;
            // Missing blocks do not fail the preset: many snapshots leave old state out.
            let Some(walk) = read_json::<WalkReport>(&ended.output).ok().filter(|_| ended.exit.is_some()) else {
                return Err(Stopped::Failed(failure("scan", &ended)));
            };
            if !walk.complete {
                let links = counted(walk.missing, "link", "links");
                run.notes.push(format!("the scan found {links} to missing blocks"));
            }
            run.scan = Some(ScanFigures {
                kind: ScanKind::Links,
                seconds: walk.seconds,
                records: walk.reachable,
                bytes: walk.reachable_bytes,
                missing: Some(walk.missing),
                resident_before,
            });
            return Ok(());
        }
        let ended = self.bench_read(db, cache, ["--scan".into()], "scan", "scan")?;
        let Iterated { records, bytes, seconds, .. } = read_json(&ended.output)?;
        let kind = if report.log.is_some() { ScanKind::Number } else { ScanKind::Order };
        run.scan = Some(ScanFigures { kind, seconds, records, bytes, missing: None, resident_before });
        Ok(())
    }

    /// Looks keys up in the finished database. The first one gives the keys for all.
    fn read(&self, run: &mut BenchRun, report: &ImportReport, db: &Path, cache: u64) -> Attempt<()> {
        let own = || self.options.out.join(format!("keys-{}.txt", report.key.name()));
        let keys = self.options.keys.clone().unwrap_or_else(own);
        if !keys.exists() {
            let draft = keys.with_extension("draft");
            let count = self.options.lookups.saturating_mul(KINDS_OF_LOOKUPS as u64).to_string();
            let seed = self.options.seed.to_string();
            let words = ["--draw".into(), count.into(), "--seed".into(), seed.into(), "--keys".into(), (&draft).into()];
            self.bench_read(db, 0, words, "draw", "reads")?;
            fs::rename(&draft, &keys).map_err(Error::io("rename a file to", &keys))?;
        }
        let of = |state: Option<&str>| {
            let words = ["--keys".into(), keys.clone().into()].into_iter().chain(state.map(OsString::from));
            let ended = self.bench_read(db, cache, words, "read", "reads")?;
            Ok::<_, Stopped>(Some(read_json(&ended.output)?))
        };
        let (cold, warm): (Option<ReadFigures>, _) = (of(Some("--cold"))?, of(None)?);
        if let Some(ReadFigures { missing_keys: missing @ 1.., hit, .. }) = &cold {
            run.notes.push(format!("{missing} of {} keys that were looked up are not in the database", hit.count));
        }
        run.reads = Some(Reads { cold, warm });
        Ok(())
    }

    fn bench_read(
        &self,
        db: &Path,
        cache: u64,
        more: impl IntoIterator<Item = OsString>,
        name: &'static str,
        action: &str,
    ) -> Attempt<Ended> {
        let mut words =
            vec!["bench-read".into(), "--db".into(), db.into(), "--block-cache".into(), cache.to_string().into()];
        words.extend(more);
        check(action, self.bedload(words, name)?)
    }

    fn bedload(&self, mut words: Vec<OsString>, name: &'static str) -> Result<Ended> {
        words.extend(["--progress".into(), "off".into()]);
        self.start(&self.options.program, words, name)
    }

    fn start(&self, program: &Path, words: Vec<OsString>, name: &'static str) -> Result<Ended> {
        (self.watch)(name);
        child::run(&ChildJob { program, words, dir: &self.work_dir.dir, name, stop: &self.options.stop })
    }
}

fn check(action: &str, ended: Ended) -> Attempt<Ended> {
    if ended.exit == Some(0) { Ok(ended) } else { Err(Stopped::Failed(failure(action, &ended))) }
}

fn import_figures(report: &ImportReport, wall: f64, db: &Path) -> ImportFigures {
    let phase = |name: &str| report.seconds.get(name).copied();
    let phases = report.seconds.iter().filter(|(name, _)| *name != "total");
    let phases = phases.map(|(name, seconds)| (name.clone(), *seconds)).collect();
    let compact = phase("compact").unwrap_or(0.0);
    let check = phase("check");
    let memtable = report.memtable.as_ref();
    let of_log = report.log.iter().flat_map(|log| &log.families).flat_map(|family| &family.levels);
    let of_copy = report.families.iter().flat_map(|family| &family.levels);
    let of_car = report.levels.iter().filter(|_| report.log.is_none() && report.families.is_empty());
    let levels = sum_levels(of_car.chain(of_log).chain(of_copy));
    ImportFigures {
        import_seconds: (wall - compact - check.unwrap_or(0.0)).max(0.0),
        compact_seconds: compact,
        check_seconds: check,
        phases,
        source_bytes: report.source.bytes,
        payload_bytes: report.payload_bytes,
        blocks: report.blocks.read,
        digest: report.digest.to_string(),
        loader: report.loader.clone(),
        rocksdb_written_bytes: report.rocksdb_bytes_written,
        sst_files: levels.iter().map(|level| level.files).sum(),
        levels,
        level0_files_before_compaction: memtable.map(|it| it.level0_files_before_compaction),
        stalls: memtable.map(|it| it.stalls),
        stall_seconds: memtable.map(|it| it.stall_seconds),
        disk_bytes: cache::disk_bytes(db),
        sample: report.sample.clone(),
        options: report.options.clone(),
        rocksdb_version: report.versions.rocksdb.clone(),
    }
}

fn sum_levels<'a>(all: impl Iterator<Item = &'a Level>) -> Vec<Level> {
    let mut levels: BTreeMap<i32, Level> = BTreeMap::new();
    for level in all {
        let sum = levels.entry(level.level).or_insert(Level { files: 0, bytes: 0, ..*level });
        sum.files += level.files;
        sum.bytes += level.bytes;
    }
    levels.into_values().collect()
}

/// Sums the figures of two processes that ran one after the other.
fn sum_processes(first: ProcessFigures, second: ProcessFigures) -> ProcessFigures {
    let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    ProcessFigures {
        seconds: first.seconds + second.seconds,
        user_seconds: first.user_seconds + second.user_seconds,
        system_seconds: first.system_seconds + second.system_seconds,
        peak_rss_bytes: first.peak_rss_bytes.max(second.peak_rss_bytes),
        peak_anonymous_bytes: first.peak_anonymous_bytes.max(second.peak_anonymous_bytes),
        read_bytes: sum(first.read_bytes, second.read_bytes),
        written_bytes: sum(first.written_bytes, second.written_bytes),
        disk_read_bytes: sum(first.disk_read_bytes, second.disk_read_bytes),
        disk_written_bytes: sum(first.disk_written_bytes, second.disk_written_bytes),
        open_files: first.open_files.max(second.open_files),
    }
}

/// Returns the failure of a process, with its last words on standard error.
fn failure(action: &str, ended: &Ended) -> RunFailure {
    let line = |name: &str| ended.errors.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let otherwise = || match (ended.signal, ended.errors.trim().lines().next_back()) {
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, Some(last)) => last.to_owned(),
        _ => format!("ended with exit code {}", ended.exit.unwrap_or(-1)),
    };
    RunFailure {
        action: action.to_owned(),
        exit: ended.exit,
        signal: ended.signal,
        error: line("error: ").unwrap_or_else(otherwise),
        hint: line("hint: "),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = read_regular(path, MOST_BYTES).map_err(Error::io("read", path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Error::io("read", path)(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comparison_at_a_time_has_a_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let first = WorkDir::take(dir.path()).expect("no other measures here");
        first.renew().expect("room");
        let error = WorkDir::take(dir.path()).map(drop).expect_err("the first one measures here");
        assert!(error.to_string().ends_with("another comparison runs here"), "{error}");
        assert!(first.dir.exists(), "the second one has removed the directory of the first");
        drop(first);
        assert_eq!(dir.path().read_dir().expect("listed").count(), 0);
        WorkDir::take(dir.path()).expect("the first one has ended");
    }
}
