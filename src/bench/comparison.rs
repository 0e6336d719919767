//! A comparison: the plan of its runs, their order, and the report after each.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::figures::figures;
use super::keys;
use super::machine::machine;
use super::matrix;
use super::options::BenchOptions;
use super::pace::RunPace;
use super::reads::KINDS_OF_LOOKUPS;
use super::runner::{Runner, Turn, WorkDir};
use super::snapshot::{BenchSnapshot, absolute};
use super::store::ResultStore;
use crate::error::{Error, Result};
use crate::generate::Noise;
use crate::preset::{self, Preset};
use crate::report::bench::{BENCH_SCHEMA, BenchReport, BenchRun, COPY, Setup, SnapshotInfo, Variant};
use crate::source::remote::take_secrets;
use crate::text::size::counted;

/// Receives the progress of a comparison.
pub trait BenchObserver {
    /// A run begins.
    fn begins(&self, step: &RunStart);

    /// A part of the run begins; `action` is one word.
    fn does(&self, action: &'static str);

    /// The download of the snapshot has received `received` of `bytes`.
    fn fetches(&self, received: u64, bytes: u64);

    /// A run has ended.
    fn ends(&self, run: &BenchRun);

    /// A note for the user.
    fn note(&self, text: &str);
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStart {
    /// The variant; [`COPY`] for the copy.
    pub variant: String,
    /// The round, from 0.
    pub round: u32,
    /// True if the round only warms up.
    pub warmup: bool,
    /// The number of the run, from 1.
    pub number: usize,
    /// The number of all runs.
    pub of: usize,
    /// The forecast for this run.
    pub expected: Option<Duration>,
    /// The forecast for this run and those after it.
    pub left: Option<Duration>,
}

/// Compares presets.
///
/// # Errors
/// [`Error::Usage`]: the options do not make a comparison; [`Error::Preset`]: a preset is wrong; [`Error::BadInput`]: the
/// snapshot is wrong; [`Error::State`]: `out` has another comparison; [`Error::Io`]: the disk or the network fails;
/// [`Error::Interrupted`]: the caller cancelled it. A failed import is a result.
pub fn bench(options: &BenchOptions, observer: &dyn BenchObserver) -> Result<BenchReport> {
    let (options, variants, mut snapshot) = prepare(options)?;
    compare(&options, variants, Vec::new(), &mut snapshot, observer)
}

/// Checks the options before anything is written; returns them without secrets, with the variants and the snapshot.
pub(super) fn prepare(options: &BenchOptions) -> Result<(BenchOptions, Vec<Variant>, BenchSnapshot)> {
    let mut options = options.clone();
    take_secrets(&mut options.source, &mut options.network);
    let variants = matrix::variants(&options.presets, &options.set, &options.vary)?;
    options.reference = Some(reference(options.reference.as_deref(), &names(&variants))?);
    if options.runs == 0 {
        return Err(Error::Usage { reason: "--runs 0 gives no results".into(), hint: "give --runs 3 or more".into() });
    }
    if let Some(file) = &options.keys
        && let found @ ..KINDS_OF_LOOKUPS = keys::load(file)?.len()
    {
        let found = counted(found as u64, "key", "keys");
        let reason = format!("{} has {found}, and there are {KINDS_OF_LOOKUPS} kinds of lookups", file.display());
        return Err(Error::usage(reason, "write at least one key for each, one a line, in hex"));
    }
    let snapshot = BenchSnapshot::probe(&options.source, &options.network)?;
    Ok((options, variants, snapshot))
}

/// Makes the runs that are not stored yet. The report begins with `notes`.
pub(super) fn compare(
    options: &BenchOptions,
    variants: Vec<Variant>,
    notes: Vec<String>,
    snapshot: &mut BenchSnapshot,
    observer: &dyn BenchObserver,
) -> Result<BenchReport> {
    let (mut store, runs) = ResultStore::open(&options.out, &identity(options, &variants, snapshot)?)?;
    let dir = options.work_dir();
    let work_dir = WorkDir::take(dir)?;
    let plan = plan(options, &variants);
    let is_done = |(name, turn): &(String, Turn)| {
        runs.iter().any(|run| run.variant == *name && (run.round, run.warmup) == (turn.round, turn.warmup))
    };
    let todo: Vec<(usize, &(String, Turn))> = plan.iter().enumerate().filter(|(_, turn)| !is_done(turn)).collect();
    let bytes = snapshot.bytes;
    let source = match todo.is_empty() {
        true => &options.source,
        false => snapshot.local(dir, &options.stop, &|received, bytes| observer.fetches(received, bytes))?,
    };
    let runner = Runner { options, source, work_dir, watch: &|action| observer.does(action) };
    let reference = options.reference.as_deref().unwrap_or_default();
    let mut report = BenchReport {
        schema: BENCH_SCHEMA.into(),
        machine: machine(dir),
        snapshot: SnapshotInfo { path: options.source.display().to_string(), bytes, blocks: None, payload_bytes: None },
        setup: Setup {
            command: options.command.clone(),
            runs: options.runs,
            warmup: options.warmup,
            seed: options.seed,
            cache: if options.is_cold() { "cold" } else { "warm" }.into(),
            budget_seconds: options.budget.map(|budget| budget.as_secs_f64()),
            lookups: options.lookups,
            complete: false,
            notes,
        },
        figures: figures(&names(&variants), reference, options.margin(), &runs),
        variants,
        runs,
    };

    let start = Instant::now();
    let budget = || options.budget.map(|budget| budget.saturating_sub(start.elapsed()));
    let mut pace = RunPace::default();
    for (done, (index, (name, turn))) in todo.iter().enumerate() {
        options.stop.check(Error::interrupted)?;
        let expected = pace.expected(name);
        if budget().is_some_and(|left| left <= expected.unwrap_or_default()) {
            let all = counted(plan.len() as u64, "run", "runs");
            let text = format!("the time budget is used up: {} of {all} were not made", todo.len() - done);
            observer.note(&text);
            report.setup.notes.push(text);
            break;
        }
        let begun = Instant::now();
        let left: Option<Duration> = todo.iter().skip(done).map(|(_, (name, _))| pace.expected(name)).sum();
        observer.begins(&RunStart {
            variant: name.clone(),
            round: turn.round,
            warmup: turn.warmup,
            number: index + 1,
            of: plan.len(),
            expected,
            left: left.map(|left| budget().map_or(left, |budget| left.min(budget))),
        });
        let run = match report.variants.iter().find(|variant| variant.name == *name) {
            Some(variant) => runner.import(variant, *turn)?,
            None => runner.copy(*turn)?,
        };
        pace.note(name, begun.elapsed());
        store.append(&run)?;
        observer.ends(&run);
        report.runs.push(run);
        complete(&mut report, plan.len());
        store.save(&report)?;
    }
    complete(&mut report, plan.len());
    store.save(&report)?;
    Ok(report)
}

/// Computes the figures of a saved comparison again, with another reference or margin if given.
///
/// # Errors
/// [`Error::Usage`]: the reference is not a variant.
pub fn analyse_again(report: &mut BenchReport, named: Option<&str>, margin: Option<f64>) -> Result<()> {
    let names = names(&report.variants);
    let reference = reference(named.or(Some(&report.figures.reference)), &names)?;
    report.figures = figures(&names, &reference, margin.unwrap_or(report.figures.margin), &report.runs);
    Ok(())
}

fn complete(report: &mut BenchReport, planned: usize) {
    report.setup.complete = report.runs.len() >= planned;
    report.figures = figures(&names(&report.variants), &report.figures.reference, report.figures.margin, &report.runs);
    let imports = || report.runs.iter().filter_map(|run| Some((&run.variant, run.import.as_ref()?)));
    let sizes = imports().next().map(|(_, import)| (import.blocks, import.payload_bytes));
    (report.snapshot.blocks, report.snapshot.payload_bytes) = sizes.unzip();
    for variant in &mut report.variants {
        if let Some((_, import)) = imports().find(|(name, _)| **name == variant.name) {
            variant.options.clone_from(&import.options);
        }
    }
}

fn plan(options: &BenchOptions, variants: &[Variant]) -> Vec<(String, Turn)> {
    // The copy of a whole database says nothing about a sample of it.
    let copy = options.sample.is_none().then(|| COPY.to_owned());
    let all: Vec<String> = copy.into_iter().chain(names(variants)).collect();
    let rounds = (0..options.warmup).map(|round| (round, true)).chain((0..options.runs).map(|round| (round, false)));
    rounds
        .zip(0..)
        .flat_map(|((round, warmup), number)| {
            // Machines drift, and a run after a long import finds a busier disk. So no variant always has the same place or predecessor.
            let (mut order, mut noise) = (all.clone(), Noise::new(options.seed, number));
            (1..order.len()).rev().for_each(|at| order.swap(at, noise.below(at as u64 + 1) as usize));
            order.into_iter().zip(0..).map(move |(name, position)| (name, Turn { round, position, warmup }))
        })
        .collect()
}

/// Returns the identity of a comparison: everything but the number of rounds.
fn identity(options: &BenchOptions, variants: &[Variant], snapshot: &BenchSnapshot) -> Result<Map<String, Value>> {
    let variants = variants.iter().map(|variant| {
        let text = match preset::options_file(&variant.preset) {
            Some(file) => fs::read_to_string(&file).map_err(Error::io("read", &file))?,
            None => Preset::find(&variant.preset)?.all_text(),
        };
        let digest = text_digest(&text);
        let Variant { name, set, arguments, .. } = variant;
        Ok(json!({ "name": name, "preset_text": digest, "set": set, "arguments": arguments }))
    });
    let identity = json!({
        "schema": "bedload-bench-identity-1",
        "snapshot": absolute(&options.source),
        "snapshot_bytes": snapshot.bytes,
        "snapshot_modified_ms": snapshot.modified_ms,
        "snapshot_tag": snapshot.tag,
        "variants": variants.collect::<Result<Vec<Value>>>()?,
        "warmup": options.warmup,
        "seed": options.seed,
        "cold": options.cold,
        "lookups": options.lookups,
        "sample": options.sample,
        "keys": options.keys.as_deref().map(absolute),
        "scan": !options.no_scan,
        "dir": absolute(options.work_dir()),
        "bedload": env!("CARGO_PKG_VERSION"),
    });
    Ok(if let Value::Object(map) = identity { map } else { Map::new() })
}

pub(super) fn names(variants: &[Variant]) -> Vec<String> {
    variants.iter().map(|variant| variant.name.clone()).collect()
}

pub(super) fn text_digest(text: &str) -> String {
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(text.as_bytes()))
}

/// Returns the named variant, or the first one.
fn reference(named: Option<&str>, names: &[String]) -> Result<String> {
    let Some(named) = named else { return Ok(names.first().cloned().unwrap_or_default()) };
    if names.iter().any(|name| name == named) {
        return Ok(named.to_owned());
    }
    let reason = format!("the reference `{named}` is not compared");
    Err(Error::usage(reason, format!("name one of: {}; every preset is also compared with `{COPY}`", names.join(", "))))
}
