//! Building SST files: partitions in the order of their keys, each sorted on its own, on all threads.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::options::ImportOptions;
use super::plan::Plan;
use super::read::Held;
use crate::digest::ContentDigest;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::rocks::{SstOptions, SstWriter};
use crate::sort::entries::{Entry, Heap, Unsorted};
use crate::sort::key::Record;
use crate::sort::router::Router;
use crate::sort::runs::Runs;
use crate::sort::spill::Spill;
use crate::source::car::chunks::ChunkBytes;
use crate::source::car::{CarProblem, Step, next_section};

/// Records between two bumps of the progress counters.
const BATCH: u64 = 256;

/// What has been built.
#[derive(Debug, Default)]
pub(super) struct Built {
    /// The finished files, each synced.
    pub files: Vec<PathBuf>,
    /// Records in them.
    pub records: u64,
    /// Blocks that were there more than once.
    pub duplicates: u64,
    /// Bytes of the records' values.
    pub payload: u64,
    pub digest: ContentDigest,
}

/// Builds the SSTs of everything held, into `dir`.
pub(super) fn build(
    held: &Held,
    router: &Router,
    options: &ImportOptions,
    plan: &Plan,
    sst: &SstOptions,
    dir: &Path,
    progress: &Progress<'_>,
) -> Result<Built> {
    let jobs = jobs(held, plan);
    let builder = Builder {
        options,
        plan,
        sst,
        dir,
        progress,
        next_job: AtomicUsize::new(0),
        next_file: AtomicU32::new(0),
        stopped: AtomicBool::new(false),
        router,
    };
    let built = Mutex::new(Ok(Built::default()));
    std::thread::scope(|scope| {
        for _ in 0..plan.threads {
            scope.spawn(|| {
                let outcome = builder.work(&jobs, held);
                if outcome.is_err() {
                    builder.stopped.store(true, Ordering::Relaxed);
                }
                let mut all = built.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match (&mut *all, outcome) {
                    (Ok(all), Ok(mine)) => all.add(mine),
                    (all @ Ok(_), Err(error)) => *all = Err(error),
                    (Err(_), _) => {}
                }
            });
        }
    });
    built.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The size of SSTs that is aimed at for `total` bytes: small enough that no thread is left alone with the last one for
/// long.
pub(super) fn sst_target(total: u64, plan: &Plan) -> u64 {
    (total / (plan.threads as u64 * 8)).max(1 << 20).min(plan.sst_bytes)
}

/// Groups neighbouring partitions into jobs of about the size of an SST.
fn jobs(held: &Held, plan: &Plan) -> Vec<Range<u32>> {
    let sizes: Vec<u64> = match held {
        Held::Memory { entries, bytes, .. } => {
            let counts: Vec<u64> = entries.iter().map(Unsorted::len).collect();
            let mean = bytes / counts.iter().sum::<u64>().max(1);
            counts.iter().map(|count| count * mean.max(1)).collect()
        }
        Held::Spilled(spill) => (0..spill.partitions()).map(|partition| spill.extent(partition).bytes).collect(),
    };
    let total: u64 = sizes.iter().sum();
    let target = sst_target(total, plan);
    let mut jobs = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (partition, size) in (0u32..).zip(&sizes) {
        if bytes > 0 && bytes + size > target {
            jobs.push(start..partition);
            start = partition;
            bytes = 0;
        }
        bytes += size;
    }
    if bytes > 0 {
        jobs.push(start..sizes.len() as u32);
    }
    jobs
}

struct Builder<'a> {
    options: &'a ImportOptions,
    plan: &'a Plan,
    sst: &'a SstOptions,
    dir: &'a Path,
    progress: &'a Progress<'a>,
    next_job: AtomicUsize,
    next_file: AtomicU32,
    stopped: AtomicBool,
    router: &'a Router,
}

impl Builder<'_> {
    fn work(&self, jobs: &[Range<u32>], held: &Held) -> Result<Built> {
        let mut built = Built::default();
        while let Some(job) = jobs.get(self.next_job.fetch_add(1, Ordering::Relaxed)) {
            let mut output = Output::new(self);
            for partition in job.clone() {
                if self.stopped.load(Ordering::Relaxed) || self.options.stop.asked() {
                    return Err(super::interrupted());
                }
                match held {
                    Held::Memory { heap, entries, .. } => {
                        let mut entries = entries[partition as usize].take();
                        output.sorted(heap, &mut entries)?;
                    }
                    Held::Spilled(spill) => self.spilled(spill, partition, &mut output)?,
                }
            }
            built.add(output.finish()?);
            if let Held::Spilled(spill) = held {
                // Their blocks stand in synced files now; the disk never holds both for long.
                job.clone().try_for_each(|partition| spill.delete(partition))?;
            }
        }
        Ok(built)
    }

    fn spilled(&self, spill: &Spill, partition: u32, output: &mut Output<'_>) -> Result<()> {
        let router = self.router;
        let extent = spill.extent(partition);
        if extent.bytes == 0 {
            return Ok(());
        }
        let memory = extent.bytes + extent.blocks * size_of::<Entry>() as u64;
        let layout = self.options.key;
        if memory > self.plan.sort_bytes || extent.bytes > u64::from(u32::MAX) {
            let memory = usize::try_from(self.plan.sort_bytes).unwrap_or(usize::MAX);
            return Runs { spill, partition, layout, memory }.sorted(|record| output.merged(record));
        }
        let buffer = spill.read_all(partition)?;
        let mut entries = Vec::with_capacity(usize::try_from(extent.blocks).unwrap_or_default());
        let mut at = 0;
        while let Ok(Step::Section(section)) = next_section(&buffer[..extent.bytes as usize], at, u64::MAX) {
            let body = &buffer[section.cid_start..section.end];
            let key = Record::new(body, &section.cid, layout).map_or(&[][..], |record| record.key());
            let digest_at = section.cid.digest as usize - layout.key_start(&section.cid);
            entries.push(Entry::new(router.route(key, digest_at).prefix, 0, at as u32));
            at = section.end;
        }
        let mut heap = Heap::new(layout);
        heap.insert(0, ChunkBytes::Read { buffer, len: extent.bytes as usize });
        output.sorted(&heap, &mut entries)
    }
}

/// The SST files of one job, and what goes into them.
struct Output<'a> {
    builder: &'a Builder<'a>,
    writer: Option<SstWriter<'a>>,
    /// Bytes in the file in hand.
    written: u64,
    built: Built,
    /// Bytes and records not yet told to the progress counters.
    untold: (u64, u64),
    /// The last record of a merge: its bytes and its key's length.
    last: Option<(Vec<u8>, usize)>,
}

impl<'a> Output<'a> {
    fn new(builder: &'a Builder<'a>) -> Self {
        Self { builder, writer: None, written: 0, built: Built::default(), untold: (0, 0), last: None }
    }

    /// Sorts a partition that is in memory and appends its records.
    fn sorted(&mut self, heap: &Heap, entries: &mut [Entry]) -> Result<()> {
        heap.sort(entries);
        let mut previous: Option<Record<'_>> = None;
        for record in heap.walk(entries) {
            if let Some(previous) = previous
                && previous.key() == record.key()
            {
                self.duplicate(previous, record)?;
                continue;
            }
            self.put(record)?;
            previous = Some(record);
        }
        heap.check()
    }

    /// Appends a record of a merge, whose memory is gone when the next one comes.
    fn merged(&mut self, record: Record<'_>) -> Result<()> {
        if let Some((bytes, key_len)) = self.last.take() {
            let previous = Record::from_parts(&bytes, key_len);
            if previous.key() == record.key() {
                self.duplicate(previous, record)?;
                self.last = Some((bytes, key_len));
                return Ok(());
            }
        }
        self.put(record)?;
        let (bytes, key_len) = record.parts();
        self.last = Some((bytes.to_vec(), key_len));
        Ok(())
    }

    /// The same key again: the same block is counted, another one is corruption.
    fn duplicate(&mut self, first: Record<'_>, second: Record<'_>) -> Result<()> {
        self.tell(second);
        if first.value() == second.value() {
            self.built.duplicates += 1;
            return Ok(());
        }
        let problem = CarProblem::Conflict { key: show_key(first.key()) };
        Err(Error::bad_input(&self.builder.options.source, None, problem))
    }

    fn put(&mut self, record: Record<'_>) -> Result<()> {
        let (bytes, key_len) = record.parts();
        if self.written > 0 && self.written + bytes.len() as u64 > self.builder.plan.sst_bytes {
            self.close()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let file = self.builder.next_file.fetch_add(1, Ordering::Relaxed);
                let path = self.builder.dir.join(format!("{file:06}.sst"));
                self.writer.insert(SstWriter::create(self.builder.sst, path)?)
            }
        };
        writer.put(record.key(), record.value())?;
        self.built.digest.add_section(bytes, key_len);
        self.built.records += 1;
        self.built.payload += (bytes.len() - key_len) as u64;
        self.written += bytes.len() as u64;
        self.tell(record);
        Ok(())
    }

    fn tell(&mut self, record: Record<'_>) {
        self.untold.0 += record.value().len() as u64;
        self.untold.1 += 1;
        if self.untold.1 >= BATCH {
            let (bytes, records) = std::mem::take(&mut self.untold);
            self.builder.progress.add(bytes, records);
        }
    }

    fn close(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.built.files.push(writer.finish()?);
        }
        self.written = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<Built> {
        self.close()?;
        self.builder.progress.add(self.untold.0, self.untold.1);
        Ok(self.built)
    }
}

impl Built {
    fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.records += other.records;
        self.duplicates += other.duplicates;
        self.payload += other.payload;
        self.digest.merge(other.digest);
    }
}

/// A key for people: as a CID where it is one, else as hex.
pub(super) fn show_key(key: &[u8]) -> String {
    cid::Cid::try_from(key)
        .map_or_else(|_| key.iter().map(|byte| format!("{byte:02x}")).collect(), |cid| cid.to_string())
}
