//! The database at work after its import, as a node has it: reads, and batches of new blocks with the WAL.
//!
//! This runs in a process of its own (`bedload bench-read --node`), last of all, since it changes the database, which is
//! removed afterwards. Which operation is which, and on which key, follows from the seed alone.

use std::path::Path;
use std::time::{Duration, Instant};

use super::keys;
use super::reads::latency;
use crate::error::Result;
use crate::generate::Noise;
use crate::os::resources;
use crate::report::bench::NodeFigures;
use crate::rocks::settings::WriteSettings;
use crate::rocks::{Batch, Meter, Reader, Writer};

/// The most operations that can be asked for: the time of each is kept until the end.
pub const MAX_NODE_OPS: u64 = 10_000_000;

/// One of so many operations writes a block, the others read one.
const WRITE_EVERY: u64 = 5;

/// Blocks in one batch, unless their bytes are many.
const BATCH: u64 = 16;

/// Bytes of blocks after which a batch is written.
const BATCH_BYTES: u64 = 4 << 20;

/// Values of the database that new blocks have, at most so many bytes in all.
const VALUES: usize = 512;
const VALUES_BYTES: usize = 16 << 20;

/// How long the operations may take.
const MAX_TIME: Duration = Duration::from_secs(60);

/// With the WAL, which the system writes to the disk when it sees fit.
const LOGGED: WriteSettings =
    WriteSettings { disable_wal: false, sync: false, low_pri: false, memtable_insert_hint_per_batch: false };

/// Bytes at the end of a key that are a digest.
const DIGEST: usize = 32;

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct NodeOptions<'a> {
    /// The database; it is written to.
    pub db: &'a Path,
    /// Keys that are there, one a line in hex, as [`keys::sample`] writes them.
    pub keys: &'a Path,
    /// Reads and new blocks together.
    pub operations: u64,
    /// What the choice of operations begins with.
    pub seed: u64,
    /// The block cache in bytes.
    pub block_cache: u64,
}

/// Runs the workload.
///
/// # Errors
/// [`Error::State`](crate::Error::State): there is no such column family; [`Error::Rocks`](crate::Error::Rocks) or
/// [`Error::Io`](crate::Error::Io): the database cannot be read or written, or the keys not read;
/// [`Error::Usage`](crate::Error::Usage): a key is not in hex.
pub fn work(options: &NodeOptions<'_>) -> Result<NodeFigures> {
    let family = keys::family_of(options.db)?;
    let known = keys::load(options.keys)?;
    let cache = usize::try_from(options.block_cache).unwrap_or(usize::MAX);
    let meter = Meter::default();
    let reader = Reader::open_as_writing_node(options.db, cache, &meter)?;
    let values = values(&reader, &family, &known)?;
    let mut fresh = NewKeys { noise: Noise::new(options.seed, 1), last: last_key(&reader, &family)? };
    let mut noise = Noise::new(options.seed, 0);
    let mut writes =
        Writes { writer: reader.writer(&family, &LOGGED)?, batch: Batch::default(), done: Done::default() };
    let (mut operations, mut reads) = (0, Vec::new());
    let begin = Instant::now();
    while operations < options.operations && begin.elapsed() < MAX_TIME {
        let is_write = noise.below(WRITE_EVERY) == 0;
        let (Some(key), Some(value)) = (pick(&known, &mut noise), pick(&values, &mut noise)) else { break };
        operations += 1;
        if is_write {
            writes.put(&fresh.next(key), value)?;
        } else {
            let start = Instant::now();
            std::hint::black_box(reader.size_of(&family, key)?);
            reads.push(nanoseconds(start));
        }
    }
    writes.flush()?;
    let seconds = begin.elapsed().as_secs_f64();
    let (metered, done) = (meter.read(), writes.done);
    Ok(NodeFigures {
        operations,
        complete: operations == options.operations,
        seconds,
        per_second: (operations > 0 && seconds > 0.0).then(|| operations as f64 / seconds),
        read: latency(reads),
        write: latency(done.times),
        new_blocks: done.blocks,
        new_bytes: done.bytes,
        stalls: metered.stalls,
        stall_seconds: metered.stalled.as_secs_f64(),
        flushes: metered.flushes,
        compactions: metered.compactions,
        peak_rss_bytes: resources::peak_rss(),
    })
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// New blocks on their way into the database.
struct Writes<'a> {
    writer: Writer<'a>,
    batch: Batch,
    done: Done,
}

/// What has been written, and how long each batch took.
#[derive(Default)]
struct Done {
    times: Vec<u64>,
    blocks: u64,
    bytes: u64,
}

impl Writes<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer.put(&mut self.batch, key, value);
        let is_full = self.batch.records() >= BATCH || self.batch.bytes() >= BATCH_BYTES;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.batch.records() > 0 {
            let start = Instant::now();
            self.writer.write(&self.batch)?;
            self.done.times.push(nanoseconds(start));
            (self.done.blocks, self.done.bytes) =
                (self.done.blocks + self.batch.records(), self.done.bytes + self.batch.bytes());
            self.batch.clear();
        }
        Ok(())
    }
}

fn pick<'a, T>(all: &'a [T], noise: &mut Noise) -> Option<&'a T> {
    let number = noise.next();
    all.get(usize::try_from(number % (all.len() as u64).max(1)).ok()?)
}

/// Values of the first of the known keys: these are in random order.
fn values(reader: &Reader, family: &str, known: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let (mut values, mut bytes) = (Vec::new(), 0);
    for key in known.iter().take(VALUES) {
        for found in reader.get_many(family, &[key], false)? {
            values.extend(found?.map(|value| value.as_ref().to_vec()));
        }
        bytes += values.last().map_or(0, Vec::len);
        if bytes > VALUES_BYTES {
            break;
        }
    }
    Ok(values)
}

fn last_key(reader: &Reader, family: &str) -> Result<Vec<u8>> {
    let mut scan = reader.pick(family)?;
    scan.seek_to_last();
    let last = scan.item().map(|(key, _)| key.to_vec()).unwrap_or_default();
    scan.status()?;
    Ok(last)
}

/// Keys of new blocks.
struct NewKeys {
    noise: Noise,
    /// The highest key so far.
    last: Vec<u8>,
}

impl NewKeys {
    /// A key like `known`, of a block that is not there: another digest, or the number after the last one.
    fn next(&mut self, known: &[u8]) -> Vec<u8> {
        if known.len() < keys::SHORT {
            for byte in self.last.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
            return self.last.clone();
        }
        let mut key = known.to_vec();
        let digest = key.len().saturating_sub(DIGEST);
        for piece in key.iter_mut().skip(digest) {
            *piece = self.noise.below(256) as u8;
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_are_like_those_that_are_there() {
        let new = || NewKeys { noise: Noise::new(1, 1), last: vec![0, 0, 1, 255] };
        let mut keys = new();
        assert_eq!((keys.next(&[0, 0, 0, 5]), keys.next(&[0, 0, 0, 5])), (vec![0, 0, 2, 0], vec![0, 0, 2, 1]));
        let cid: Vec<u8> = (0..36).collect();
        let (one, two) = (keys.next(&cid), keys.next(&cid));
        assert_eq!((one.len(), &one[..4]), (36, &cid[..4]), "its codec and hash function");
        assert!(one != two && one != cid);
        assert_eq!(new().next(&cid), one, "the seed decides");
    }
}
