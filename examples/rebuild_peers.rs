//! Measures `bedload import` of a RocksDB database beside other ways to rebuild it, in rounds whose order rotates, and prints a
//! table of medians, ranges and ratios to `bedload import`.
//!
//! ```text
//! BEDLOAD=target/release/bedload cargo run --release --example rebuild_peers -- DIR [ROUNDS] [MIB OF LARGE RECORDS] [MIB OF SMALL ONES]
//! ```
//!
//! The large records have random keys of 32 bytes and values of 1,200 bytes; half of the writes overwrote a key. The small ones have
//! keys of 32 bytes and values of 8. All options are RocksDB's defaults, without compression. Every clock includes the sync of
//! all that was written.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rust_rocksdb::{
    CompactOptions, DB, DBCompressionType, FlushOptions, IteratorMode, Options, ReadOptions, SstFileWriter, WriteBatch,
    WriteOptions,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Rebuilds the database, and returns the seconds that it took.
type Way<'a> = &'a dyn Fn(&Places) -> Outcome<f64>;

/// Bytes of one batch.
const BATCH: usize = 1 << 20;

/// Bytes that a scan reads ahead.
const AHEAD: usize = 2 << 20;

const PAGE: usize = 4096;

struct Places {
    old: PathBuf,
    work: PathBuf,
    bedload: PathBuf,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = PathBuf::from(arguments.first().ok_or("name a directory")?);
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (rounds, large, small) = (number(1, 7)?, number(2, 4096)?, number(3, 1024)?);
    let bedload = std::env::var_os("BEDLOAD").map_or_else(|| "target/release/bedload".into(), PathBuf::from);
    for (name, mib, value, repeats) in [("large", large, 1200, 2), ("small", small, 8, 1)] {
        if mib == 0 {
            continue;
        }
        let places =
            Places { old: dir.join(format!("{name}-{mib}MiB")), work: dir.join("work"), bedload: bedload.clone() };
        if !places.old.exists() {
            make(&places.old, (mib << 20) / (32 + value), value as usize, repeats)?;
        }
        measure(&places, rounds, name)?;
    }
    Ok(())
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.increase_parallelism(2);
    options
}

/// Writes `records` records, so that each key is written `repeats` times.
fn make(path: &Path, records: u64, len: usize, repeats: u64) -> Outcome<()> {
    let db = DB::open(&options(), path)?;
    let mut writing = WriteOptions::default();
    writing.disable_wal(true);
    let (mut batch, mut noise) = (WriteBatch::default(), 1u64);
    let mut word = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise
    };
    let mut value = vec![0; len.next_multiple_of(8)];
    for number in 0..records {
        let mut key = [0; 32];
        let mut seed = (number % (records / repeats)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for part in key.chunks_exact_mut(8) {
            seed = (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            part.copy_from_slice(&(seed ^ (seed >> 32)).to_be_bytes());
        }
        value.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&word().to_le_bytes()));
        batch.put(key, value.get(..len).unwrap_or_default());
        if batch.size_in_bytes() > BATCH {
            db.write_opt(&std::mem::take(&mut batch), &writing)?;
        }
    }
    db.write_opt(&batch, &writing)?;
    db.flush()?;
    Ok(())
}

fn measure(places: &Places, rounds: u64, name: &str) -> Outcome<()> {
    let ways: [(&str, Way<'_>); 7] = [
        ("cp -r and sync", &copy),
        ("bedload import", &|places| import(places, &[])),
        ("bedload import, 256 MiB of memory", &|places| import(places, &["--memory", "256MiB"])),
        ("CompactRange on all cores", &|places| compact(places, 2)),
        ("CompactRange on one core", &|places| compact(places, 1)),
        ("iterator and WriteBatch", &batches),
        ("iterators and SstFileWriter on two cores", &tables),
    ];
    let mut seconds = vec![Vec::new(); ways.len()];
    for round in 0..rounds as usize {
        for at in (0..ways.len()).map(|at| (at + round) % ways.len()) {
            let _ = std::fs::remove_dir_all(&places.work);
            sync(&places.old)?;
            let took = ways[at].1(places)?;
            eprintln!("{name}, round {}: {}: {took:.2} s", round + 1, ways[at].0);
            seconds[at].push(took);
        }
    }
    let _ = std::fs::remove_dir_all(&places.work);
    println!("| {name} records | seconds | ratio to `bedload import` |\n|---|--:|--:|");
    for (own, (name, _)) in seconds.iter().zip(ways) {
        let ratios: Vec<f64> = own.iter().zip(&seconds[1]).map(|(own, import)| own / import).collect();
        println!("| {name} | {} | {} |", spread(own), spread(&ratios));
    }
    Ok(())
}

fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (sorted.first().copied().unwrap_or_default(), sorted.last().copied().unwrap_or_default());
    format!("{:.2} ({first:.2}-{last:.2})", sorted.get(sorted.len() / 2).copied().unwrap_or_default())
}

fn run(command: &mut Command) -> Outcome<()> {
    if command.status()?.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
}

fn sync(path: &Path) -> Outcome<()> {
    run(Command::new("sync").arg("-f").arg(path))
}

/// Reads all files, so that each way finds them in the page cache. Returns their bytes.
fn read_all(dir: &Path) -> Outcome<u64> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        Ok(std::io::copy(&mut std::fs::File::open(entry?.path())?, &mut std::io::sink())?)
    };
    dir.read_dir()?.map(read).sum()
}

/// Touches and frees memory. A hypervisor that takes free memory back makes the first touch of a page slow, for `cp` as well.
fn touch_memory(bytes: u64) -> Outcome<()> {
    let mut memory = vec![0_u8; usize::try_from(bytes)?];
    memory.iter_mut().step_by(PAGE).for_each(|page| *page = 1);
    std::hint::black_box(&memory);
    Ok(())
}

fn timed(places: &Places, work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    touch_memory(2 * read_all(&places.old)?)?;
    let start = Instant::now();
    work()?;
    sync(&places.work)?;
    Ok(start.elapsed().as_secs_f64())
}

fn copy(places: &Places) -> Outcome<f64> {
    timed(places, || run(Command::new("cp").args(["-r", "--reflink=never"]).args([&places.old, &places.work])))
}

fn import(places: &Places, more: &[&str]) -> Outcome<f64> {
    let mut command = Command::new(&places.bedload);
    command.args(["import", "--quiet", "--progress", "off"]).arg(&places.old).arg("--db").arg(&places.work).args(more);
    command.stdout(Stdio::null());
    timed(places, || run(&mut command))
}

/// Compacts a copy, which is made before the clock starts.
fn compact(places: &Places, subcompactions: u32) -> Outcome<f64> {
    copy(places)?;
    timed(places, || {
        let mut own = options();
        own.set_max_subcompactions(subcompactions);
        let db = DB::open(&own, &places.work)?;
        let mut how = CompactOptions::default();
        how.set_bottommost_level_compaction(rust_rocksdb::BottommostLevelCompaction::Force);
        db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &how);
        Ok(())
    })
}

fn batches(places: &Places) -> Outcome<f64> {
    timed(places, || {
        let old = DB::open_for_read_only(&options(), &places.old, false)?;
        let new = DB::open(&options(), &places.work)?;
        let (mut reading, mut writing) = (ReadOptions::default(), WriteOptions::default());
        reading.set_readahead_size(AHEAD);
        reading.fill_cache(false);
        writing.disable_wal(true);
        let mut batch = WriteBatch::default();
        for record in old.iterator_opt(IteratorMode::Start, reading) {
            let (key, value) = record?;
            batch.put(key, value);
            if batch.size_in_bytes() > BATCH {
                new.write_opt(&std::mem::take(&mut batch), &writing)?;
            }
        }
        new.write_opt(&batch, &writing)?;
        let mut flushing = FlushOptions::default();
        flushing.set_wait(true);
        new.flush_opt(&flushing)?;
        Ok(())
    })
}

/// The least that a copy does with RocksDB's iterators and builders: nothing is checked, and no database is made.
fn tables(places: &Places) -> Outcome<f64> {
    timed(places, || {
        let old = DB::open_for_read_only(&options(), &places.old, false)?;
        std::fs::create_dir(&places.work)?;
        let write_half = |from: u8, to: Option<u8>| -> Result<(), rust_rocksdb::Error> {
            let (options, mut reading) = (options(), ReadOptions::default());
            reading.set_readahead_size(AHEAD);
            reading.fill_cache(false);
            to.into_iter().for_each(|to| reading.set_iterate_upper_bound([to]));
            let mut writer = SstFileWriter::create(&options);
            writer.open(places.work.join(format!("{from}.sst")))?;
            let mut records = old.raw_iterator_opt(reading);
            records.seek([from]);
            while let Some((key, value)) = records.item() {
                writer.put(key, value)?;
                records.next();
            }
            records.status()?;
            writer.finish()
        };
        std::thread::scope(|threads| {
            let halves = [(0, Some(0x80)), (0x80, None)].map(|(from, to)| threads.spawn(move || write_half(from, to)));
            halves.into_iter().try_for_each(|half| half.join().map_err(|_| "a thread failed")?.map_err(Into::into))
        })
    })
}
