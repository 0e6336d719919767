//! An import of a sample that touches no disk: what a processor does in a second, measured with the code that will do
//! it. The sample is made up, with the block sizes of mainnet, and lies in memory as a file does in the page cache.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::blocks::{Block, BlockReader};
use super::lock;
use super::options::ImportOptions;
use crate::error::{Error, Result};
use crate::generate::{self, Profile, Spec};
use crate::hash::{Checker, Claim};
use crate::parallel;
use crate::rocks::option_map::OptionMap;
use crate::rocks::{SstOptions, SstWriter};
use crate::sort::entries::{Entry, Heap};
use crate::sort::key::KeyLayout;
use crate::sort::router::Router;
use crate::source::car::chunks::{Chunk, Chunks, Limits};
use crate::source::car::{DEFAULT_MAX_BLOCK, NullPadding};
use crate::source::input::{self, InputOptions};

/// Bytes of one chunk, as an import with a usual budget takes them.
const CHUNK: usize = 2 << 20;

/// Bits of the digest that choose the partition: as many as an import of some GiB has.
const PARTITION_BITS: u32 = 6;

const LAYOUT: KeyLayout = KeyLayout::Cid;

/// A snapshot in memory.
pub(crate) struct Sample {
    file: File,
    bytes: u64,
}

/// How long a rehearsal took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Reading, checking and routing everything.
    pub read: Duration,
    /// Sorting and building SST files of it.
    pub build: Duration,
    /// Bytes of these files.
    pub built_bytes: u64,
}

impl Sample {
    /// Makes up about `bytes` of snapshot.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(bytes: u64) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("make up a sample in", "memory")(error);
        let memory = rustix::fs::memfd_create("bedload-sample", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = File::from(memory.map_err(|error| failed(error.into()))?);
        let made = generate::write(&Spec::new(Profile::Mainnet, bytes), &mut file).map_err(failed)?;
        Ok(Self { file, bytes: made.bytes })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn open(&self) -> Result<Chunks> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let input = input::open(&path, &InputOptions { threads: 1, memory: CHUNK as u64 })?;
        let limits = Limits {
            max_block: DEFAULT_MAX_BLOCK,
            null_padding: NullPadding::Error,
            fits: u64::MAX,
            budget: u64::MAX,
            chunk: CHUNK,
        };
        let (_, mut chunks) = Chunks::open(input, limits)?;
        chunks.map();
        Ok(chunks)
    }

    /// Imports it with `threads`, up to finished SST files with the options of `loading`.
    ///
    /// # Errors
    /// RocksDB refuses the options, or memory runs out.
    pub fn rehearse(&self, threads: usize, loading: &OptionMap, verify: bool) -> Result<Pace> {
        let options = ImportOptions { verify, ..ImportOptions::new("the sample", "memory") };
        let started = Instant::now();
        let mut chunks = self.open()?;
        let first = chunks.next(None)?;
        let sample = first.iter().flat_map(|chunk| {
            chunk.starts.iter().filter_map(|&start| {
                let Block { body, cid, .. } = Block::at(chunk, start)?;
                Some((body.get(..cid.len as usize)?, cid.digest as usize))
            })
        });
        let router = Router::learn(sample, PARTITION_BITS);
        let source = Mutex::new((first, chunks));
        let found = on_threads(threads, |_| {
            let mut reader = BlockReader::new(&options, None);
            let mut entries: Vec<Vec<Entry>> = vec![Vec::new(); router.partitions() as usize];
            let mut held = Vec::new();
            loop {
                let next = {
                    let (first, chunks) = &mut *lock(&source);
                    first.take().map_or_else(|| chunks.next(None), |chunk| Ok(Some(chunk)))
                };
                let Some(chunk) = next? else { return Ok((entries, held)) };
                reader.each(&chunk, |block| {
                    let Some(key) = block.body.get(..block.cid.len as usize) else { return Ok(()) };
                    let route = router.route(key, block.cid.digest as usize);
                    if let Some(entries) = entries.get_mut(route.partition as usize) {
                        entries.push(Entry::new(route.prefix, chunk.index, block.start));
                    }
                    Ok(())
                })?;
                held.push(chunk);
            }
        })?;
        let read = started.elapsed();

        let started = Instant::now();
        let mut heap = Heap::new(LAYOUT);
        let mut partitions: Vec<Vec<Entry>> = vec![Vec::new(); router.partitions() as usize];
        for (entries, held) in found {
            held.into_iter().for_each(|Chunk { index, bytes, .. }| heap.insert(index, bytes));
            partitions.iter_mut().zip(entries).for_each(|(all, mine)| all.extend(mine));
        }
        let partitions: Vec<Mutex<Vec<Entry>>> = partitions.into_iter().map(Mutex::new).collect();
        let sst = SstOptions::in_memory(loading)?;
        let next = AtomicUsize::new(0);
        let built = on_threads(threads, |_| {
            let mut bytes = 0;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(entries) = partitions.get(number) else { return Ok(bytes) };
                let mut entries = lock(entries);
                if entries.is_empty() {
                    continue;
                }
                heap.sort(&mut entries);
                let mut writer = SstWriter::create(&sst, PathBuf::from(format!("/{number}.sst")))?;
                let mut last: Option<&[u8]> = None;
                for record in heap.walk(&entries) {
                    // What is there twice is one record.
                    if last != Some(record.key()) {
                        writer.put(record.key(), record.value())?;
                    }
                    last = Some(record.key());
                }
                bytes += writer.size();
                writer.finish()?;
            }
        })?;
        Ok(Pace { read, build: started.elapsed(), built_bytes: built.into_iter().sum() })
    }

    /// Checks the hash of every block with `threads`, each all of them: the time that takes.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn check_hashes(&self, threads: usize) -> Result<Duration> {
        let mut chunks = self.open()?;
        let mut held = Vec::new();
        while let Some(chunk) = chunks.next(None)? {
            held.push(chunk);
        }
        let blocks = held.iter().flat_map(|chunk| chunk.starts.iter().filter_map(|&start| Block::at(chunk, start)));
        let claims: Vec<Claim<'_>> = blocks
            .filter_map(|block| {
                let (key, data) = block.body.split_at_checked(block.cid.len as usize)?;
                Some(Claim { code: block.cid.hash, digest: key.get(block.cid.digest as usize..)?, data })
            })
            .collect();
        let started = Instant::now();
        on_threads(threads, |_| {
            // They hold: they have just been made up.
            let _ = Checker::new().check(&claims);
            Ok(())
        })?;
        Ok(started.elapsed())
    }
}

/// Runs `work` on as many threads and gathers what they return.
pub(super) fn on_threads<T: Send>(threads: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let start = |number| parallel::start(scope, move || work(number));
        let handles: Vec<_> = (0..threads.max(1)).map(start).collect();
        let join = |handle: Result<std::thread::ScopedJoinHandle<'_, _>>| match handle?.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocks::option_map::Group;

    #[test]
    fn a_rehearsal_builds_everything_it_has_read() {
        let sample = Sample::new(4 << 20).expect("memory");
        let mut plain = OptionMap::default();
        plain.set(Group::Cf, "compression", "kNoCompression");
        for threads in [1, 2] {
            let pace = sample.rehearse(threads, &plain, true).expect("it runs");
            let share = pace.built_bytes as f64 / sample.bytes() as f64;
            assert!((0.7..1.3).contains(&share), "{share} of the sample came out with {threads} threads");
            assert!(pace.read > Duration::ZERO && pace.build > Duration::ZERO);
        }
        assert!(sample.check_hashes(2).expect("it runs") > Duration::ZERO);
    }
}
