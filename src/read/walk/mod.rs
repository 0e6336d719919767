//! Following links from the roots, as a node does that scans or exports its chain.
//!
//! Breadth first: all links found at one distance are followed before the next. Threads take them in batches, sort
//! each by key and look it up at once. What has been met is remembered in `visited`, what is still to be followed in
//! `queue`; both go to disk beyond the memory budget.
//!
//! A Filecoin header gives what hangs below it an epoch, and its parents a place in the chain; that is how a walk is
//! limited to some tipsets, and how blocks that a snapshot leaves out on purpose are told from damage.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::access::{Location, Resources};
use super::count;
use super::header::chain_header;
use super::links::{codec, links};
use super::missing::{LISTED, Missing};
use super::queue::{Queue, Step};
use super::record::{ImportRecord, roots};
use super::share::share;
use super::visited::{Visited, fingerprint};
use crate::error::{Error, Result};
use crate::progress::{Observer, Phase, Progress};
use crate::report::{WALK_SCHEMA, WalkReport};
use crate::rocks::{Reader, ReaderOptions};
use crate::sort::key::KeyLayout;
use crate::source::car::{CidSpan, RawCid, read_cid};
use crate::sys;

/// Links looked up at once.
const BATCH: usize = 512;

/// The least memory a walk works with, in bytes.
const MIN_MEMORY: u64 = 8 << 20;

/// What to walk, and how far.
#[derive(Debug, Clone)]
pub struct WalkOptions {
    /// The database.
    pub db: PathBuf,
    /// Where to begin. Defaults to the roots that the import recorded.
    pub roots: Vec<RawCid>,
    /// Follow the chain of headers over so many tipsets only. Defaults to all of it.
    pub tipsets: Option<u32>,
    /// Blocks named by headers below this epoch may be missing. Defaults to none.
    pub allow_missing_below: Option<u64>,
    /// What the walk may use.
    pub resources: Resources,
    /// Where the blocks are.
    pub location: Location,
}

impl WalkOptions {
    /// Everything in `db` that its roots lead to.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self {
            db: db.into(),
            roots: Vec::new(),
            tipsets: None,
            allow_missing_below: None,
            resources: Resources::default(),
            location: Location::default(),
        }
    }
}

/// Follows the links. That blocks are missing is no error: the report says it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::generate::Spec::new(bedload::generate::Profile::Mainnet, 1 << 20);
/// # bedload::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::progress::Silent;
/// use bedload::read::walk::{WalkOptions, walk};
///
/// let report = walk(&WalkOptions::new(&db), &Silent)?;
/// assert!(report.complete);
/// assert_eq!((report.missing, report.unreachable), (0, Some(0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// There is no database, no root is known, or a block cannot be read.
pub fn walk(options: &WalkOptions, observer: &dyn Observer) -> Result<WalkReport> {
    let progress = Progress::new(observer);
    let start = Instant::now();
    let report = progress.sampled(|| run(options, &progress));
    progress.end();
    report.map(|report| WalkReport { seconds: start.elapsed().as_secs_f64(), ..report })
}

fn run(options: &WalkOptions, progress: &Progress<'_>) -> Result<WalkReport> {
    let record = ImportRecord::load(&options.db)?;
    let memory = options.resources.memory().max(MIN_MEMORY);
    sys::raise_open_files();
    let cache = usize::try_from(memory / 4).unwrap_or(usize::MAX);
    let reader = Reader::open(&options.db, &ReaderOptions { cache, open_files: -1, lenient: false })?;
    let roots = roots(&options.roots, record.as_ref(), "walk", "name one with --root")?;
    let family = options.location.family(record.as_ref());
    let work_dir = options.resources.work_dir();
    let walk = Walk {
        options,
        reader: &reader,
        family: &family,
        layout: options.location.layout(record.as_ref()).0,
        visited: Visited::new(memory / 2, work_dir.clone()),
        missing: Mutex::default(),
        progress,
    };
    let recorded = record.filter(|record| !record.into_existing);
    progress.begin(Phase::Walk, recorded.as_ref().map(|record| record.payload_bytes));
    let queue_budget = usize::try_from(memory / 8).unwrap_or(usize::MAX);
    let (found, depth) = walk.levels(&roots, || Queue::new(queue_budget, &work_dir))?;
    let mut unreachable = None;
    let mut first_unreachable = Vec::new();
    if options.tipsets.is_none() {
        let records = match recorded {
            Some(record) => record.blocks.written,
            None => {
                count::count(&reader, walk.family, options.resources.threads(), progress, &options.resources.stop)?
                    .records
            }
        };
        unreachable = Some(records.saturating_sub(found.reachable));
        if records > found.reachable {
            first_unreachable = walk.list_unreachable()?;
        }
    }
    let Missing { total, allowed, first } = walk.missing.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(WalkReport {
        schema: WALK_SCHEMA.into(),
        db: options.db.display().to_string(),
        roots: roots.iter().map(ToString::to_string).collect(),
        complete: total == allowed,
        tipsets: options.tipsets,
        reachable: found.reachable,
        reachable_bytes: found.bytes,
        missing: total,
        missing_allowed: allowed,
        unreachable,
        commitments: found.commitments,
        identity: found.identity,
        malformed: found.malformed,
        depth,
        first_missing: first,
        first_unreachable,
        seconds: 0.0,
    })
}

struct Walk<'a> {
    options: &'a WalkOptions,
    reader: &'a Reader,
    family: &'a str,
    layout: KeyLayout,
    visited: Visited,
    missing: Mutex<Missing>,
    progress: &'a Progress<'a>,
}

/// What one thread found.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    reachable: u64,
    bytes: u64,
    commitments: u64,
    identity: u64,
    malformed: u64,
}

impl Found {
    fn merge(&mut self, other: &Self) {
        self.reachable += other.reachable;
        self.bytes += other.bytes;
        self.commitments += other.commitments;
        self.identity += other.identity;
        self.malformed += other.malformed;
    }
}

impl Walk<'_> {
    /// Follows links level by level; the number of levels is how deep the graph is.
    fn levels(&self, roots: &[RawCid], queue: impl Fn() -> Queue) -> Result<(Found, u64)> {
        let mut found = Found::default();
        let mut level = queue();
        for root in roots {
            let step = Step { cid: root.as_bytes().to_vec(), parent: Vec::new(), tipset: 0, epoch: None };
            self.meet(&step.cid, &mut found, |_| level.push(&step))?;
        }
        let mut depth = 0;
        while level.len() > 0 {
            let batches = usize::try_from(level.len().div_ceil(BATCH as u64)).unwrap_or(usize::MAX);
            let (taken, next) = (Mutex::new(level), Mutex::new(queue()));
            let workers = share(self.options.resources.threads(), batches, Found::default, |found, _| {
                if self.options.resources.stop.asked() {
                    return Err(Error::Interrupted { hint: "nothing was changed; run it again".into() });
                }
                let steps = lock(&taken).take(BATCH)?;
                self.follow(steps, found, &next)
            })?;
            workers.iter().for_each(|worker| found.merge(worker));
            level = next.into_inner().unwrap_or_else(PoisonError::into_inner);
            depth += u64::from(level.len() > 0);
        }
        Ok((found, depth))
    }

    /// Looks up a batch of links and queues those that its blocks have.
    fn follow(&self, steps: Vec<Step>, found: &mut Found, next: &Mutex<Queue>) -> Result<()> {
        let mut batch: Vec<(Step, CidSpan)> = Vec::with_capacity(steps.len());
        for step in steps {
            if let Ok(Some(span)) = read_cid(&step.cid) {
                batch.push((step, span));
            }
        }
        let key_of = |step: &Step, span: &CidSpan| -> Vec<u8> {
            step.cid.get(self.layout.key_start(span)..).unwrap_or_default().to_vec()
        };
        batch.sort_by_cached_key(|(step, span)| key_of(step, span));
        let keys: Vec<Vec<u8>> = batch.iter().map(|(step, span)| key_of(step, span)).collect();
        let values = self.reader.get_many(self.family, &keys, true)?;
        let (mut bytes, mut blocks) = (0, 0);
        for ((step, span), value) in batch.iter().zip(values) {
            match value? {
                Some(value) => {
                    let value = value.as_ref();
                    bytes += value.len() as u64;
                    blocks += 1;
                    self.links_of(step, span.codec, value, found, next)?;
                }
                None if span.hash == 0 => {
                    found.identity += 1;
                    let inside = step.cid.get(span.digest as usize..).unwrap_or_default();
                    self.links_of(step, span.codec, inside, found, next)?;
                }
                None => lock(&self.missing).note(step, self.options.allow_missing_below),
            }
        }
        found.reachable += blocks;
        found.bytes += bytes;
        self.progress.add(bytes, blocks);
        Ok(())
    }

    fn links_of(&self, step: &Step, codec: u64, block: &[u8], found: &mut Found, next: &Mutex<Queue>) -> Result<()> {
        let header = if codec == codec::DAG_CBOR { chain_header(block) } else { None };
        let epoch = header.map(|header| header.height).or(step.epoch);
        let mut parents_left = header.map_or(0, |header| header.parents);
        let last_tipset = self.options.tipsets.is_some_and(|tipsets| step.tipset + 1 >= tipsets);
        let mut outcome = Ok(());
        let scanned = links(codec, block, &mut |cid| {
            let to_parent = parents_left > 0;
            parents_left = parents_left.saturating_sub(1);
            if outcome.is_err() || (to_parent && last_tipset) {
                return;
            }
            outcome = self.meet(cid, found, |cid| {
                lock(next).push(&Step {
                    cid: cid.to_vec(),
                    parent: step.cid.clone(),
                    tipset: step.tipset + u32::from(to_parent),
                    epoch,
                })
            });
        });
        found.malformed += u64::from(scanned.is_err());
        outcome
    }

    /// Meets a link: `follow` is called when it leads to something that has not been met before.
    fn meet(&self, cid: &[u8], found: &mut Found, follow: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
        let Ok(Some(span)) = read_cid(cid) else {
            found.malformed += 1;
            return Ok(());
        };
        if span.len as usize != cid.len() {
            found.malformed += 1;
            return Ok(());
        }
        let key = cid.get(self.layout.key_start(&span)..).unwrap_or_default();
        match span.codec {
            // Their digests could be those of blocks, so they are remembered under their whole CID.
            codec::COMMITMENT_UNSEALED | codec::COMMITMENT_SEALED => {
                found.commitments += u64::from(self.visited.insert(!fingerprint(cid))?);
                Ok(())
            }
            _ if self.visited.insert(fingerprint(key))? => follow(cid),
            _ => Ok(()),
        }
    }

    /// The first records that were not met.
    fn list_unreachable(&self) -> Result<Vec<String>> {
        let mut listed = Vec::new();
        let mut scan = self.reader.scan(self.family, None, None)?;
        while let Some((key, _)) = scan.item() {
            if !self.visited.contains(fingerprint(key))? {
                listed.push(super::key_text(self.layout, key));
                if listed.len() >= LISTED {
                    return Ok(listed);
                }
            }
            scan.next();
        }
        scan.status()?;
        Ok(listed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
