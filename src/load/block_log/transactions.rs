//! TransactionLoader: the check of their merkle roots, and the family that finds them by their ids.
//!
//! Ids of transactions are hashes, so their first bits spread the records evenly over partitions. Each partition is a file
//! that is sorted alone:
//!
//! ```text
//! record: id (20 or 32 bytes) | block number, u32 big-endian | position in the block, u32 big-endian
//! ```
//!
//! Records of one id are in the order of the chain, and the first one is kept: an Antelope chain names a delayed transaction
//! when it is deferred and when it is executed. The records of a range that an interrupted run had begun are written a second
//! time, and equal records count once.

use std::collections::BTreeMap;

use parking_lot::{Mutex, RwLock};

use crate::blocks::chain::{self, Header, SteemBatch, TransactionOptions};
use crate::error::{Error, Result};
use crate::hash::{Content, ContentDigest, lanes};
use crate::load::built::FamilyDone;
use crate::load::context::Job;
use crate::load::options::ImportOptions;
use crate::load::sink::batches::{BatchBuilder, SharedBatch};
use crate::load::sink::{Sink, Sinks};
use crate::parallel::Pull;
use crate::report::PartitionPlan;
use crate::schema::{PLACE, TRANSACTIONS};
use crate::sort::{Borders, PartitionBuffers, PartitionExtent, PartitionGroup, Shard, Spill, slice_bits};
use crate::source::block_log::{Log, LogProblem, TransactionLookup};

/// Bytes of a record with the id of each family's length.
const SHORT: usize = 20 + PLACE;
const LONG: usize = 32 + PLACE;

/// Makes the error for a problem of the block that begins at this byte of the log.
pub(super) type ErrorAt<'a> = &'a dyn Fn(u64, LogProblem) -> Error;

pub(super) struct TransactionLoader<'a> {
    job: &'a Job<'a>,
    /// The index; `None` if transactions are only checked.
    index: Option<TransactionIndex<'a>>,
    lookup: TransactionLookup,
}

struct TransactionIndex<'a> {
    plan: &'a PartitionPlan,
    spill: Spill,
    record: usize,
    /// Held for writing while the lengths of the partitions are noted: no worker appends then.
    appending: RwLock<()>,
}

/// One thread's part, for one range.
pub(super) struct Finder<'a> {
    all: &'a TransactionLoader<'a>,
    /// Blocks that are not checked yet; `None` if one at a time is as fast.
    batch: Option<SteemBatch<BatchedBlock>>,
    pieces: Option<PartitionBuffers>,
    found: Content,
    unknown_operations: u64,
}

struct BatchedBlock {
    packed: bool,
    /// Its first byte in the log.
    offset: u64,
}

#[derive(Debug, Default)]
pub(super) struct RangeTransactions {
    pub transactions: Content,
    pub unknown_operations: u64,
    pub extents: Vec<(u32, PartitionExtent)>,
}

/// True if merkle roots of transactions are checked.
pub(super) fn checks_roots(options: &ImportOptions) -> bool {
    options.verify && !options.log.links_only
}

/// The checks of transactions that the options request.
pub(super) fn lookup(asked: &ImportOptions, input: &Log) -> TransactionLookup {
    let options = TransactionOptions {
        ids: asked.log.indexes.transactions,
        merkle: checks_roots(asked),
        skip_unknown: asked.log.skip_unknown_operations,
    };
    TransactionLookup { options, family: input.family(false), version: input.version() }
}

impl<'a> TransactionLoader<'a> {
    /// The work that the options request; `None` when transactions are neither indexed nor checked.
    pub fn new(job: &'a Job<'a>, input: &Log) -> Result<Option<Self>> {
        let log = &job.options.log;
        if !log.indexes.transactions && !checks_roots(job.options) {
            return Ok(None);
        }
        let index = match job.plan.log().and_then(|log| log.transactions.as_ref()) {
            None => None,
            Some(plan) => {
                let mut longest: BTreeMap<u32, PartitionExtent> = BTreeMap::new();
                for (partition, extent) in job.resumed.ranges.iter().flat_map(|range| &range.extents) {
                    let known = longest.entry(*partition).or_insert(*extent);
                    if known.bytes < extent.bytes {
                        *known = *extent;
                    }
                }
                longest.retain(|partition, _| !job.resumed.is_built(*partition));
                let extents: Vec<_> = longest.into_iter().collect();
                let spill = Spill::new(job.target.spill.clone(), 1 << plan.bits).resume(&extents, &[])?;
                Some(TransactionIndex {
                    plan,
                    spill,
                    record: input.family(false).id_len() + PLACE,
                    appending: RwLock::new(()),
                })
            }
        };
        Ok(Some(Self { job, index, lookup: lookup(job.options, input) }))
    }

    pub fn bytes(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.spill.extents().iter().map(|(_, extent)| extent.bytes).sum())
    }

    pub fn finder(&self) -> Finder<'_> {
        let pieces = self
            .index
            .as_ref()
            .map(|index| PartitionBuffers::new(index.spill.partitions(), index.plan.piece_bytes as usize));
        let batch = lanes::are_supported().then(SteemBatch::default);
        Finder { all: self, batch, pieces, found: Content::default(), unknown_operations: 0 }
    }

    /// Sorts every partition, `records` in all, and writes the records.
    pub fn build(&self, records: u64, sinks: &Sinks<'_>) -> Result<FamilyDone> {
        let Some(index) = &self.index else { return Ok(FamilyDone::default()) };
        let job = self.job;
        let bytes = records.saturating_mul(index.record as u64);
        let bits = slice_bits(bytes, job.plan.sst_target(bytes));
        let together = 1usize << index.plan.bits.saturating_sub(bits);
        let groups = index.spill.partitions() as usize / together;
        let done = Mutex::new(job.resumed.built.clone());
        let pull = Pull::new(0..groups);
        sinks.run(&|error| pull.fail(error), |channel| {
            pull.run(0..job.plan.threads.min(groups).max(1), |_| {
                let mut gathered = channel.clone().map(|channel| BatchBuilder::shared(channel, job.plan));
                pull.each(
                    &mut gathered,
                    |groups, _| Ok(groups.next()),
                    |gathered, group, _| {
                        let first = (group * together) as u32;
                        if !job.resumed.is_built(first) {
                            let borders = Borders::within(&[], Shard::default(), (first, index.plan.bits), bits);
                            let group = PartitionGroup { partitions: first..first + together as u32, borders };
                            let built = self.build_group(index, &group, sinks, gathered.as_ref())?;
                            done.lock().add(&built);
                        }
                        Ok(())
                    },
                );
            });
        });
        pull.finish()?;
        Ok(done.into_inner())
    }

    fn build_group(
        &self,
        index: &TransactionIndex<'_>,
        group: &PartitionGroup,
        sinks: &Sinks<'_>,
        gathered: Option<&SharedBatch>,
    ) -> Result<FamilyDone> {
        let job = self.job;
        let PartitionGroup { partitions, borders } = group;
        let mut sink = sinks.sink(TRANSACTIONS, borders.clone(), gathered)?;
        let memory = usize::try_from(index.plan.sort_bytes).unwrap_or(usize::MAX);
        let mut before = Content::default();
        for partition in partitions.clone() {
            job.options.check_cancelled()?;
            let extent = index.spill.extent(partition);
            let again = match index.record {
                SHORT => index.put_sorted::<{ SHORT / 4 }>(partition, memory, &mut sink)?,
                _ => index.put_sorted::<{ LONG / 4 }>(partition, memory, &mut sink)?,
            };
            job.progress.add(extent.bytes, extent.blocks);
            let all = sink.tally().unwrap_or_default().read();
            let used = all.without(before).and(again);
            if used != extent.content() {
                return Err(index.spill.damaged_error(partition, used));
            }
            before = all;
        }
        let done = sink.finish()?;
        if sinks.are_durable() {
            job.note_built(partitions, TRANSACTIONS, &done)?;
        }
        partitions.clone().try_for_each(|partition| index.spill.delete(partition))?;
        Ok(done)
    }
}

impl TransactionIndex<'_> {
    fn partition(&self, record: &[u8]) -> u32 {
        let prefix = record.first_chunk().map_or(0, |prefix| u64::from_be_bytes(*prefix));
        if self.plan.bits == 0 { 0 } else { (prefix >> (64 - self.plan.bits)) as u32 }
    }

    fn digest(&self, record: &[u8]) -> ContentDigest {
        ContentDigest::of_section(record, self.record - PLACE)
    }

    /// Appends the first record of each id of a partition, in order. Returns those that an interrupted run had left and that were
    /// written again. A record is sorted as `WORDS` numbers, which is faster than as bytes.
    fn put_sorted<const WORDS: usize>(&self, partition: u32, memory: usize, sink: &mut Sink<'_>) -> Result<Content> {
        let key_len = self.record - PLACE;
        let mut again = Content::default();
        let (mut previous, mut kept) = (None, [[0; 4]; WORDS]);
        self.spill.for_each_sorted(
            partition,
            key_len,
            memory,
            |words: [u32; WORDS]| words.map(u32::from_be),
            |words| {
                let bytes = words.map(u32::to_be_bytes);
                let (record, before) = (bytes.as_flattened(), kept.as_flattened());
                let is_first = previous.is_none();
                if previous.replace(words) == Some(words) {
                    again.add(self.digest(record));
                } else if !is_first && record.get(..key_len) == before.get(..key_len) {
                    sink.repeated(ContentDigest::of_section(record, key_len));
                } else {
                    sink.put(record, key_len)?;
                    kept = bytes;
                }
                Ok(())
            },
        )?;
        Ok(again)
    }
}

impl Finder<'_> {
    /// Checks and notes the transactions of one block that begins at `offset`, or defers that to the next
    /// [`flush`](Self::flush).
    pub fn take(&mut self, block: &[u8], header: &Header, packed: bool, offset: u64, bad: ErrorAt<'_>) -> Result<()> {
        let lookup = &self.all.lookup;
        let known = BatchedBlock { packed, offset };
        if let Some(batch) = &mut self.batch
            && lookup.add_to(batch, block, header, packed, known)
        {
            return if batch.is_full() { self.flush(bad) } else { Ok(()) };
        }
        self.flush(bad)?;
        let found = lookup.of_block(block, header, packed);
        let problem = |problem| bad(offset, LogProblem::Block { number: header.number, problem });
        self.note(header, &found.map_err(problem)?)
    }

    /// Checks and notes deferred transactions. The caller does so before it reports a fault of a later block.
    pub fn flush(&mut self, bad: ErrorAt<'_>) -> Result<()> {
        let lookup = &self.all.lookup;
        let Some(mut batch) = self.batch.take() else { return Ok(()) };
        batch.check(&lookup.options, |BatchedBlock { packed, offset }, header, block, found| {
            // The batch reports no reason, and does not know the other layout.
            let found = found.map_or_else(|| lookup.of_block(block, header, *packed), Ok);
            let problem = |problem| bad(*offset, LogProblem::Block { number: header.number, problem });
            self.note(header, &found.map_err(problem)?)
        })?;
        self.batch = Some(batch);
        Ok(())
    }

    fn note(&mut self, header: &Header, found: &chain::BlockTransactions) -> Result<()> {
        let all = self.all;
        self.unknown_operations += found.unknown_operations;
        let (Some(index), Some(pieces)) = (&all.index, &mut self.pieces) else { return Ok(()) };
        if found.ids.is_empty() {
            return Ok(());
        }
        let _appending = index.appending.read();
        let mut record = Vec::with_capacity(index.record);
        for (position, id) in (0u32..).zip(&found.ids) {
            record.clear();
            record.extend_from_slice(id.as_bytes());
            record.extend_from_slice(&header.number.to_be_bytes());
            record.extend_from_slice(&position.to_be_bytes());
            let digest = index.digest(&record);
            self.found.add(digest);
            pieces.add(&index.spill, index.partition(&record), &record, digest)?;
        }
        Ok(())
    }

    /// Appends the rest of the range to the partitions, and syncs them if a later run can use it.
    ///
    /// # Panics
    /// If a block has not been checked.
    pub fn finish(mut self) -> Result<RangeTransactions> {
        assert!(self.batch.as_ref().is_none_or(SteemBatch::is_empty), "the caller flushes");
        let mut extents = Vec::new();
        if let (Some(index), Some(pieces)) = (&self.all.index, &mut self.pieces) {
            {
                let _appending = index.appending.read();
                pieces.flush(&index.spill)?;
            }
            if self.all.job.plan.memtable().is_none() {
                let none_appends = index.appending.write();
                extents = index.spill.extents();
                drop(none_appends);
                index.spill.sync(&extents)?;
            }
        }
        let Self { found: transactions, unknown_operations, .. } = self;
        Ok(RangeTransactions { transactions, unknown_operations, extents })
    }
}
