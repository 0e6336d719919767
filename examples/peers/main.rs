//! Measures `bedload import` of a RocksDB database, or of a stream of records, beside other ways to do the same, in rounds whose order
//! rotates, and prints a table of medians, ranges and ratios to `bedload import`.
//!
//! ```text
//! export BEDLOAD=target/release/bedload
//! cargo run --release --example peers -- rebuild DIR [ROUNDS] [MIB OF LARGE RECORDS] [MIB OF SMALL ONES]
//! cargo run --release --example peers -- records DIR [ROUNDS] [MIB OF LARGE RECORDS] [MIB OF SMALL ONES]
//! ```
//!
//! The large records have random keys of 32 bytes and values of 1,200 bytes. The small ones have keys of 32 bytes and values of 8. In a
//! database, half of the writes of large records overwrote a key. All options are RocksDB's defaults, without compression. Every clock
//! includes the sync of all that was written.

mod rebuild;
mod records;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rust_rocksdb::{CompactOptions, DB, DBCompressionType, Options};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Does the work, and returns the seconds that it took.
type Way<'a> = &'a dyn Fn(&Places) -> Outcome<f64>;

/// Bytes of one batch.
const BATCH: usize = 1 << 20;

const PAGE: usize = 4096;

struct Places {
    /// The old database, or the stream.
    old: PathBuf,
    work: PathBuf,
    bedload: PathBuf,
}

/// Records of random keys; each key occurs `repeats` times.
struct Records {
    count: u64,
    value: Vec<u8>,
    len: usize,
    repeats: u64,
    noise: u64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, dir, numbers @ ..] = &arguments[..] else {
        return Err("name `rebuild` or `records`, and a directory".into());
    };
    let dir = PathBuf::from(dir);
    let number = |at: usize, default: u64| numbers.get(at).map_or(Ok(default), |text| text.parse());
    let (rounds, large, small) = (number(0, 7)?, number(1, 4096)?, number(2, 1024)?);
    let bedload = std::env::var_os("BEDLOAD").map_or_else(|| "target/release/bedload".into(), PathBuf::from);
    for (name, mib, value) in [("large", large, 1200), ("small", small, 8)] {
        if mib == 0 {
            continue;
        }
        let old = dir.join(format!("{name}-{mib}MiB{}", if what == "records" { ".kv" } else { "" }));
        let places = Places { old, work: dir.join("work"), bedload: bedload.clone() };
        let repeats = if what == "rebuild" && name == "large" { 2 } else { 1 };
        let records = || Records::new((mib << 20) / (32 + value), value as usize, repeats);
        match what.as_str() {
            "rebuild" => rebuild::measure(&places, rounds, name, records)?,
            "records" => records::measure(&places, rounds, name, records)?,
            other => return Err(format!("`{other}` is neither `rebuild` nor `records`").into()),
        }
    }
    Ok(())
}

impl Records {
    fn new(count: u64, len: usize, repeats: u64) -> Self {
        Self { count, value: vec![0; len.next_multiple_of(8)], len, repeats, noise: 1 }
    }

    /// Passes all records to `each`.
    fn each(mut self, mut each: impl FnMut(&[u8; 32], &[u8]) -> Outcome<()>) -> Outcome<()> {
        for number in 0..self.count {
            let mut key = [0; 32];
            let mut seed = (number % (self.count / self.repeats)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for part in key.chunks_exact_mut(8) {
                seed = (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                part.copy_from_slice(&(seed ^ (seed >> 32)).to_be_bytes());
            }
            for part in self.value.chunks_exact_mut(8) {
                self.noise ^= self.noise << 13;
                self.noise ^= self.noise >> 7;
                self.noise ^= self.noise << 17;
                part.copy_from_slice(&self.noise.to_le_bytes());
            }
            each(&key, self.value.get(..self.len).unwrap_or_default())?;
        }
        Ok(())
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.increase_parallelism(2);
    options
}

/// Times all ways, and prints the table. The second way is the one that others are compared with.
fn compare(places: &Places, rounds: u64, name: &str, ways: &[(&str, Way<'_>)]) -> Outcome<()> {
    let mut seconds = vec![Vec::new(); ways.len()];
    for round in 0..rounds as usize {
        for at in (0..ways.len()).map(|at| (at + round) % ways.len()) {
            let _ = std::fs::remove_dir_all(&places.work);
            let _ = std::fs::remove_file(&places.work);
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
    format!("{:.2} ({first:.2}–{last:.2})", sorted.get(sorted.len() / 2).copied().unwrap_or_default())
}

fn run(command: &mut Command) -> Outcome<()> {
    if command.status()?.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
}

fn sync(path: &Path) -> Outcome<()> {
    run(Command::new("sync").arg("-f").arg(path))
}

/// Reads all files, so that each way finds them in the page cache. Returns their bytes.
fn read_all(path: &Path) -> Outcome<u64> {
    let read = |path: &Path| Ok(std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink())?);
    if path.is_file() {
        return read(path);
    }
    path.read_dir()?.map(|entry| read(&entry?.path())).sum()
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

fn import(places: &Places, source: &Path, more: &[&str], input: Stdio) -> Outcome<f64> {
    let mut command = Command::new(&places.bedload);
    command.args(["import", "--quiet", "--progress", "off"]).arg(source).arg("--db").arg(&places.work).args(more);
    command.stdout(Stdio::null()).stdin(input);
    timed(places, || run(&mut command))
}

/// Compacts all of a database.
fn compact_all(db: &DB) {
    let mut how = CompactOptions::default();
    how.set_bottommost_level_compaction(rust_rocksdb::BottommostLevelCompaction::Force);
    db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &how);
}
