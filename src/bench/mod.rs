//! Which preset is best, on this machine, for this snapshot: every run a process of its own, rounds interleaved, every
//! figure with its uncertainty.
//!
//! [`bench()`] makes the runs and stores them; `analyse` computes figures; `report::bench` formats them. Nothing here
//! decides by a single run, and nothing compares runs of different rounds.

mod analyse;
mod cache;
mod child;
mod fetch;
pub mod keys;
mod machine;
mod matrix;
mod measure;
pub mod node;
mod options;
mod pace;
pub mod reads;
mod recommend;
mod rounds;
mod schedule;
mod snapshot;
mod store;
#[cfg(test)]
pub(crate) mod testing;
pub mod tune;

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

pub use analyse::figures;
pub use machine::machine;
pub use matrix::{ARGUMENTS, Variant, Vary};
pub use options::{BenchOptions, DEFAULT_LOOKUPS, DEFAULT_NODE_OPS, DEFAULT_RUNS};
pub use schedule::Order;
pub use store::load;

use self::fetch::Fetched;
use self::measure::{Runner, Turn, WorkDir};
use self::pace::Pace;
use self::store::Store;
use crate::error::{Error, Result};
use crate::progress::Silent;
use crate::read::inspect::{InspectOptions, inspect};
use crate::report::bench::{BENCH_SCHEMA, BenchReport, COPY, Run, Setup, SnapshotInfo, VariantInfo};
use crate::source::remote::take_secrets;
use crate::text::size::counted;

/// Receives the progress of a comparison.
pub trait BenchObserver {
    /// A run begins.
    fn begins(&self, step: &Step) {
        let _ = step;
    }

    /// A part of the run begins: what it does, in a word.
    fn does(&self, action: &'static str) {
        let _ = action;
    }

    /// So many of the snapshot's bytes have come from the network.
    fn fetches(&self, received: u64, bytes: u64) {
        let _ = (received, bytes);
    }

    /// A run is over.
    fn ends(&self, run: &Run) {
        let _ = run;
    }

    /// A note for the user.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

/// Ignores everything.
impl BenchObserver for crate::progress::Silent {}

/// A run that is about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The variant; [`COPY`] for the copy.
    pub variant: String,
    /// The round, from 0.
    pub round: u32,
    /// Whether the round only warms up.
    pub warmup: bool,
    /// Which run of all it is, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
    /// How long it will probably take.
    pub expected: Option<Duration>,
    /// How long this run and all that follow will probably take.
    pub left: Option<Duration>,
}

/// Compares presets.
///
/// # Errors
/// [`Error::Usage`]: nothing sensible to compare; [`Error::Preset`]: a preset cannot be; [`Error::State`]: another
/// comparison is in the same folder; [`Error::Io`]: the disk fails; [`Error::Interrupted`]: the caller cancelled it. An
/// import that fails is a result.
pub fn bench(options: &BenchOptions, observer: &dyn BenchObserver) -> Result<BenchReport> {
    let mut options = options.clone();
    take_secrets(&mut options.source, &mut options.network);
    let options = &options;
    let variants = match options.variants.is_empty() {
        true => matrix::variants(&options.presets, &options.set, &options.vary)?,
        false => options.variants.clone(),
    };
    let infos = infos(&variants)?;
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let reference = reference(options.reference.as_deref(), &names)?;
    if options.runs == 0 {
        return Err(Error::Usage { reason: "no rounds, no results".into(), hint: "give --runs 3 or more".into() });
    }
    if options.node_ops > 0 && options.lookups == 0 {
        return Err(Error::Usage {
            reason: "--node-ops reads the keys that --lookups draws".into(),
            hint: "give --lookups 1 or more, or leave out --node-ops".into(),
        });
    }
    let source = snapshot::probe(&options.source, &options.network)?;
    // What is no snapshot is refused before anything is made.
    if source.shows_at_its_beginning()? {
        inspect(&InspectOptions::new(&options.source).network(options.network.clone()), &Silent)?;
    }
    let (mut store, mut runs) = Store::open(&options.out, &identity(options, &infos, &source)?)?;
    let dir = options.dir.as_deref().unwrap_or(&options.out);
    let work_dir = WorkDir::take(dir)?;
    let plan = plan(options, &names);
    let todo: Vec<bool> = plan.iter().map(|(name, turn)| !is_done(&runs, name, *turn)).collect();
    let fetched = match todo.contains(&true) {
        true => source.fetch(dir, &options.stop, &|received, bytes| observer.fetches(received, bytes))?,
        false => None,
    };
    let runner = Runner {
        program: &options.program,
        source: fetched.as_ref().map_or(&options.source, Fetched::path),
        cold: options.cold,
        lookups: options.lookups,
        node_ops: options.node_ops,
        scan: options.scan,
        seed: options.seed,
        keys: options.out.clone(),
        stop: &options.stop,
        work_dir,
        watch: &|action| observer.does(action),
    };
    let mut report = BenchReport {
        schema: BENCH_SCHEMA.into(),
        machine: machine(dir),
        snapshot: SnapshotInfo {
            path: options.source.display().to_string(),
            bytes: source.bytes,
            blocks: None,
            payload_bytes: None,
        },
        setup: Setup {
            command: options.command.clone(),
            runs: options.runs,
            warmup: options.warmup,
            order: options.order.name().into(),
            seed: options.seed,
            cache: if options.cold { "cold" } else { "warm" }.into(),
            budget_seconds: options.budget.map(|budget| budget.as_secs_f64()),
            lookups: options.lookups,
            node_ops: options.node_ops,
            complete: false,
            notes: Vec::new(),
        },
        variants: infos,
        figures: figures(&names, &reference, options.margin, &runs),
        runs: Vec::new(),
    };

    let clock = Clock::new(options.budget);
    let mut pace = Pace::default();
    for (index, (name, turn)) in plan.iter().enumerate().filter(|(index, _)| todo.get(*index) == Some(&true)) {
        if options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        let expected = pace.expected(name, source.bytes);
        if !clock.allows(expected.unwrap_or_default()) {
            let left = plan.len() - index;
            let all = counted(plan.len() as u64, "run", "runs");
            let text = format!("the budget of time is used up: {left} of {all} were not made");
            observer.note(&text);
            report.setup.notes.push(text);
            break;
        }
        let begun = Instant::now();
        let behind = plan.iter().zip(&todo).skip(index).filter(|(_, todo)| **todo);
        let left = pace.sum(behind.map(|((name, _), _)| (name.as_str(), source.bytes)));
        let step = Step {
            variant: name.clone(),
            round: turn.round,
            warmup: turn.warmup,
            number: index + 1,
            of: plan.len(),
            expected,
            left: left.map(|left| clock.bounded(left)),
        };
        observer.begins(&step);
        let run = match variants.iter().find(|variant| variant.name == *name) {
            Some(variant) => runner.import(variant, *turn)?,
            None => runner.copy(*turn)?,
        };
        pace.note(name, source.bytes, begun.elapsed());
        store.append(&run)?;
        observer.ends(&run);
        runs.push(run);
        complete(&mut report, &runs, plan.len());
        store.save(&report)?;
    }
    complete(&mut report, &runs, plan.len());
    store.save(&report)?;
    Ok(report)
}

/// Computes the figures of a saved comparison again, against another reference or by another margin if one is given.
///
/// # Errors
/// [`Error::Usage`]: there is no such variant.
pub fn analyse_again(report: &mut BenchReport, named: Option<&str>, margin: Option<f64>) -> Result<()> {
    let names: Vec<String> = report.variants.iter().map(|variant| variant.name.clone()).collect();
    let known = report.figures.reference.clone();
    let reference = reference(named.or(Some(&known)), &names)?;
    let margin = margin.unwrap_or(report.figures.margin);
    report.figures = figures(&names, &reference, margin, &report.runs);
    Ok(())
}

/// Fills in the figures of the runs so far.
fn complete(report: &mut BenchReport, runs: &[Run], planned: usize) {
    let names: Vec<String> = report.variants.iter().map(|variant| variant.name.clone()).collect();
    report.runs = runs.to_vec();
    report.setup.complete = runs.len() >= planned;
    report.figures = figures(&names, &report.figures.reference, report.figures.margin, runs);
    let imported = runs.iter().find_map(|run| run.import.as_ref());
    report.snapshot.blocks = imported.map(|import| import.blocks);
    report.snapshot.payload_bytes = imported.map(|import| import.payload_bytes);
    for variant in &mut report.variants {
        let own = runs.iter().filter(|run| run.variant == variant.name);
        if let Some(import) = own.filter_map(|run| run.import.as_ref()).next() {
            variant.options.clone_from(&import.options);
        }
    }
}

fn is_done(runs: &[Run], name: &str, turn: Turn) -> bool {
    runs.iter().any(|run| run.variant == name && run.round == turn.round && run.warmup == turn.warmup)
}

/// All runs in their order.
fn plan(options: &BenchOptions, names: &[String]) -> Vec<(String, Turn)> {
    let mut all = names.to_vec();
    if options.variants.is_empty() {
        all.insert(0, COPY.to_owned());
    }
    let rounds = (0..options.warmup).map(|round| (round, true)).chain((0..options.runs).map(|round| (round, false)));
    rounds
        .flat_map(|(round, warmup)| {
            // The rounds that warm up come first and turn as if they were numbered with the others.
            let turn = if warmup { round } else { options.warmup + round };
            let order = schedule::round(&all, options.order, options.seed, turn);
            order.into_iter().zip(0..).map(move |(name, position)| (name, Turn { round, position, warmup }))
        })
        .collect()
}

/// The identity of a comparison: everything but its length.
fn identity(
    options: &BenchOptions,
    infos: &[VariantInfo],
    source: &snapshot::SourceProfile,
) -> Result<Map<String, Value>> {
    let mut variants = Vec::new();
    for info in infos {
        let digest = text_digest(&crate::preset::Preset::find(&info.preset)?.all_text());
        variants.push(json!({
            "name": info.name, "preset_text": digest, "set": info.set, "arguments": info.arguments,
        }));
    }
    // The identity of a search has its snapshot.
    let is_named = options.variants.is_empty();
    let all = json!({
        "schema": "bedload-bench-identity-1",
        "snapshot": is_named.then(|| snapshot::absolute(&options.source)),
        "snapshot_bytes": source.bytes,
        "snapshot_modified_ms": source.modified_ms.filter(|_| is_named),
        "snapshot_tag": source.tag,
        "variants": variants,
        "warmup": options.warmup,
        "order": options.order.name(),
        "seed": options.seed,
        "cold": options.cold,
        "lookups": options.lookups,
        "node_ops": options.node_ops,
        "scan": options.scan,
        "dir": snapshot::absolute(options.dir.as_deref().unwrap_or(&options.out)),
        "bedload": env!("CARGO_PKG_VERSION"),
    });
    Ok(object(all))
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

fn text_digest(text: &str) -> String {
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(text.as_bytes()))
}

fn infos(variants: &[Variant]) -> Result<Vec<VariantInfo>> {
    let info = |variant: &Variant| {
        let resolved = variant.resolve()?;
        Ok(VariantInfo {
            name: variant.name.clone(),
            preset: variant.preset.clone(),
            summary: resolved.summary,
            loader: resolved.loader.to_string(),
            set: variant.set.clone(),
            arguments: variant.arguments.clone(),
            options: Vec::new(),
        })
    };
    variants.iter().map(info).collect()
}

fn reference(named: Option<&str>, names: &[String]) -> Result<String> {
    let Some(named) = named else { return Ok(names.first().cloned().unwrap_or_default()) };
    if names.iter().any(|name| name == named) {
        return Ok(named.to_owned());
    }
    Err(Error::Usage {
        reason: format!("the reference `{named}` is not compared"),
        hint: format!("it is one of: {}; every preset is held against `{COPY}` besides", names.join(", ")),
    })
}

/// A budget of time.
struct Clock {
    start: Instant,
    budget: Option<Duration>,
}

impl Clock {
    fn new(budget: Option<Duration>) -> Self {
        Self { start: Instant::now(), budget }
    }

    /// What is left of the budget; `None` without one.
    fn left(&self) -> Option<Duration> {
        self.budget.map(|budget| budget.saturating_sub(self.start.elapsed()))
    }

    /// What will probably take `expected` ends with the budget at the latest.
    fn bounded(&self, expected: Duration) -> Duration {
        self.left().map_or(expected, |left| expected.min(left))
    }

    /// Whether something that will probably take `expected` may begin.
    fn allows(&self, expected: Duration) -> bool {
        self.budget.is_none_or(|budget| self.start.elapsed() + expected <= budget)
    }
}
