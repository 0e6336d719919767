//! The whole way of an import, step by step.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use super::existing::Existing;
use super::identity::{Identity, Origin};
use super::job::{self, Job};
use super::journal::{Entry, Journal, Progressed};
use super::options::ImportOptions;
use super::planner;
use super::target::Target;
use super::{choices, descriptors, identity, log, memtable, phase_weights, publish, read, space};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::ContentDigest;
use crate::os::resources;
use crate::preset::{self, Loader, Resolved};
use crate::progress::{Event, Observer, Phase, Progress};
use crate::report::Plan;
use crate::report::record::{ImportRecord, sealed};
use crate::report::{Blocks, ImportReport, LogReport, MemtableReport, SCHEMA, SourceInfo, Versions};
use crate::rocks::{self, Level};
use crate::schema::RECORD_FILE;
use crate::schema::{BLOCK_IDS, TRANSACTIONS};
use crate::sort::key::KeyLayout;
use crate::source::block_log::{Dictionaries, Log, Opened};
use crate::source::car::Header;
use crate::source::car::chunks::{Chunks, Limits, Tail};
use crate::source::input::{self, Body, InputOptions, Wrapping};

/// The share of the budget that one block may have: it is read, sorted and built while others are, and RocksDB copies
/// it once or twice.
const BLOCK_SHARE: u64 = 4;

/// The least that unpacking a compressed source can work with, in bytes.
const MIN_UNWRAPPING: u64 = 20 << 20;

/// Files that may be open where the system names no limit.
const UNLIMITED_FILES: u64 = 1 << 20;

/// How much later a signal may be heard of here than by the other side of a pipe.
const SIGNAL: Duration = Duration::from_millis(100);

/// Imports a snapshot. See [`ImportOptions`] for what can be chosen.
///
/// It writes into `<db>.partial` beside the database, into the work directory where one is given, and gives the database
/// its name in the end. Before that, RocksDB is asked what it makes of the options: in an empty database that lives for
/// some milliseconds in a directory in memory (`/dev/shm`, or a temporary directory where there is none).
///
/// Of the process it changes nothing but that threads which RocksDB and rayon share among all their users stay when it
/// returns. Limits and signals are the program's: see [`crate::raise_open_files`] and [`crate::handle_sigbus`].
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
    format: &'static str,
    version: u64,
    roots: Vec<String>,
    wrapping: Wrapping,
    size: Option<u64>,
}

/// A source that stands before its first block.
enum Reader {
    Car(Box<Car>),
    Log(Box<Log>),
}

/// A CAR behind its header.
struct Car {
    header: Header,
    chunks: Chunks,
    /// What is read, where it is a file that was opened by its name.
    file: Option<File>,
}

/// What a loader did.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Blocks read, duplicates included.
    pub blocks: u64,
    /// Bytes of their values.
    pub payload: u64,
    /// Bytes of the wrapped source taken.
    pub consumed: u64,
    pub tail: Tail,
    /// Whether anything was spilled.
    pub spilled: bool,
    /// Records in the database that came from this source.
    pub records: u64,
    pub duplicates: u64,
    pub digest: ContentDigest,
    pub levels: Vec<Level>,
    /// Bytes of SST files and WAL that were written; `None` where others may have written too.
    pub rocksdb_written: Option<u64>,
    /// What only the memtable loader has to tell.
    pub memtable: Option<MemtableReport>,
    /// What only a block log has to tell.
    pub log: Option<LogReport>,
}

impl Import<'_> {
    fn run(&self) -> Result<Outcome> {
        let options = self.options;
        let mut target = Target::new(options)?;
        let finished = target.is_finished();
        if !finished && let Err(error) = target.check() {
            // Perhaps an import that was complete died over its very last file.
            if target.partial.exists()
                && let Ok(lock) = target.lock()
            {
                target.remove_if_unused()?;
                lock.release();
            }
            return Err(error);
        }
        // Before RocksDB starts threads to check the preset's options.
        planner::check_memory(options)?;
        let mut preset = self.preset(preset::DEFAULT)?;
        let memory = options.memory_budget();
        let threads = |preset: &Resolved| options.threads.unwrap_or_else(|| preset.sst_threads()).max(1);
        let max_files = resources::open_files().0.unwrap_or(UNLIMITED_FILES);

        let unwrapping = (memory / 4).max(MIN_UNWRAPPING);
        let dictionaries = Dictionaries::new(options.log.dictionaries.as_deref());
        let opened = match log::of_set(options, &dictionaries)? {
            Some(log) => Opened::Log(Box::new(log)),
            None => {
                let how = InputOptions { threads: threads(&preset), memory: unwrapping };
                log::detect(input::open(&options.source, &how)?, options, &dictionaries)?
            }
        };
        failpoint::reach("source-opened");
        if matches!(opened, Opened::Log(_)) {
            preset = self.preset(preset::DEFAULT_OF_LOGS)?;
            choices::check_of_log(options, preset.loader)?;
        } else {
            choices::check_of_car(options, preset.loader)?;
        }
        preset.notes.iter().for_each(|note| self.progress.tell(&Event::Warning { message: note.clone() }));
        let threads = threads(&preset);
        let (wrapping, size, block_count, plain) = match &opened {
            Opened::Log(log) => (log.wrapping, log.size, None, !log.is_piped()),
            Opened::Other(input) => (input.wrapping, input.size, input.blocks, matches!(input.body, Body::File(_))),
        };
        // State packs to about a third; a wrong guess costs partitions that are too small, or a merge.
        let expected = size.map(|size| if plain { size } else { size.saturating_mul(3) });
        let own = if plain { memory } else { memory - memory / 4 };
        let mut plan = planner::choose(options.plan, expected, plain, own, threads, max_files, preset.sst_size());
        if let Opened::Log(log) = &opened {
            let ids = (!options.log.no_id_index).then(|| BLOCK_IDS.to_owned());
            let transactions = options.log.index_transactions.then(|| TRANSACTIONS.to_owned());
            planner::for_log(
                &mut plan,
                log.is_piped(),
                std::iter::once("default".to_owned()).chain(ids).chain(transactions).collect(),
            );
        }
        let loading = job::loading(options, &preset)?;
        match preset.loader {
            Loader::Ingest => plan.open_files = descriptors::of_ingest(&plan, &loading)?,
            Loader::Memtable => memtable::plan(&mut plan, options, &preset, &loading)?
                .into_iter()
                .for_each(|message| self.progress.tell(&Event::Warning { message })),
        }
        descriptors::check(plan.open_files, max_files, options)?;
        plan.space = space::of(&plan, preset.loader, plain, &target)?;
        self.progress.tell(&Event::Planned { plan: plan.describe() });
        let limits = Limits {
            max_block: options.max_block_size,
            null_padding: options.null_padding,
            fits: memory / BLOCK_SHARE,
            budget: memory,
            chunk: plan.chunk_bytes as usize,
        };
        let mut reader = match opened {
            Opened::Other(mut input) => {
                let file = input.file.take();
                let (header, chunks) = Chunks::open(input, limits)?;
                choices::check_has_no_log_options(options)?;
                Reader::Car(Box::new(Car { header, chunks, file }))
            }
            Opened::Log(log) => Reader::Log(log),
        };
        if options.dry_run {
            return Ok(Outcome::Planned(plan));
        }
        for message in if finished { Vec::new() } else { space::check(&plan.space)? } {
            self.progress.tell(&Event::Warning { message });
        }
        let identity = Identity::of(options, &preset, &plan, reader.origin(options))?;
        let explained =
            |error, target: &Target| space::explain(error, || space::of(&plan, preset.loader, plain, target));
        let lock = target.lock().map_err(|error| explained(error, &target))?;
        if finished {
            let (journal, mut before) = Journal::open(&target.partial)?;
            before.touched = before.identity.as_ref().is_none_or(|known| identity.is_touched_since(known));
            let job = Job {
                options,
                plan: &plan,
                preset: &preset,
                target: &target,
                existing: None,
                journal: &journal,
                before: &before,
                progress: self.progress,
                loading: loading.clone(),
            };
            if let Some(outcome) = self.sweep(&job, &identity, &mut reader)? {
                lock.release();
                return Ok(outcome);
            }
        }
        // Somebody else may have been here until now.
        if let Err(error) = target.check() {
            target.remove_if_unused()?;
            return Err(error);
        }
        // The paths that a checkpoint has; those of partitions are chosen later.
        let paths = target.clone();
        let existing = if paths.into_existing { Some(Existing::lock(&paths)) } else { None };
        let existing = match existing.transpose() {
            Ok(existing) => existing,
            Err(error) => {
                target.remove_if_unused()?;
                return Err(error);
            }
        };
        let taken_up = self.take_up(&mut target, existing.as_ref(), &identity);
        let (journal, before) = taken_up.map_err(|error| explained(error, &target))?;
        self.progress.expect(phase_weights::of(options, &plan, &loading, plain));
        let source = Source { wrapping, size, ..reader.describe() };
        self.progress.begin(Phase::Read, source.size);
        if let Some(blocks) = block_count {
            self.progress.expect_blocks(blocks);
        }
        let job = Job {
            options,
            plan: &plan,
            preset: &preset,
            target: &target,
            existing: existing.as_ref(),
            journal: &journal,
            before: &before,
            progress: self.progress,
            loading,
        };
        let loaded = match (reader, preset.loader) {
            (Reader::Log(log), Loader::Ingest) => job.load_log(&log),
            (Reader::Log(log), Loader::Memtable) => job.load_log_through_memtables(&log),
            (Reader::Car(car), Loader::Ingest) => job.build_and_ingest(car.chunks),
            (Reader::Car(car), Loader::Memtable) => job.load_through_memtables(car.chunks),
        };
        // What was checked and what was stored may have been read at different times.
        let loaded = loaded.and_then(|loaded| identity.still_holds(options).map(|()| loaded));
        let outcome = loaded.and_then(|loaded| self.publish(&target, &journal, &plan, &preset, &source, loaded));
        let outcome = outcome.map_err(|error| self.cut_by_signal(explained(error, &target)));
        let is_bad = matches!(&outcome, Err(Error::BadInput { .. }));
        let has_gone_back = match (&existing, &outcome) {
            (Some(existing), Err(error)) if !matches!(error, Error::Interrupted { .. }) => self.go_back(existing),
            _ => true,
        };
        if is_bad && has_gone_back {
            // Going on would only meet the same fault again; and what is left could mislead.
            if let Err(error) = target.remove() {
                self.progress.tell(&Event::Warning { message: error.to_string() });
            }
        }
        lock.release();
        if (is_bad || outcome.is_ok())
            && let Some(path) = target.foreign()
        {
            let message = format!("{} is not of an import: it stays where it is", path.display());
            self.progress.tell(&Event::Warning { message });
        }
        outcome
    }

    /// After a failure: an existing database is brought back to what it was. Whether it is that now.
    fn go_back(&self, existing: &Existing<'_>) -> bool {
        let (has_gone_back, message) = match existing.go_back() {
            Ok(false) => return true,
            Ok(true) => (true, existing.restored()),
            Err(error) => {
                let message = "the database could not be brought back to what it was, which the same command, run again, \
                               does first";
                (false, format!("{message}: {error}"))
            }
        };
        self.progress.tell(&Event::Warning { message });
        has_gone_back
    }

    /// Ctrl-C ends whoever feeds a pipe as well: what then looks like a snapshot that is cut, or another one, is an
    /// interruption.
    fn cut_by_signal(&self, error: Error) -> Error {
        if !matches!(error, Error::BadInput { .. } | Error::State { .. }) || identity::is_file(&self.options.source) {
            return error;
        }
        std::thread::sleep(SIGNAL);
        if self.options.stop.asked() { super::interrupted() } else { error }
    }

    /// The preset, with `default` for the case that nobody names one.
    fn preset(&self, default: &str) -> Result<Resolved> {
        let Self { options, .. } = self;
        let preset = options.overrides.preset_or(options.preset.as_deref(), default)?;
        preset::resolve(&preset, &options.overrides)
    }

    /// Takes up what an earlier run has left, or starts a journal.
    fn take_up(
        &self,
        target: &mut Target,
        existing: Option<&Existing<'_>>,
        identity: &Identity,
    ) -> Result<(Journal, Progressed)> {
        if self.options.restart {
            if let Some(known) = Journal::peek(&target.partial).identity
                && let Some(work_dir) = known.work_dir()
            {
                target.clear_spill_below(work_dir)?;
            }
            existing.map_or(Ok(()), Existing::give_up)?;
            target.clear()?;
        }
        Journal::check_version(&target.partial)?;
        // Opening the journal drops what is damaged in it.
        existing.map_or(Ok(()), Existing::is_known)?;
        let (mut journal, mut before) = Journal::open(&target.partial)?;
        match &before.identity {
            Some(known) => {
                let differences = identity.differences(known);
                if !differences.is_empty() {
                    let all: Vec<String> = differences
                        .iter()
                        .map(|(name, there, here)| format!("{name} was {there}, is {here}"))
                        .collect();
                    return Err(Error::State {
                        path: target.partial.clone(),
                        reason: format!("an unfinished import of something else lies here: {}", all.join("; ")),
                        hint: "give the same source and options again to go on, or throw it away with --restart".into(),
                    });
                }
                // The journal does not name the files; this one does.
                before.touched = identity.is_touched_since(known);
                before.identity = Some(identity.clone());
                target.create()?;
                if let Some(message) = existing.map(|it| it.take_up(&journal, &mut before)).transpose()?.flatten() {
                    self.progress.tell(&Event::Warning { message });
                }
                target.reconcile(&before)?;
                self.progress.tell(&Event::Resumed {
                    source_bytes: before.read.as_ref().map_or(0, |(mark, _)| mark.consumed)
                        + before.ranges.iter().map(|range| range.end - range.start).sum::<u64>(),
                    built_files: before.files.len() as u64,
                });
            }
            None => {
                // Nothing was durable yet.
                drop(journal);
                existing.map_or(Ok(()), Existing::give_up)?;
                target.clear()?;
                target.create()?;
                (journal, before) = Journal::open(&target.partial)?;
                journal.append(&Entry::start(identity.clone()))?;
                before.identity = Some(identity.clone());
                failpoint::reach("start");
            }
        }
        Ok((journal, before))
    }

    /// An earlier run had given the database its name and died before it had cleaned up: that is made good. If it was
    /// this import of the same source, it is done; `None` if it was another import, which is none of ours.
    fn sweep(&self, job: &Job<'_>, identity: &Identity, reader: &mut Reader) -> Result<Option<Outcome>> {
        let Job { options, target, before, .. } = *job;
        let known = before.identity.as_ref();
        let same = !options.restart && known.is_some_and(|known| identity.differences(known).is_empty());
        let compared = match reader {
            _ if !same => Ok(()),
            Reader::Car(car) => read::is_whole(&mut car.chunks, before, options),
            Reader::Log(log) => job.is_whole_log(log),
        };
        let brings_it = match compared.map_err(|error| self.cut_by_signal(error)) {
            Ok(()) => true,
            Err(Error::State { .. } | Error::BadInput { .. }) => false,
            Err(error) => return Err(error),
        };
        if let Some(work_dir) = known.and_then(Identity::work_dir) {
            target.clear_spill_below(work_dir)?;
        }
        let report = ImportRecord::load_as(&target.db)?.map(|(report, _)| report);
        target.remove_leftovers()?;
        if !brings_it {
            return Err(Error::State {
                path: target.db.clone(),
                reason: "the source is not the one that the finished import has read".into(),
                hint: "choose another --db, or add this source too with --into-existing".into(),
            });
        }
        Ok(report.filter(|_| same).map(|report| Outcome::Imported(Box::new(report))))
    }

    fn publish(
        &self,
        target: &Target,
        journal: &Journal,
        plan: &Plan,
        preset: &Resolved,
        source: &Source,
        loaded: Loaded,
    ) -> Result<Outcome> {
        let options = self.options;
        self.progress.begin(Phase::Publish, None);
        let effective = rocks::options_of(target.working(), &options.column_family)?.unwrap_or_default();
        let mut report = ImportReport {
            schema: SCHEMA.into(),
            source: SourceInfo {
                path: display(&options.source),
                format: source.format.into(),
                wrapping: source.wrapping.name().into(),
                version: source.version,
                bytes: source.size.unwrap_or(loaded.consumed),
                roots: source.roots.clone(),
                null_padding: loaded.tail.padding,
            },
            db: display(&options.db),
            column_family: options.column_family.clone(),
            into_existing: options.into_existing,
            key: if loaded.log.is_some() { KeyLayout::Number } else { options.key },
            verified: options.verify,
            blocks: Blocks { read: loaded.blocks, written: loaded.records, duplicate: loaded.duplicates },
            payload_bytes: loaded.payload,
            digest: loaded.digest,
            // Of the records that were there before nobody knows.
            hash_functions: (options.key == KeyLayout::Digest && !options.into_existing).then(|| journal.functions()),
            preset: preset.preset.clone(),
            loader: preset.loader.to_string(),
            plan: Plan { spill: loaded.spilled, ..plan.clone() },
            seconds: Map::new(),
            cpu_seconds: None,
            peak_rss_bytes: None,
            bytes_read: None,
            bytes_written: None,
            rocksdb_bytes_written: loaded.rocksdb_written,
            compacted: !options.no_compact,
            levels: loaded.levels,
            log: loaded.log,
            memtable: loaded.memtable,
            options: preset.effective_node(&effective).into_iter().map(Into::into).collect(),
            small_files: publish::small_files(target.working())?,
            reading: self.progress.tenths(),
            reading_steps: self.progress.reading_steps(),
            samples: Vec::new(),
            versions: Versions { bedload: env!("CARGO_PKG_VERSION").into(), rocksdb: rocks::VERSION.into() },
        };
        self.measure(&mut report);
        let record = sealed(serde_json::to_vec_pretty(&report).unwrap_or_default());
        publish::write_synced(target.working(), RECORD_FILE, &record)?;
        failpoint::reach("recorded");
        publish::seal(target)?;
        journal.append(&Entry::Complete)?;
        failpoint::reach("complete");
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
        report.cpu_seconds = resources::cpu_seconds();
        report.peak_rss_bytes = resources::peak_rss();
        let io = resources::io_bytes();
        report.bytes_read = io.map(|(read, _)| read);
        report.bytes_written = io.map(|(_, written)| written);
        report.samples = self.progress.samples();
    }
}

impl Reader {
    /// What tells the source from another one.
    fn origin(&self, options: &ImportOptions) -> Origin<'_> {
        match self {
            Self::Log(log) => log::origin(log, options),
            Self::Car(car) => {
                let roots: Vec<String> = car.header.roots.iter().map(ToString::to_string).collect();
                let head = format!("{} {}", car.header.version, roots.join(" ")).into_bytes();
                let files = car.file.iter().map(|file| (options.source.clone(), file)).collect();
                Origin { head, files, log: String::new() }
            }
        }
    }

    /// What the report says about the source.
    fn describe(&self) -> Source {
        let (format, version, roots) = match self {
            Self::Car(car) => ("car", car.header.version, car.header.roots.iter().map(ToString::to_string).collect()),
            Self::Log(log) => ("block-log", u64::from(log.version()), Vec::new()),
        };
        Source { format, version, roots, wrapping: Wrapping::None, size: None }
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
