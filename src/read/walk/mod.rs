//! Follows links from the roots in waves (`frontier`): the chain of headers first, then everything below them, level by level. The
//! links of a wave are sorted by key (`sorted`), so that each data block is read once per wave.
//!
//! A Filecoin header gives the blocks below it an epoch, and its parents a position in the chain. This limits a walk to some
//! tipsets, and distinguishes intentionally omitted blocks from damage.

mod frontier;
mod sorted;

use std::path::PathBuf;

use derive_setters::Setters;
use parking_lot::Mutex;

use super::access::{BlockLocation, Location, Resources};
use super::header::chain_header;
use super::keys::{key_text, whole_cid};
use super::links::{codec, links};
use super::missing::{LISTED, MissingBlocks};
use super::steps::{MAX_LINK, StepRef};
use super::visited::Visited;
use crate::error::{Error, Result, StateKind};
use crate::hash::fingerprint::fingerprint;
use crate::os::watched_dir::WatchedDir;
use crate::parallel::for_each;
use crate::progress::{Observer, Phase, Progress, Silent};
use crate::report::record::roots;
use crate::report::{ImportReport, WALK_SCHEMA, WalkReport};
use crate::rocks::{Reader, ReaderOptions};
use crate::sort::key::KeyLayout;
use crate::source::car::RawCid;

use self::frontier::{Frontier, GatheredSteps, LinkQueue};
use self::sorted::{KeyedStep, SortedSteps};

/// Links per lookup.
const BATCH: usize = 512;

/// Most bytes of links that are sorted at once.
const MAX_PIECE: u64 = 1 << 30;

/// Minimum memory of a walk, in bytes.
const MIN_MEMORY: u64 = 8 << 20;

/// Options of a walk.
#[derive(Debug, Clone, Default, Setters, clap::Args)]
#[setters(strip_option)]
pub struct WalkOptions {
    /// The database.
    #[arg(skip)]
    #[setters(into)]
    pub(crate) db: PathBuf,
    /// Root to begin at, repeatable; the default is in BEDLOAD.json
    #[arg(long = "root", value_name = "CID")]
    pub(crate) roots: Vec<RawCid>,
    /// Follow the chain of headers over N tipsets only
    #[arg(long = "depth", value_name = "tipsets=N", value_parser = parse_depth)]
    pub(crate) tipsets: Option<u32>,
    /// Blocks named by Filecoin headers below this epoch may be missing
    #[arg(long, value_name = "EPOCH")]
    pub(crate) allow_missing_below: Option<u64>,
    /// Resources of the walk.
    #[command(flatten)]
    pub(crate) resources: Resources,
    /// Location of the blocks.
    #[command(flatten)]
    pub(crate) location: Location,
}

fn parse_depth(text: &str) -> std::result::Result<u32, String> {
    let count = |text: &str| text.parse().ok().filter(|&count: &u32| count > 0);
    let depth = text.strip_prefix("tipsets=").and_then(count);
    depth.ok_or_else(|| format!("write it as tipsets={}", count(text).unwrap_or(2000)))
}

/// Follows the links. Missing blocks are no error: the report lists them.
///
/// # Errors
/// [`Error::State`]: there is no database, or no such column family; [`Error::Usage`]: no root is known, or the memory is too small;
/// [`Error::Rocks`] or [`Error::Io`]: a block cannot be read; [`Error::Replaced`]; [`Error::Interrupted`].
pub fn walk(options: &WalkOptions, observer: &dyn Observer) -> Result<WalkReport> {
    let dir = WatchedDir::open(&options.db);
    let (report, seconds) = Progress::timed(observer, |progress| dir.guard(|| run(options, progress)))?;
    dir.check()?;
    Ok(WalkReport { seconds, ..report })
}

fn run(options: &WalkOptions, progress: &Progress<'_>) -> Result<WalkReport> {
    let record = ImportReport::load(&options.db)?;
    let memory = options.resources.memory_budget()?.max(MIN_MEMORY);
    let cache = usize::try_from(memory / 4).unwrap_or(usize::MAX);
    let reader =
        Reader::open(&options.db, &ReaderOptions { cache, open_files: -1, in_order: true, ..ReaderOptions::once() })?;
    let BlockLocation { family, layout, .. } = options.location.find(&options.db, record.as_ref(), Some(&reader))?;
    if layout == KeyLayout::Number {
        let reason = "contains a block log, whose blocks link only to the previous block";
        let hint = "bedload verify checks that each block follows the previous one";
        return Err(Error::state(options.db.clone(), StateKind::Mismatch, reason, hint));
    }
    if layout == KeyLayout::Any {
        let reason = "has records of a program, which have no links";
        let hint = "`bedload verify --against SOURCE` compares them; --column-family names the one of blocks";
        return Err(Error::state(options.db.clone(), StateKind::Mismatch, reason, hint));
    }
    let roots = roots(&options.roots, record.as_ref(), "walk", "name one with --root CID")?;
    let work_dir = options.resources.scratch_parent();
    let walk = Walk {
        options,
        reader: &reader,
        family: &family,
        layout,
        values: memory / 16 / options.resources.thread_count() as u64,
        visited: Visited::new(memory * 3 / 8, work_dir.clone()),
        missing: Mutex::new(MissingBlocks::new(record.as_ref())),
        progress,
    };
    let recorded = record.filter(|record| !record.into_existing);
    progress.begin(Phase::Walk, recorded.as_ref().map(|record| record.payload_bytes));
    // Three queues, the current wave, a piece of it, and its order, which is a fifth of that for usual CIDs.
    let piece = usize::try_from((memory / 16).min(MAX_PIECE)).unwrap_or(usize::MAX);
    let mut frontier = Frontier::new(piece, work_dir);
    let found = walk.waves(&roots, &mut frontier, piece)?;
    let mut unreachable = None;
    let mut first_unreachable = Vec::new();
    if options.tipsets.is_none() {
        let records = match recorded {
            Some(record) => record.blocks.written,
            // The walk has reported these blocks already.
            None => {
                let silent = Progress::new(&Silent);
                options.resources.scan(&reader, &reader.files()?, walk.family, &silent).content()?.0.records
            }
        };
        unreachable = Some(records.saturating_sub(found.reachable));
        if records > found.reachable {
            first_unreachable = walk.list_unreachable()?;
        }
    }
    let MissingBlocks { total, allowed, first, .. } = walk.missing.into_inner();
    Ok(WalkReport {
        schema: WALK_SCHEMA.into(),
        db: options.db.display().to_string(),
        roots: roots.iter().map(ToString::to_string).collect(),
        complete: total == allowed,
        tipsets: options.tipsets,
        missing: total,
        missing_allowed: allowed,
        unreachable,
        depth: frontier.depth(),
        first_missing: first,
        first_unreachable,
        ..found
    })
}

struct Walk<'a> {
    options: &'a WalkOptions,
    reader: &'a Reader,
    family: &'a str,
    layout: KeyLayout,
    /// Bytes of values that a thread holds at once.
    values: u64,
    visited: Visited,
    missing: Mutex<MissingBlocks>,
    progress: &'a Progress<'a>,
}

fn merge(found: &mut WalkReport, other: &WalkReport) {
    found.reachable += other.reachable;
    found.reachable_bytes += other.reachable_bytes;
    found.commitments += other.commitments;
    found.identity += other.identity;
    found.malformed += other.malformed;
}

impl Walk<'_> {
    /// Follows links wave by wave, each in pieces of `piece` bytes. Returns the counts.
    fn waves(&self, roots: &[RawCid], frontier: &mut Frontier, piece: usize) -> Result<WalkReport> {
        let (mut found, mut gathered) = (WalkReport::default(), GatheredSteps::default());
        for root in roots {
            let step = StepRef { cid: root.as_bytes(), parent: &[], tipset: 0, epoch: None };
            if self.mark_visited(step.cid, &mut found)? {
                gathered.push(LinkQueue::Chain, step);
            }
        }
        frontier.flush(&mut gathered)?;
        let resources = &self.options.resources;
        while let Some(mut wave) = frontier.wave() {
            while wave.len > 0 {
                let sorted = SortedSteps::new(wave.take_piece(piece)?, self.layout);
                let batches = sorted.len().div_ceil(BATCH);
                let workers = for_each(resources.thread_count(), batches, WalkReport::default, |found, batch| {
                    resources.stop.check(Error::interrupted_reading)?;
                    let batch: Vec<KeyedStep<'_>> = sorted.range(batch * BATCH..(batch + 1) * BATCH).collect();
                    self.follow(&batch, found, frontier)
                })?;
                workers.iter().for_each(|worker| merge(&mut found, worker));
            }
        }
        Ok(found)
    }

    /// Looks up a batch of links and queues the links of its blocks.
    fn follow(&self, batch: &[KeyedStep<'_>], found: &mut WalkReport, frontier: &Frontier) -> Result<()> {
        let keys: Vec<&[u8]> = batch.iter().map(|lookup| lookup.key).collect();
        let (reachable, bytes) = (found.reachable, found.reachable_bytes);
        let mut gathered = GatheredSteps::default();
        self.reader.visit_values(self.family, &keys, self.values, |index, value| {
            let KeyedStep { step, span, .. } = &batch[index];
            match value {
                Some(value) => {
                    let value = value.as_ref();
                    found.reachable += 1;
                    found.reachable_bytes += value.len() as u64;
                    self.links_of(*step, span.codec, value, found, (&mut gathered, frontier))?;
                }
                None if span.hash == 0 => {
                    found.identity += 1;
                    let inside = step.cid.get(span.digest as usize..).unwrap_or_default();
                    self.links_of(*step, span.codec, inside, found, (&mut gathered, frontier))?;
                }
                None => self.missing.lock().note(*step, self.options.allow_missing_below),
            }
            Ok(true)
        })?;
        frontier.flush(&mut gathered)?;
        self.progress.add(found.reachable_bytes - bytes, found.reachable - reachable);
        Ok(())
    }

    fn links_of(
        &self,
        step: StepRef<'_>,
        codec: u64,
        block: &[u8],
        found: &mut WalkReport,
        (gathered, frontier): (&mut GatheredSteps, &Frontier),
    ) -> Result<()> {
        let header = if codec == codec::DAG_CBOR { chain_header(block) } else { None };
        let epoch = header.map(|header| header.height).or(step.epoch);
        let mut parents_left = header.map_or(0, |header| header.parents);
        let last_tipset = self.options.tipsets.is_some_and(|tipsets| step.tipset + 1 >= tipsets);
        let may_be_missing = self.options.allow_missing_below.is_some_and(|below| epoch.is_some_and(|it| it < below));
        let below = if may_be_missing { LinkQueue::Lenient } else { LinkQueue::Strict };
        let mut outcome = Ok(());
        let scanned = links(codec, block, &mut |cid| {
            let to_parent = parents_left > 0;
            parents_left = parents_left.saturating_sub(1);
            if outcome.is_err() || (to_parent && last_tipset) {
                return;
            }
            match self.mark_visited(cid, found) {
                Ok(true) => {
                    let tipset = step.tipset + u32::from(to_parent);
                    let kind = if to_parent { LinkQueue::Chain } else { below };
                    gathered.push(kind, StepRef { cid, parent: step.cid, tipset, epoch });
                    if gathered.is_full() {
                        outcome = frontier.flush(gathered);
                    }
                }
                Ok(false) => {}
                Err(error) => outcome = Err(error),
            }
        });
        found.malformed += u64::from(scanned.is_err());
        outcome
    }

    /// Visits a link; true if it must be followed and was not visited before.
    fn mark_visited(&self, cid: &[u8], found: &mut WalkReport) -> Result<bool> {
        let Some(span) = whole_cid(cid).filter(|_| cid.len() <= MAX_LINK) else {
            found.malformed += 1;
            return Ok(false);
        };
        let key = cid.get(self.layout.key_start(&span)..).unwrap_or_default();
        match span.codec {
            // Identity digests could equal those of blocks, so the whole CID is recorded.
            codec::COMMITMENT_UNSEALED | codec::COMMITMENT_SEALED => {
                found.commitments += u64::from(self.visited.insert(!fingerprint(cid))?);
                Ok(false)
            }
            _ => self.visited.insert(fingerprint(key)),
        }
    }

    fn list_unreachable(&self) -> Result<Vec<String>> {
        let mut listed = Vec::new();
        let mut scan = self.reader.scan(self.family, None, None)?;
        while let Some((key, _)) = scan.item() {
            self.options.resources.stop.check(Error::interrupted_reading)?;
            if !self.visited.contains(fingerprint(key))? {
                listed.push(key_text(self.layout, key));
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
