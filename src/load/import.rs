//! An import, step by step: open, plan, lock, resume, load, commit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::commit::{commit_database, merge_source_infos, report};
use crate::load::context::{Job, Loaded, Prepared};
use crate::load::existing::{Existing, check_layout};
use crate::load::identity::{self, Identity};
use crate::load::journal::{Journal, ResumedState};
use crate::load::links::LinkList;
use crate::load::open::{Body, OpenSource, Source};
use crate::load::options::{F3Data, ImportOptions, Unfinished};
use crate::load::planner::{self, Planned};
use crate::load::resume::{finish_earlier, resume};
use crate::load::sources::Sources;
use crate::load::target::{Target, existing_parent};
use crate::load::uploads::{self, Publish};
use crate::load::{block_log, car, disk_space, phase_weights, records, validate};
use crate::preset::{self, Overrides, Resolved};
use crate::progress::{Event, Phase, Progress};
use crate::report::{ChecksumInfo, ImportReport, Plan, SourceInfo};
use crate::rocks::options::{self, ProbeError, Refusal};
use crate::source::car::RawCid;
use crate::source::input::Compression;
use crate::source::remote::is_remote;

/// Time to wait for Ctrl-C to reach this process after it has ended the writer of the pipe.
const SIGNAL: Duration = Duration::from_millis(100);

/// Calls `run`. Calls it again from the beginning if it cannot resume and the caller allows to start over.
pub(super) fn run_or_restart(
    import: &Import<'_>,
    run: impl Fn(&Import<'_>) -> Result<ImportReport>,
) -> Result<ImportReport> {
    let Import { options, progress } = *import;
    let may_restart = options.unfinished == Unfinished::ResumeOrRestart && {
        let target = Target::new(options)?;
        Journal::path(&target.partial).exists()
    };
    match run(import) {
        Err(error) if may_restart && error.needs_restart() => {
            import.warn([format!("{error}: the unfinished import is deleted, and the import starts over")]);
            let options = &ImportOptions { unfinished: Unfinished::Restart, ..options.clone() };
            let import = Import { options, progress };
            // The beginning of a pipe cannot be read again.
            if options.sources.iter().any(|source| identity::is_pipe(source)) {
                return import.discard().and(Err(error));
            }
            run(&import)
        }
        result => result,
    }
}

/// Adds a hint about the durable work to an interruption.
pub(super) fn with_hint(error: Error, options: &ImportOptions) -> Error {
    match error {
        Error::Interrupted { .. } => Error::Interrupted { hint: hint_after_interruption(&options.db).into() },
        error => error,
    }
}

/// The hint for an interrupted import into `db`.
pub(crate) fn hint_after_interruption(db: &Path) -> String {
    let target = Target::new(&ImportOptions::new(PathBuf::new(), db));
    target.map(|target| Journal::peek(&target.partial)).unwrap_or_default().hint()
}

/// An opened source and the plan of its import.
struct Opened {
    target: Target,
    /// True if an import into the target was complete and died before it had cleaned up.
    is_finished: bool,
    sources: Arc<Sources>,
    preset: Resolved,
    planned: Planned,
    source: Source,
    compression: Compression,
    /// Bytes on disk of all sources.
    size: Option<u64>,
    blocks: Option<u64>,
    checksum: Option<ChecksumInfo>,
}

pub(super) struct Import<'a> {
    pub options: &'a ImportOptions,
    pub progress: &'a Progress<'a>,
}

impl Import<'_> {
    /// Deletes the unfinished work, and restores an existing database.
    pub(super) fn discard(&self) -> Result<()> {
        let target = Target::new(self.options)?;
        let lock = target.lock()?;
        target.undo_swap()?;
        if target.into_existing {
            Existing::lock(&target)?.restore_before_restart()?;
        }
        target.remove()?;
        lock.release();
        Ok(())
    }

    /// Checks the target and the memory before the source is opened. Returns the target, and true if an import into it was
    /// complete and died before it had cleaned up.
    pub(super) fn begin(&self) -> Result<(Target, bool)> {
        self.options.check_cancelled()?;
        let target = Target::new(self.options)?;
        let is_finished = target.is_finished()?;
        if !is_finished {
            if let Err(error) = target.check().and_then(|()| validate::check_keep_old(self.options, &target.db)) {
                // A complete import may have died before it removed its last file.
                if target.partial.exists()
                    && let Ok(lock) = target.lock()
                {
                    target.remove_if_unused()?;
                    lock.release();
                }
                return Err(error);
            }
            if target.into_existing || target.has_old() {
                // No process may have the database open. The source, which is opened next, may be a pipe that is slow to begin.
                drop(Existing::lock(&target)?);
            }
        }
        // Before RocksDB starts threads to check the preset's options.
        planner::check_memory(self.options)?;
        self.warn(planner::excess_memory(self.options));
        Ok((target, is_finished))
    }

    /// Opens the source and plans the import. Calls `on_plan` before it reads the header.
    fn prepare(&self, place: Option<&dyn Publish>, on_plan: impl FnOnce(&Plan)) -> Result<Opened> {
        let options = self.options;
        let (target, is_finished) = self.begin()?;
        let is_remote = options.sources.iter().any(|source| is_remote(source));
        // If a URL redirects elsewhere by now, the source is read from where it was when the import began.
        let known = if is_remote && options.unfinished != Unfinished::Restart {
            Journal::peek(&target.partial).identity
        } else {
            None
        };
        let sources = Sources::find(options, known.as_ref())?;
        let (opened, preset) = self.open(&sources)?;
        if place.is_some() {
            validate::check_published(preset.loader)?;
            if opened.records().is_some() {
                let hint = "import it with --db DIR instead";
                return Err(Error::usage("a bundle cannot be made from a stream of records", hint));
            }
        }
        self.warn(sources.take_unusable());
        let planned = self.plan_opened(&opened, &preset, &target, is_finished)?;
        on_plan(&planned.plan);
        let (compression, size, blocks, checksum) = (opened.compression, opened.size, opened.blocks, opened.checksum());
        let source = opened.read_header(options, &planned.plan)?;
        if !is_finished && planned.plan.check_space().is_ok() {
            self.warn(disk_space::warnings(&planned.plan.space));
        }
        Ok(Opened { target, is_finished, sources, preset, planned, source, compression, size, blocks, checksum })
    }

    /// Plans the import, and creates nothing.
    pub(super) fn plan(&self) -> Result<Plan> {
        self.prepare(None, |_| ()).map(|opened| opened.planned.plan)
    }

    pub(super) fn run(&self, place: Option<&dyn Publish>) -> Result<ImportReport> {
        let options = self.options;
        let report_plan = |plan: &Plan| self.progress.report(&Event::Planned { plan: Box::new(plan.clone()) });
        let opened = self.prepare(place, report_plan)?;
        let Opened { target, is_finished, sources, preset, mut planned, source, .. } = opened;
        let Opened { compression, size, blocks, checksum, .. } = opened;
        // The report of the import names them elsewhere.
        for name in [&mut planned.plan.source, &mut planned.plan.preset, &mut planned.plan.preset_from] {
            name.clear();
        }
        if !is_finished {
            planned.plan.check_space().or_else(|error| self.explain_lack_of_room(&target, error))?;
        }
        let is_plain = sources.are_plain();
        let is_remote = options.sources.iter().any(|source| is_remote(source));
        let mut identity = Identity::of(options, &preset, &planned.plan, source.identity(&sources, checksum.as_ref()))?;
        if let Source::Records(streams) = &source {
            streams.families.iter().zip(&streams.presets).for_each(|(name, preset)| identity.add_family(name, preset));
        }
        let mut info = SourceInfo { checksum, ..source.info(&sources, compression) };
        let prepared = Prepared { sources, preset, planned, identity, is_plain };
        let check_whole = |job: &Job<'_>, source: &mut Source| self.check_whole(job, source);
        self.locked((target, is_finished), &prepared, source, check_whole, |job, source| {
            uploading(job, place, |job| {
                self.progress.begin(Phase::Read, size);
                if is_remote {
                    let sources = Arc::clone(job.sources);
                    self.progress.watch_network(move || sources.network());
                }
                blocks.into_iter().for_each(|blocks| self.progress.expect_blocks(blocks));
                let resumed = job.resumed;
                // An earlier run without this checksum may have read all bytes.
                let is_taken = resumed.car.read_done.is_some() || (resumed.ingested && resumed.held.is_some());
                if let Some(checksum) = &mut info.checksum {
                    checksum.compared = !is_taken || resumed.compared;
                }
                let loaded = load(job, source, &prepared.identity)?;
                self.warn(job.sources.take_unusable());
                let info = merge_source_infos(info, &loaded.sources);
                let roots: Vec<RawCid> = info.roots.iter().filter_map(|root| root.parse().ok()).collect();
                let complete = car::completeness::check(job, &roots, loaded.routed.as_ref().map(|(router, _)| router))?;
                let bytes = size.unwrap_or(loaded.consumed);
                let info = SourceInfo { bytes, null_padding: loaded.tail.padding, ..info };
                commit_database(job, || report(job, info, loaded, complete))
            })
        })
    }

    /// Returns the error for a lack of room, unless the file system is read-only or refuses files for another reason.
    fn explain_lack_of_room(&self, target: &Target, lacking: Error) -> Result<()> {
        match target.lock() {
            Ok(lock) => {
                target.remove_if_unused()?;
                lock.release();
            }
            Err(Error::Io { source, .. }) if disk_space::is_full(&source) => target.remove_if_unused()?,
            Err(error) => return Err(error),
        }
        Err(lacking)
    }

    /// Opens the source. Also returns the preset.
    fn open(&self, sources: &Arc<Sources>) -> Result<(OpenSource, Resolved)> {
        let options = self.options;
        validate::check_has_no_database_options(options)?;
        let overrides = &options.overrides;
        let own = Overrides { set: overrides.of_family(&options.column_family, &[]).set, ..overrides.clone() };
        let preset = self.preset_of_family(&own, &options.column_family, &[])?;
        let mut opened = OpenSource::open(options, sources, planner::threads(options, &preset))?;
        failpoint::reach("source-opened");
        if let Body::Records(streams) = &mut opened.body {
            validate::check_records(options, &preset)?;
            streams.presets = self.presets_of_families(&streams.families)?;
            self.warn_of_families(streams.families.iter().map(String::as_str).zip(&streams.presets));
        } else {
            overrides.check_families(&[&options.column_family])?;
            match opened.log() {
                Some(_) => validate::check_block_log(options)?,
                None => validate::check_car(options, preset.loader)?,
            }
            self.warn(preset.notes.clone());
        }
        Ok((opened, preset))
    }

    /// The options of each column family of streams of records.
    fn presets_of_families(&self, names: &[String]) -> Result<Vec<Resolved>> {
        let overrides = &self.options.overrides;
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        overrides.check_families(&all)?;
        all.iter().map(|name| self.preset_of_family(&overrides.of_family(name, &all), name, &all)).collect()
    }

    /// The options of one of the column families `names`.
    pub(super) fn preset_of_family(&self, overrides: &Overrides, name: &str, names: &[&str]) -> Result<Resolved> {
        self.preset_with(preset::DEFAULT, overrides).map_err(|error| {
            let text = format!("{error}\n{}", error.hint());
            let given = self.options.overrides.restore_names(name, names, text.clone());
            match given.rsplit_once('\n') {
                Some((reason, hint)) if given != text => {
                    Error::usage(format!("column family `{name}`: {reason}"), hint)
                }
                _ => error,
            }
        })
    }

    /// Prints each note on the options of column families once.
    pub(super) fn warn_of_families<'b>(&self, families: impl Iterator<Item = (&'b str, &'b Resolved)>) {
        let families: Vec<_> = families.collect();
        let all: Vec<&str> = families.iter().map(|(name, _)| *name).collect();
        let mut notes = BTreeMap::<String, Vec<&str>>::new();
        for (name, preset) in families {
            let given = |note: &String| self.options.overrides.restore_names(name, &all, note.clone());
            preset.notes.iter().for_each(|note| notes.entry(given(note)).or_default().push(name));
        }
        self.warn(notes.into_iter().map(|(note, names)| match names[..] {
            [one] => format!("{one}: {note}"),
            _ => format!("{} column families: {note}", names.len()),
        }));
    }

    /// The preset, or `default` if the caller chose none.
    pub(super) fn preset(&self, default: &str) -> Result<Resolved> {
        self.preset_with(default, &self.options.overrides)
    }

    /// As [`Import::preset`], with other overrides.
    pub(super) fn preset_with(&self, default: &str, overrides: &Overrides) -> Result<Resolved> {
        let Self { options, .. } = self;
        let (preset, choice) = overrides.choose(options.preset.as_deref(), default)?;
        let overrides = Overrides { scratch: Some(existing_parent(&options.db)), ..overrides.clone() };
        let mut resolved = preset::resolve(&preset, &overrides)?;
        validate::check_final_compaction(options, &resolved)?;
        resolved.choice = choice;
        Ok(resolved)
    }

    fn plan_opened(
        &self,
        opened: &OpenSource,
        preset: &Resolved,
        target: &Target,
        is_finished: bool,
    ) -> Result<Planned> {
        let sources = &opened.sources;
        let mut planned = planner::plan(self.options, preset, opened)?;
        self.warn(std::mem::take(&mut planned.warnings));
        // Skipped F3 data are known only when they are read.
        let stores_all = self.options.f3 == F3Data::Store;
        if is_finished || !stores_all {
            planned.least_bytes = 0;
        }
        planned.plan.space =
            disk_space::of(&planned.plan, sources.are_plain() && stores_all, planned.least_bytes, target)?;
        planned.plan.source = sources.shown().display().to_string();
        (planned.plan.preset, planned.plan.preset_from) = (preset.preset.clone(), preset.choice.to_string());
        Ok(planned)
    }

    /// Checks that the source is the one that a finished import has read to its end.
    fn check_whole(&self, job: &Job<'_>, source: &mut Source) -> Result<()> {
        let compared = match source {
            Source::Car(source) => car::resume_source::check_whole(&mut source.chunks, job),
            Source::BlockLog(log) => block_log::load::check_whole(job, log),
            // Its files are those of the import, and a pipe is not compared.
            Source::Records(_) => Ok(()),
        };
        compared.map_err(|error| self.cut_by_signal(error))
    }

    fn job<'a>(&'a self, prepared: &'a Prepared, target: &'a Target, earlier: &'a (Journal, ResumedState)) -> Job<'a> {
        let Prepared { sources, preset, planned: Planned { plan, loading, .. }, .. } = prepared;
        Job {
            options: self.options,
            sources,
            plan,
            preset,
            target,
            existing: None,
            replaced: None,
            journal: &earlier.0,
            resumed: &earlier.1,
            progress: self.progress,
            loading,
            uploads: None,
            links: None,
        }
    }

    /// Locks the target, resumes what an earlier run has left, does `work`, and cleans up after a failure. If an earlier run was
    /// complete and died before it had cleaned up, cleans up, and returns its report if it was this import of the same source,
    /// which `compare` checks.
    pub(super) fn locked<S>(
        &self,
        (mut target, is_finished): (Target, bool),
        prepared: &Prepared,
        mut source: S,
        compare: impl FnOnce(&Job<'_>, &mut S) -> Result<()>,
        work: impl FnOnce(&Job<'_>, S) -> Result<ImportReport>,
    ) -> Result<ImportReport> {
        self.options.check_cancelled()?;
        let take_lock = |target: &Target| target.lock().map_err(|error| prepared.explain(error, target));
        let mut lock = take_lock(&target)?;
        if is_finished {
            let mut earlier = Journal::open(&target.partial)?;
            let known = earlier.1.identity.as_ref();
            earlier.1.touched = known.map_or_else(Vec::new, |known| prepared.identity.touched_since(known));
            let job = self.job(prepared, &target, &earlier);
            let report = finish_earlier(&job, &prepared.identity, || compare(&job, &mut source))?;
            // On FUSE and NFS the directory cannot be removed while the journal is open.
            drop(earlier);
            lock.release();
            if let Some(report) = report {
                return Ok(report);
            }
            // The cleaning removed the locked file.
            lock = take_lock(&target)?;
        }
        // Another process may have worked on it until now.
        target.check().or_else(|error| target.remove_if_unused().and(Err(error)))?;
        // `existing` uses the paths of the backup; those of partitions are chosen later.
        let paths = target.clone();
        let there = (paths.into_existing || paths.has_old()).then(|| Existing::lock(&paths));
        let there = there.transpose().or_else(|error| target.remove_if_unused().and(Err(error)))?;
        let (existing, replaced) = if paths.into_existing { (there.as_ref(), None) } else { (None, there.as_ref()) };
        if existing.is_some() {
            check_layout(self.options).or_else(|error| target.remove_if_unused().and(Err(error)))?;
        }
        if let Some(old) = replaced {
            let checked = old.check_replaceable_wal().and_then(|()| target.check_exchange());
            checked.or_else(|error| target.remove_if_unused().and(Err(error)))?;
        }
        let earlier = resume(self.options, self.progress, &mut target, existing, prepared);
        let earlier = earlier.map_err(|error| prepared.explain(error, &target))?;
        let plan = &planner::fit_plan_to_journal(&prepared.planned, self.options, &earlier.1)?;
        let compacts = prepared.preset.final_compaction();
        let loading = &prepared.planned.loading;
        self.progress.expect(phase_weights::of(self.options, plan, loading, prepared.is_plain, compacts));
        let links = (plan.links_bytes > 0).then(|| LinkList::new(self.options.key, &target.spill, plan.links_bytes));
        let job = self.job(prepared, &target, &earlier);
        let outcome = work(&Job { plan, existing, replaced, links: links.as_ref(), ..job }, source);
        let outcome = outcome.map_err(|error| self.cut_by_signal(prepared.explain(error, &target)));
        // On FUSE and NFS the directory cannot be removed while the journal is open.
        drop(earlier);
        let is_bad = matches!(&outcome, Err(Error::BadInput { .. }));
        let is_restored = match (existing, &outcome) {
            (Some(existing), Err(error)) if !matches!(error, Error::Interrupted { .. }) => self.restore(existing),
            _ => true,
        };
        // The next run would only find the same fault, so nothing is kept for it.
        if is_bad
            && !self.options.is_seed
            && is_restored
            && let Err(error) = target.remove()
        {
            self.warn([error.to_string()]);
        }
        target.spill_lock = None;
        lock.release();
        if (is_bad || outcome.is_ok())
            && let Some(path) = target.foreign()
        {
            self.warn([format!("{} is not of an import: it stays where it is", path.display())]);
        }
        outcome
    }

    pub(super) fn warn(&self, messages: impl IntoIterator<Item = String>) {
        messages.into_iter().for_each(|message| self.progress.report(&Event::Warning { message }));
    }

    /// Restores an existing database after a failure. Returns true if the database is as it was.
    fn restore(&self, existing: &Existing<'_>) -> bool {
        let (is_restored, message) = match existing.restore() {
            Ok(false) => return true,
            Ok(true) => (true, existing.describe_restored()),
            Err(error) => (
                false,
                format!("cannot restore the database; run the same command again, which tries again first: {error}"),
            ),
        };
        self.warn([message]);
        is_restored
    }

    /// Turns the error of a cut or changed pipe into an interruption after Ctrl-C, which also ends the writer of the pipe.
    fn cut_by_signal(&self, error: Error) -> Error {
        if !matches!(error, Error::BadInput { .. } | Error::State { .. })
            || self.options.sources.iter().all(|path| identity::is_file(path))
        {
            return error;
        }
        std::thread::sleep(SIGNAL);
        if self.options.stop.is_cancelled() { Error::interrupted() } else { error }
    }
}

/// Does `work`, and publishes each file when it is built, if there is a place for files.
fn uploading<T>(job: &Job<'_>, publish: Option<&dyn Publish>, work: impl FnOnce(&Job<'_>) -> Result<T>) -> Result<T> {
    let Some(publish) = publish else { return work(job) };
    let node = options::effective(&job.preset.node(), &job.preset.places).map_err(|error| match error {
        ProbeError::Failed(error) => error,
        ProbeError::Refused(Refusal(message)) => Error::Rocks { action: "open", path: job.options.db.clone(), message },
    })?;
    let rows = job.preset.effective_node(&node);
    publish.begin(&rows)?;
    let files = (job.target.sst.as_path(), job.options.column_family.as_str());
    let earlier = (job.journal, job.resumed);
    uploads::with(publish, files, earlier, |uploads| work(&Job { uploads: Some(uploads), ..*job }))
}

/// Loads the source as planned.
fn load(job: &Job<'_>, source: Source, identity: &Identity) -> Result<Loaded> {
    let loaded = match (source, job.plan.sort(), job.plan.memtable()) {
        (Source::BlockLog(log), _, None) => block_log::load::load(job, &log),
        (Source::BlockLog(log), _, Some(_)) => block_log::load::load_memtable(job, &log),
        (Source::Car(car), Some(sort), _) => car::load::load(job, sort, car.chunks),
        (Source::Car(car), None, _) => car::memtable::load(job, car.chunks),
        (Source::Records(streams), ..) => records::load(job, *streams),
    };
    // Blocks are verified and stored from two reads of the source, and a file that is cut or written to while it is read
    // looks damaged.
    if loaded.is_ok() || matches!(loaded, Err(Error::BadInput { .. })) {
        identity.check_unchanged(job.options)?;
    }
    loaded
}
