//! The whole way of an import, step by step.

use std::path::Path;

use serde_json::{Map, Value};

use super::options::ImportOptions;
use super::plan::{self, Plan};
use super::read::Held;
use super::target::Target;
use super::{build, publish, read};
use crate::error::Result;
use crate::progress::{Event, Observer, Phase, Progress};
use crate::report::{Blocks, ImportReport, SCHEMA, SourceInfo, Versions};
use crate::rocks::{self, SstOptions, Store};
use crate::source::car::Header;
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::input::{self, Body, InputOptions, Wrapping};
use crate::sys;

/// The share of the budget that one block may have: it is read, sorted and built while others are, and RocksDB copies
/// it once or twice.
const BLOCK_SHARE: u64 = 4;

/// The least that unpacking a compressed source can work with, in bytes.
const MIN_UNWRAPPING: u64 = 20 << 20;

/// Imports a snapshot. See [`ImportOptions`] for what can be chosen.
///
/// # Errors
/// Bad input, a target that forbids it, or whatever the system or RocksDB refuse; in every case nothing stands under
/// the final name that was not there before.
pub fn import(options: &ImportOptions, observer: &dyn Observer) -> Result<Outcome> {
    let progress = Progress::new(observer);
    progress.sampled(|| Import { options, progress: &progress }.run())
}

/// How an import ended well.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The database stands.
    Imported(Box<ImportReport>),
    /// A dry run: this is what would be done.
    Planned(Plan),
}

struct Import<'a> {
    options: &'a ImportOptions,
    progress: &'a Progress<'a>,
}

/// What is known about the source once it is open.
struct Source {
    header: Header,
    wrapping: Wrapping,
    size: Option<u64>,
}

impl Import<'_> {
    fn run(&self) -> Result<Outcome> {
        let options = self.options;
        let target = Target::check(options)?;
        let memory = options.memory.or_else(|| sys::memory().map(|all| all / 2)).unwrap_or(1 << 30);
        let threads =
            options.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into)).unwrap_or(1).max(1);
        let max_files = sys::raise_open_files();

        plan::check_memory(memory)?;
        let unwrapping = (memory / 4).max(MIN_UNWRAPPING);
        let input = input::open(&options.source, &InputOptions { threads, memory: unwrapping })?;
        let (wrapping, size, block_count) = (input.wrapping, input.size, input.blocks);
        let plain = matches!(input.body, Body::File(_));
        let expected = size.map(|size| if plain { size } else { size.saturating_mul(3) });
        let own = if plain { memory } else { memory - memory / 4 };
        let plan = Plan::choose(options.plan, expected, plain, own, threads, max_files);
        self.progress.tell(&Event::Planned { plan: plan.describe() });
        let limits = Limits {
            max_block: options.max_block_size,
            null_padding: options.null_padding,
            fits: memory / BLOCK_SHARE,
            budget: memory,
            chunk: plan.chunk_bytes as usize,
        };
        let (header, mut chunks) = Chunks::open(input, limits)?;
        let first = chunks.next(None)?;
        if options.dry_run {
            return Ok(Outcome::Planned(plan));
        }
        target.create()?;
        let source = Source { header, wrapping, size };

        self.progress.begin(Phase::Read, source.size);
        if let Some(blocks) = block_count {
            self.progress.expect_blocks(blocks);
        }
        let read = read::read(chunks, first, options, &plan, &target.spill, self.progress);
        let outcome = read.and_then(|blocks| self.load(&target, &plan, source, blocks));
        if outcome.is_err() {
            // What is left could only mislead: the next run starts over.
            target.remove()?;
        }
        outcome
    }

    fn load(&self, target: &Target, plan: &Plan, source: Source, blocks: read::Blocks) -> Result<Outcome> {
        let options = self.options;
        let sst = SstOptions::new(rocks::plain_options());
        self.progress.begin(Phase::Build, Some(blocks.payload));
        let spilled = matches!(blocks.held, Held::Spilled(_));
        let built = build::build(&blocks.held, &blocks.router, options, plan, &sst, &target.sst, self.progress)?;
        drop(blocks.held);

        self.progress.begin(Phase::Ingest, None);
        let store = Store::open(&target.staging, &rocks::plain_options())?;
        store.ingest(built.files)?;

        self.progress.begin(Phase::Settle, None);
        drop(store);
        let store = Store::open(&target.staging, &rocks::plain_options())?;
        let levels = store.levels()?;
        drop(store);

        self.progress.begin(Phase::Publish, None);
        let mut report = ImportReport {
            schema: SCHEMA.into(),
            source: SourceInfo {
                path: display(&options.source),
                format: "car".into(),
                wrapping: source.wrapping.name().into(),
                version: source.header.version,
                bytes: source.size.unwrap_or(blocks.consumed),
                roots: source.header.roots.iter().map(ToString::to_string).collect(),
                null_padding: blocks.tail.padding,
            },
            db: display(&options.db),
            column_family: options.column_family.clone(),
            key: options.key,
            verified: options.verify,
            blocks: Blocks { read: blocks.blocks, written: built.records, duplicate: built.duplicates },
            payload_bytes: built.payload,
            digest: built.digest,
            preset: "ingest".into(),
            loader: "ingest".into(),
            plan: Plan { spill: spilled, ..plan.clone() },
            seconds: Map::new(),
            cpu_seconds: None,
            peak_rss_bytes: None,
            bytes_read: None,
            bytes_written: None,
            levels,
            samples: Vec::new(),
            versions: Versions { bedload: env!("CARGO_PKG_VERSION").into(), rocksdb: rocks::VERSION.into() },
        };
        self.measure(&mut report);
        let record = serde_json::to_vec_pretty(&report).unwrap_or_default();
        publish::write_synced(&target.staging.join("BEDLOAD.json"), &record)?;
        publish::publish(target)?;
        self.progress.end();
        self.measure(&mut report);
        Ok(Outcome::Imported(Box::new(report)))
    }

    /// Fills in what is measured: as far as it has come.
    fn measure(&self, report: &mut ImportReport) {
        let mut seconds = Map::new();
        seconds.insert("total".into(), self.progress.now().seconds.into());
        for (phase, time) in self.progress.phase_seconds() {
            seconds.insert(phase.name().into(), Value::from(time));
        }
        report.seconds = seconds;
        report.cpu_seconds = sys::cpu_seconds();
        report.peak_rss_bytes = sys::peak_rss();
        let io = sys::io_bytes();
        report.bytes_read = io.map(|(read, _)| read);
        report.bytes_written = io.map(|(_, written)| written);
        report.samples = self.progress.samples();
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
