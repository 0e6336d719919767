//! Batches, and the channels between the threads that gather them and those that write them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::sink::sst::SST_COPIES;
use crate::parallel;
use crate::preset::Resolved;
use crate::report::{MemtablePlan, Plan};
use crate::rocks::{Batch, Store, Writer};
use crate::schema::DEFAULT;
use crate::sort::LARGE;

/// Batches gathered ahead, for each writer.
const AHEAD: usize = 2;

/// The most batches there are: waiting, being written, being gathered.
pub(in crate::load) fn most_batches(writers: usize, gatherers: usize) -> usize {
    writers * (AHEAD + 1) + gatherers
}

/// Write buffers of a column family, at most, in the presets.
const WRITE_BUFFERS: u64 = 8;

/// The share of the budget that one block may have, as its reciprocal. If SSTs are built, the block is in memory beside the
/// copies that RocksDB makes. With memtables each reader may have one block, each batch the same block twice, each write
/// buffer once, and each thread of RocksDB that flushes or compacts reads and builds one.
pub(in crate::load) fn block_share(plan: &Plan) -> u64 {
    let of_memtables = |memtable: &MemtablePlan| {
        let batches = 2 * most_batches(memtable.writer_threads, plan.threads);
        (batches + plan.threads) as u64 + WRITE_BUFFERS + (1 + SST_COPIES) * parallel::cores() as u64
    };
    plan.memtable().map_or(1 + SST_COPIES, of_memtables)
}

/// The channels of full and of empty batches.
#[derive(Clone)]
pub(in crate::load) struct BatchChannel {
    full: Sender<Batch>,
    empty: Receiver<Batch>,
}

/// The batch of one thread, for all column families.
pub(in crate::load) type SharedBatch = Rc<RefCell<BatchBuilder>>;

pub(in crate::load) struct BatchBuilder {
    batch: Batch,
    /// Bytes and records at which a batch is written.
    limit: (u64, u64),
    channel: BatchChannel,
}

/// Runs `work`, whose threads gather batches, while the preset's writers write them. Returns the result of `work` and the
/// number of written batches. The first failure of each writer goes to `fail`.
pub(in crate::load) fn write_beside<T>(
    store: &Store,
    preset: &Resolved,
    gatherers: usize,
    fail: &(dyn Fn(Error) + Sync),
    work: impl FnOnce(BatchChannel) -> T,
) -> (T, u64) {
    let writers = preset.writer_threads();
    let (full, to_write) = bounded(writers * AHEAD);
    let (written, empty) = bounded(most_batches(writers, gatherers));
    let batches = AtomicU64::new(0);
    let result = std::thread::scope(|scope| {
        for _ in 0..writers {
            let (to_write, written, batches) = (to_write.clone(), written.clone(), &batches);
            let work = move || {
                let write_all = || {
                    let writer = store.writer(DEFAULT, &preset.write())?;
                    to_write.iter().try_for_each(|batch| {
                        write(&writer, batch, &written)?;
                        batches.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })
                };
                if let Err(error) = write_all() {
                    fail(error);
                    // No reader may wait.
                    to_write.iter().for_each(drop);
                }
            };
            parallel::start(scope, work).map_or_else(fail, drop);
        }
        // Without any writer a send must fail instead of waiting.
        drop(to_write);
        // The writers end when the last clone of the channel is gone.
        work(BatchChannel { full, empty })
    });
    (result, batches.into_inner())
}

/// Writes a batch, and returns it for the next records.
fn write(writer: &Writer<'_>, mut batch: Batch, written: &Sender<Batch>) -> Result<()> {
    writer.write(&batch)?;
    failpoint::reach("batch");
    if batch.bytes > LARGE {
        // A cleared batch keeps its memory.
        batch = Batch::default();
    }
    batch.clear();
    // There is always room: no more batches exist than it holds.
    let _ = written.try_send(batch);
    Ok(())
}

impl BatchBuilder {
    /// Sends its batches into `channel` when they reach the planned size.
    pub fn shared(channel: BatchChannel, plan: &Plan) -> SharedBatch {
        let limit = plan.memtable().map_or((u64::MAX, u64::MAX), |plan| (plan.batch_bytes, plan.batch_count));
        Rc::new(RefCell::new(Self { batch: Batch::default(), limit, channel }))
    }

    /// Adds a record. Blocks while the queue of the writers is full: thus RocksDB's back-pressure reaches the reader.
    pub fn put(&mut self, writer: &Writer<'_>, key: &[u8], value: &[u8]) {
        writer.put(&mut self.batch, key, value);
        if self.batch.bytes >= self.limit.0 || self.batch.records >= self.limit.1 {
            self.send();
        }
    }

    pub fn send_rest(&mut self) {
        if self.batch.records > 0 {
            self.send();
        }
    }

    fn send(&mut self) {
        let next = self.channel.empty.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        // Without writers the import has failed already, with its reason.
        let _ = self.channel.full.send(batch);
    }
}
