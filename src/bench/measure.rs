//! One run: an import in a process of its own, and measurements on the database it leaves; or a copy.
//!
//! ```text
//! quiet disk -> cache warm or cold -> import -> scan -> lookups cold -> lookups warm -> node -> everything removed
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::cache;
use super::child::{self, Ended, Job};
use super::matrix::{Variant, block_cache};
use super::reads::Iterated;
use super::store::MOST_BYTES;
use crate::error::{Error, Result};
use crate::os::files::{create_last_dir, read_regular};
use crate::os::private;
use crate::progress::{CancellationToken, Phase, Sample, Writes};
use crate::report::bench::{
    COPY, CacheInfo, Failure, ImportFigures, NodeFigures, Pressure, PressureKind, ProcessFigures, RUN_SCHEMA,
    ReadFigures, ReadStep, Reads, Run, ScanFigures, ScanKind,
};
use crate::report::{ImportReport, WalkReport};
use crate::rocks::Level;
use crate::text::size::counted;

/// The name of the folder in `dir` that each run has to itself.
const RUN_DIR: &str = "bedload-bench.run";

/// Everything that runs have in common.
pub(super) struct Runner<'a> {
    pub program: &'a Path,
    pub source: &'a Path,
    pub cold: bool,
    /// Lookups of each kind; 0 for none.
    pub lookups: u64,
    /// Operations of the workload that a node has; 0 for none.
    pub node_ops: u64,
    pub scan: bool,
    pub seed: u64,
    /// Where lists of keys are kept.
    pub keys: PathBuf,
    pub stop: &'a CancellationToken,
    pub work_dir: WorkDir,
    /// Receives what a run does next, in a word.
    pub watch: &'a (dyn Fn(&'static str) + 'a),
}

/// The working directory of all runs, locked against other processes.
pub(super) struct WorkDir {
    pub dir: PathBuf,
    _lock: File,
}

/// Which run it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub round: u32,
    pub position: u32,
    pub warmup: bool,
}

impl WorkDir {
    /// Locks the working directory in `dir`, and removes what a killed run has left there.
    ///
    /// # Errors
    /// [`Error::Io`]: it cannot be written to; [`Error::State`]: another process measures there.
    pub fn take(dir: &Path) -> Result<Self> {
        create_last_dir(dir)?;
        let dir = fs::canonicalize(dir).map_err(Error::io("find", dir))?;
        // The directory itself is locked: a file that is removed in the end could be locked once more under its name.
        let lock = File::open(&dir).map_err(Error::io("open", &dir))?;
        let locked = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        if locked == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(Error::State {
                path: dir,
                reason: "another comparison runs here".into(),
                hint: "wait for it, or give another --dir; two at once would disturb each other anyway".into(),
            });
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
        // Left behind it does no harm: the next run removes it.
        let _ = self.clear();
    }
}

impl Runner<'_> {
    /// Copies the snapshot: the baseline of every import.
    ///
    /// # Errors
    /// [`Error::Io`]: the working directory cannot be prepared; [`Error::Interrupted`]: the caller cancelled it. That
    /// the copy fails is a result.
    pub fn copy(&self, turn: Turn) -> Result<Run> {
        (self.watch)("prepare");
        self.work_dir.renew()?;
        let cache = cache::prepare(self.source, self.cold)?;
        let mut run = blank(COPY, turn, cache);
        let target = self.work_dir.dir.join("copy");
        let word = |word: &str| OsString::from(word);
        let mut copy = vec![word("--reflink=never"), word("--"), self.source.into(), target.clone().into()];
        if self.source.is_dir() {
            copy.insert(0, word("-r"));
        }
        let sync = vec![word("-f"), target.into()];
        let mut all: Option<ProcessFigures> = None;
        for (program, words) in [("cp", copy), ("sync", sync)] {
            let ended = match self.run_program(Path::new(program), words, program) {
                Ok(ended) => ended,
                Err(error @ Error::Interrupted { .. }) => return Err(error),
                Err(error) => {
                    run.failure = Some(failure_of("copy", &error));
                    break;
                }
            };
            if !ended.succeeded() {
                run.failure = Some(failure("copy", &ended));
                break;
            }
            all = Some(match all {
                None => ended.process,
                Some(first) => both(first, ended.process),
            });
        }
        run.process = all.filter(|_| run.failure.is_none());
        self.work_dir.clear()?;
        Ok(run)
    }

    /// Imports with a variant and measures what comes of it.
    ///
    /// # Errors
    /// [`Error::Io`]: the working directory cannot be prepared; [`Error::Interrupted`]: the caller cancelled it. That
    /// the import fails is a result.
    pub fn import(&self, variant: &Variant, turn: Turn) -> Result<Run> {
        self.import_from(self.source, &self.keys, variant, turn)
    }

    /// The same from another source, whose lists of keys are kept in `keys`.
    ///
    /// # Errors
    /// As [`Runner::import`].
    pub fn import_from(&self, source: &Path, keys: &Path, variant: &Variant, turn: Turn) -> Result<Run> {
        (self.watch)("prepare");
        self.work_dir.renew()?;
        let cache = cache::prepare(source, self.cold)?;
        let mut run = blank(&variant.name, turn, cache);
        let (db, report) = (self.work_dir.dir.join("db"), self.work_dir.dir.join("report.json"));
        let mut words: Vec<OsString> = vec!["import".into(), source.into(), "--db".into(), db.clone().into()];
        words.extend(["--report".into(), report.clone().into(), "--quiet".into()]);
        words.extend(variant.words().into_iter().map(OsString::from));
        let ended = self.run_program(self.program, words, "import")?;
        run.process = Some(ended.process.clone());
        if ended.succeeded() {
            let report: ImportReport = read_json(&report)?;
            if let Some(process) = &mut run.process {
                // From its own report and from samples; the kernel's figure may be from before the program was loaded.
                let seen = process.memory.iter().map(|sample| sample.rss_bytes).max();
                process.peak_rss_bytes = report.peak_rss_bytes.max(seen).or(process.peak_rss_bytes);
            }
            let cache = variant.resolve().map_or(0, |resolved| block_cache(&resolved));
            run.import = Some(import_figures(&report, ended.process.seconds, &db));
            self.read_back(&mut run, &report, &db, cache, keys)?;
        } else {
            run.failure = Some(failure("import", &ended));
        }
        self.work_dir.clear()?;
        Ok(run)
    }

    /// Scans the finished database and reads from it.
    fn read_back(&self, run: &mut Run, report: &ImportReport, db: &Path, cache: u64, keys: &Path) -> Result<()> {
        if self.scan {
            if self.cold {
                cache::evict(db)?;
            }
            // A chain is walked by its links, a log by number; without roots there is nothing to walk from.
            let resident = cache::resident(db);
            let by_links = report.source.format == "car" && !report.source.roots.is_empty();
            let kind = if report.log.is_some() { ScanKind::Number } else { ScanKind::Order };
            let outcome = if by_links { self.walk(run, db)? } else { self.scan_in_order(db, cache, kind)? };
            match outcome {
                Ok(scan) => run.scan = Some(ScanFigures { resident_before: resident, ..scan }),
                Err(failure) => run.failure = Some(failure),
            }
        }
        if self.lookups > 0 && run.failure.is_none() {
            let keys = keys.join(format!("keys-{}.txt", report.key.name()));
            if !keys.exists()
                && let Err(failure) = self.draw_keys(db, &keys)?
            {
                run.failure = Some(failure);
                return Ok(());
            }
            let mut reads = Reads::default();
            for (cold, place) in [(true, &mut reads.cold), (false, &mut reads.warm)] {
                match self.read(db, &keys, cold, cache)? {
                    Ok(figures) => *place = Some(figures),
                    Err(failure) => run.failure = Some(failure),
                }
            }
            run.reads = Some(reads);
            // Last of all: it changes the database.
            if self.node_ops > 0 && run.failure.is_none() {
                match self.work(db, &keys, cache)? {
                    Ok(figures) => run.node = Some(figures),
                    Err(failure) => run.failure = Some(failure),
                }
            }
        }
        Ok(())
    }

    fn walk(&self, run: &mut Run, db: &Path) -> Result<Result<ScanFigures, Failure>> {
        let words = vec!["walk".into(), "--db".into(), db.into(), "--json".into()];
        let ended = self.run_program(self.program, words, "walk")?;
        // Missing blocks are no failure of the preset: many snapshots leave old state out.
        let Some(report) = read_json::<WalkReport>(&ended.output).ok().filter(|_| ended.exit.is_some()) else {
            return Ok(Err(failure("scan", &ended)));
        };
        if !report.complete {
            run.notes.push(format!(
                "the scan met {} to blocks that are not there",
                counted(report.missing, "link", "links")
            ));
        }
        Ok(Ok(ScanFigures {
            kind: ScanKind::Links,
            seconds: report.seconds,
            records: report.reachable,
            bytes: report.reachable_bytes,
            missing: Some(report.missing),
            resident_before: None,
        }))
    }

    fn scan_in_order(&self, db: &Path, cache: u64, kind: ScanKind) -> Result<Result<ScanFigures, Failure>> {
        let mut words = self.reading(db, cache);
        words.push("--scan".into());
        let ended = self.run_program(self.program, words, "scan")?;
        if !ended.succeeded() {
            return Ok(Err(failure("scan", &ended)));
        }
        let Iterated { records, bytes, seconds, .. } = read_json(&ended.output)?;
        Ok(Ok(ScanFigures { kind, seconds, records, bytes, missing: None, resident_before: None }))
    }

    /// Draws the keys that are looked up in every database.
    fn draw_keys(&self, db: &Path, keys: &Path) -> Result<Result<(), Failure>> {
        let draft = keys.with_extension("draft");
        let mut words = self.reading(db, 0);
        // Five kinds of lookup have keys of their own.
        let count = self.lookups.saturating_mul(5).to_string();
        words.extend(["--draw".into(), count.into(), "--seed".into(), self.seed.to_string().into()]);
        words.extend(["--keys".into(), draft.clone().into()]);
        let ended = self.run_program(self.program, words, "draw")?;
        if !ended.succeeded() {
            return Ok(Err(failure("reads", &ended)));
        }
        fs::rename(&draft, keys).map_err(Error::io("give its name to", keys))?;
        Ok(Ok(()))
    }

    fn read(&self, db: &Path, keys: &Path, cold: bool, cache: u64) -> Result<Result<ReadFigures, Failure>> {
        let mut words = self.reading(db, cache);
        words.extend(["--keys".into(), keys.into()]);
        if cold {
            words.push("--cold".into());
        }
        let ended = self.run_program(self.program, words, "read")?;
        if ended.succeeded() { read_json(&ended.output).map(Ok) } else { Ok(Err(failure("reads", &ended))) }
    }

    fn work(&self, db: &Path, keys: &Path, cache: u64) -> Result<Result<NodeFigures, Failure>> {
        let mut words = self.reading(db, cache);
        words.extend(["--keys".into(), keys.into(), "--node".into(), self.node_ops.to_string().into()]);
        words.extend(["--seed".into(), self.seed.to_string().into()]);
        let ended = self.run_program(self.program, words, "node")?;
        if ended.succeeded() { read_json(&ended.output).map(Ok) } else { Ok(Err(failure("node", &ended))) }
    }

    fn reading(&self, db: &Path, cache: u64) -> Vec<OsString> {
        let words = ["bench-read".into(), "--db".into(), db.into(), "--block-cache".into(), cache.to_string().into()];
        words.to_vec()
    }

    fn run_program(&self, program: &Path, mut words: Vec<OsString>, name: &'static str) -> Result<Ended> {
        (self.watch)(name);
        if program == self.program {
            words.extend(["--progress".into(), "off".into()]);
        }
        child::run(&Job { program, words, dir: &self.work_dir.dir, name, stop: self.stop })
    }
}

fn blank(variant: &str, turn: Turn, cache: CacheInfo) -> Run {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Run {
        schema: RUN_SCHEMA.into(),
        variant: variant.to_owned(),
        round: turn.round,
        position: turn.position,
        warmup: turn.warmup,
        started_unix_seconds: now.as_secs(),
        cache,
        failure: None,
        process: None,
        import: None,
        scan: None,
        reads: None,
        node: None,
        notes: Vec::new(),
    }
}

fn import_figures(report: &ImportReport, wall: f64, db: &Path) -> ImportFigures {
    let phase = |name: &str| report.seconds.get(name).and_then(serde_json::Value::as_f64);
    let phases: Vec<(String, f64)> = report
        .seconds
        .iter()
        .filter(|(name, _)| *name != "total")
        .filter_map(|(name, seconds)| Some((name.clone(), seconds.as_f64()?)))
        .collect();
    let compact = phase("compact").unwrap_or(0.0);
    let check = phase("check");
    let memtable = report.memtable.as_ref();
    let of_log = report.log.iter().flat_map(|log| &log.families).flat_map(|family| &family.levels);
    let of_car = report.levels.iter().filter(|_| report.log.is_none());
    let levels = together(of_car.chain(of_log));
    let curve = curve(&report.samples);
    let total = report.samples.iter().filter(|sample| sample.phase == Phase::Read).find_map(|sample| sample.total);
    let (first_tenth_bytes_per_second, last_tenth_bytes_per_second) =
        total.map_or((None, None), |total| tenths(&curve, total));
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
        curve,
        pressure: pressure(&report.samples),
        first_tenth_bytes_per_second,
        last_tenth_bytes_per_second,
        rocksdb_written_bytes: report.rocksdb_bytes_written,
        sst_files: levels.iter().map(|level| level.files).sum(),
        levels,
        level0_files_before_compaction: memtable.map(|it| it.level0_files_before_compaction),
        stalls: memtable.map(|it| it.stalls),
        stall_seconds: memtable.map(|it| it.stall_seconds),
        disk_bytes: cache::disk_bytes(db),
        options: report.options.clone(),
        rocksdb_version: report.versions.rocksdb.clone(),
    }
}

/// The levels of several column families as one.
fn together<'a>(all: impl Iterator<Item = &'a Level>) -> Vec<Level> {
    let mut levels: BTreeMap<i32, Level> = BTreeMap::new();
    for level in all {
        let sum = levels.entry(level.level).or_insert(Level { files: 0, bytes: 0, ..*level });
        sum.files += level.files;
        sum.bytes += level.bytes;
    }
    levels.into_values().collect()
}

/// The places in the source at which reading went further than at the sample before.
fn curve(samples: &[Sample]) -> Vec<ReadStep> {
    let start = samples.iter().rev().skip_while(|sample| sample.phase != Phase::Read);
    let start = start.skip_while(|sample| sample.phase == Phase::Read).next().map_or(0.0, |sample| sample.seconds);
    let mut curve: Vec<ReadStep> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.phase == Phase::Read) {
        if sample.bytes > curve.last().map_or(0, |step| step.bytes) {
            curve.push(ReadStep { bytes: sample.bytes, seconds: sample.seconds - start });
        }
    }
    curve
}

/// Bytes per second over the first and over the last tenth of `total` bytes; `None` if the steps are not well below a tenth.
fn tenths(curve: &[ReadStep], total: u64) -> (Option<u64>, Option<u64>) {
    let reached = |place: u64| {
        let step = curve.iter().find(|step| step.bytes >= place);
        step.copied().filter(|step| step.bytes <= place + total / 20)
    };
    let rate = |from: ReadStep, to: ReadStep| {
        let seconds = to.seconds - from.seconds;
        (seconds > 0.0).then(|| (to.bytes.saturating_sub(from.bytes) as f64 / seconds) as u64)
    };
    let first = reached(total / 10).and_then(|to| rate(ReadStep { bytes: 0, seconds: 0.0 }, to));
    let last = reached(total - total / 10).zip(curve.last()).and_then(|(from, to)| rate(from, *to));
    (first, last)
}

/// Where in the source RocksDB was busy with itself, from samples of its backlog while the source was read.
fn pressure(samples: &[Sample]) -> Vec<Pressure> {
    let mut all: Vec<Pressure> = Vec::new();
    let reading: Vec<&Sample> = samples.iter().filter(|sample| sample.phase == Phase::Read).collect();
    for pair in reading.windows(2) {
        let [before, after] = pair else { continue };
        let (Some(was), Some(is)) = (before.backlog, after.backlog) else { continue };
        let stalls = is.writes != Writes::Flow;
        let compacted = is.level0_files < was.level0_files;
        for (is_so, what) in [(stalls, PressureKind::Stall), (compacted, PressureKind::Compaction)] {
            match all.iter_mut().rev().find(|known| known.what == what) {
                _ if !is_so => {}
                Some(last) if last.to_bytes >= before.bytes => last.to_bytes = after.bytes,
                _ => all.push(Pressure { from_bytes: before.bytes, to_bytes: after.bytes, what }),
            }
        }
    }
    all
}

/// Two processes, one after the other, as one.
fn both(first: ProcessFigures, second: ProcessFigures) -> ProcessFigures {
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
        memory: first.memory,
    }
}

/// The failure of a process, from what it wrote to standard error.
fn failure(action: &str, ended: &Ended) -> Failure {
    let line = |name: &str| ended.errors.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let otherwise = || match (ended.signal, ended.errors.trim().lines().next_back()) {
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, Some(last)) if !last.is_empty() => last.to_owned(),
        _ => format!("ended with exit code {}", ended.exit.unwrap_or(-1)),
    };
    Failure {
        action: action.to_owned(),
        exit: ended.exit,
        signal: ended.signal,
        error: line("error: ").unwrap_or_else(otherwise),
        hint: line("hint: "),
    }
}

fn failure_of(action: &str, error: &Error) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure {
        action: action.to_owned(),
        exit: None,
        signal: None,
        error: format!("{error}{cause}"),
        hint: Some(error.hint()),
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

    /// Reads `total` bytes in equal steps: a second each in the first half, two in the second.
    fn slowing_down(total: u64, steps: u64) -> (Option<u64>, Option<u64>) {
        let mut seconds = 0.0;
        let mut step = |step| {
            seconds += if step <= steps / 2 { 1.0 } else { 2.0 };
            ReadStep { bytes: total * step / steps, seconds }
        };
        tenths(&(1..=steps).map(&mut step).collect::<Vec<_>>(), total)
    }

    #[test]
    fn slower_end_shows_in_last_tenth() {
        assert_eq!(slowing_down(1000, 100), (Some(10), Some(5)));
        // Steps that do not hit the tenths.
        assert_eq!(slowing_down(33_000, 33), (Some(1000), Some(500)));
    }

    #[test]
    fn too_few_steps_have_no_tenths() {
        assert_eq!(slowing_down(1000, 1), (None, None));
        assert_eq!(slowing_down(1000, 4), (None, None));
        assert_eq!(tenths(&[], 1000), (None, None));
    }

    #[test]
    fn stalls_and_compactions_are_found_in_samples() {
        let sample = |bytes: u64, level0_files: u64, writes: &str| -> Sample {
            let text = serde_json::json!({
                "seconds": 0.0, "phase": "read", "bytes": bytes, "total": null, "blocks": 0, "total_blocks": null,
                "backlog": { "level0_files": level0_files, "pending_bytes": 0, "writes": writes },
            });
            serde_json::from_value(text).expect("a sample")
        };
        let samples = [
            sample(0, 1, "flow"),
            sample(10, 3, "flow"),
            sample(20, 5, "delayed"),
            sample(30, 5, "stopped"),
            sample(40, 2, "flow"),
            sample(50, 4, "flow"),
            sample(60, 4, "stopped"),
        ];
        let stall = |from_bytes, to_bytes| Pressure { from_bytes, to_bytes, what: PressureKind::Stall };
        let compaction = Pressure { from_bytes: 30, to_bytes: 40, what: PressureKind::Compaction };
        assert_eq!(pressure(&samples), [stall(10, 30), compaction, stall(50, 60)]);
        assert_eq!(pressure(&samples[..1]), []);
    }

    #[test]
    fn one_comparison_at_a_time_has_a_directory_and_leaves_nothing_there() {
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
