//! What an import will take, from what the machine does in a second.
//!
//! ```text
//! read     the longest of: checking and routing on all threads, unpacking, reading what is not in the page cache,
//!          and, when spilling, writing it all once
//! build    the longest of: sorting and building on all threads, and writing the database; when spilling, also reading
//!          it all back
//! ingest, settle, publish    a few syncs each
//! ```
//!
//! A rehearsal works on a sample that a cache holds; the factors below are what real imports, of 1 to 4 GiB in memory
//! and spilled, took over that.

use serde_json::Map;

use super::kept::{DiskRates, cores};
use super::source::{Facts, LogFacts};
use crate::load::Plan;
use crate::report::{Compared, Prediction, WorkSpeed};

/// What reading takes over a rehearsal: from the page cache, held in memory of its own, and appended to partitions.
const READ_MAPPED: f64 = 1.16;
const READ_HELD: f64 = 1.5;
const READ_SPILLED: f64 = 2.7;

/// What building takes over a rehearsal: of blocks in memory, and of partitions that are read back.
const BUILD_HELD: f64 = 1.2;
const BUILD_SPILLED: f64 = 2.6;

/// What a log takes over its rehearsal: blocks, and ids of transactions, which are spilled in between.
const READ_LOG: f64 = 1.0;
const BUILD_LOG: f64 = 1.05;

/// Bytes that a thread holds of a log.
const MEMORY_OF_LOGS: u32 = 12 << 20;

/// Bytes of an average block of the sample, and the share of the work that goes with the number of blocks rather than
/// with their bytes.
const SAMPLE_BLOCK: f64 = 1100.0;
const READ_BY_BLOCK: f64 = 0.2;
const BUILD_BY_BLOCK: f64 = 0.45;

/// Syncs of the last phases, and what they take beside, in seconds.
const INGEST: (f64, f64) = (20.0, 0.03);
const SETTLE: (f64, f64) = (6.0, 0.01);
const PUBLISH: (f64, f64) = (4.0, 0.002);

/// Bytes resident beside what the plan counts: the program and RocksDB.
const BASE: u64 = 32 << 20;

/// What is known about the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub work: WorkSpeed,
    /// Of the file system that takes the database.
    pub disk: DiskRates,
    /// Of the one that has the snapshot.
    pub source: DiskRates,
    /// Whether both are the same.
    pub same_disk: bool,
}

/// Predicts an import through the ingest loader. `before` is how many seconds have gone already.
pub(super) fn predict(plan: &Plan, facts: &Facts, rates: &Rates, before: f64, basis: String) -> Prediction {
    let cores = cores();
    let bytes = facts.bytes as f64;
    let work = |rate: &crate::report::Rate, by_block: f64| {
        let blocks = 1.0 - by_block + by_block * SAMPLE_BLOCK / facts.block.max(32.0);
        bytes / rate.with(plan.threads, cores).max(1.0) * blocks
    };
    let at = |bytes: f64, rate: Option<f64>| rate.map_or(0.0, |rate| bytes / rate.max(1.0));
    let uncached = facts.size as f64 * (1.0 - facts.cached);

    // How large a packed snapshot is, is only known to whoever looked.
    let spills = plan.spill || (facts.unpacking.is_some() && facts.bytes > plan.hold_bytes);
    let factor = match (spills, facts.unpacking) {
        (true, _) => READ_SPILLED,
        (false, None) => READ_MAPPED,
        (false, Some(_)) => READ_HELD,
    };
    let checking = work(&rates.work.read, READ_BY_BLOCK) * factor;
    // Threads that unpack and threads that check share the cores.
    let busy = plan.threads.min(cores) as f64;
    let (unpacking, checking) = match facts.unpacking {
        None => (0.0, checking),
        Some(unpacking) => {
            let alone = bytes / unpacking.rate.max(1.0);
            (alone, (checking * busy + alone * unpacking.cores) / cores as f64)
        }
    };
    let from_disk = at(uncached, facts.fresh.or(rates.source.read));
    let spilling = if spills { at(bytes, rates.disk.write) } else { 0.0 };
    let disk = if rates.same_disk { from_disk + spilling } else { from_disk.max(spilling) };
    let read = Phase::longest(checking, disk, unpacking);

    let built = bytes * rates.work.built_share;
    let factor = if spills { BUILD_SPILLED } else { BUILD_HELD };
    let building = work(&rates.work.build, BUILD_BY_BLOCK) * factor;
    // Partitions leave the page cache when they are synced.
    let read_back = if spills { at(bytes, rates.disk.read) } else { 0.0 };
    let build = Phase::longest(building, at(built, rates.disk.write) + read_back, 0.0);

    let held = facts.bytes + facts.bytes / 32;
    let memory = if spills { plan.memory } else { held.min(plan.memory) };
    told(plan, rates, before, [read, build], Beside { memory, cached: facts.cached, basis })
}

/// Predicts the import of a log through the ingest loader, from a rehearsal with a piece of it.
pub(super) fn predict_log(plan: &Plan, facts: &LogFacts, rates: &Rates, before: f64, basis: String) -> Prediction {
    let size = facts.size as f64;
    let pieces = size / facts.pace.bytes.max(1) as f64;
    let at = |bytes: f64, rate: Option<f64>| rate.map_or(0.0, |rate| bytes / rate.max(1.0));
    let uncached = at(size * (1.0 - facts.cached), rates.source.read);
    let written = at(facts.pace.built as f64 * pieces, rates.disk.write);
    let disk = if rates.same_disk { uncached + written } else { uncached.max(written) };
    let read = Phase::longest(facts.pace.read.as_secs_f64() * pieces * READ_LOG, disk, 0.0);
    let written = at(facts.pace.transactions_built as f64 * pieces, rates.disk.write);
    let build = Phase::longest(facts.pace.transactions.as_secs_f64() * pieces * BUILD_LOG, written, 0.0);
    let memory = plan.memory.min(u64::from(MEMORY_OF_LOGS) * plan.threads as u64);
    told(plan, rates, before, [read, build], Beside { memory, cached: facts.cached, basis })
}

/// What a prediction says beside its phases.
struct Beside {
    memory: u64,
    cached: f64,
    basis: String,
}

/// Puts it all together, with the last phases.
fn told(plan: &Plan, rates: &Rates, before: f64, [read, build]: [Phase; 2], beside: Beside) -> Prediction {
    let sync = rates.disk.sync.unwrap_or(0.001);
    let last = |(syncs, beside): (f64, f64)| syncs * sync + beside;
    let phases = [
        ("read", read.seconds),
        ("build", build.seconds),
        ("ingest", last(INGEST)),
        ("settle", last(SETTLE)),
        ("publish", last(PUBLISH)),
    ];
    let total = before + phases.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let mut seconds = Map::new();
    seconds.insert("total".into(), rounded(total));
    seconds.insert("plan".into(), rounded(before));
    phases.iter().for_each(|(name, value)| {
        seconds.insert((*name).into(), rounded(*value));
    });
    let needed = plan.space.iter().map(|space| space.needed_bytes).try_fold(0, |sum, needed| Some(sum + needed?));
    Prediction {
        seconds,
        peak_disk_bytes: needed,
        memory_bytes: BASE + beside.memory,
        limited_by: if read.seconds > build.seconds { read.by } else { build.by }.into(),
        cached_share: beside.cached,
        basis: beside.basis,
    }
}

/// How long a phase takes, and what of it takes longest.
struct Phase {
    seconds: f64,
    by: &'static str,
}

impl Phase {
    fn longest(processor: f64, disk: f64, unpacking: f64) -> Self {
        let all = [(processor, "processor"), (disk, "disk"), (unpacking, "unpacking")];
        let (seconds, by) = all.into_iter().fold((0.0, "processor"), |a, b| if b.0 > a.0 { b } else { a });
        Self { seconds, by }
    }
}

impl Compared {
    /// Puts what happened beside what was expected.
    pub(crate) fn new(prediction: Prediction, reality: &Map<String, serde_json::Value>) -> Self {
        let mut difference = Map::new();
        for (name, expected) in &prediction.seconds {
            let (Some(expected), Some(took)) = (expected.as_f64(), reality.get(name).and_then(|took| took.as_f64()))
            else {
                continue;
            };
            if expected > 0.0 {
                difference.insert(name.clone(), rounded(took / expected - 1.0));
            }
        }
        Self { prediction, difference }
    }
}

/// Milliseconds are more than anybody can foresee.
fn rounded(value: f64) -> serde_json::Value {
    ((value * 1000.0).round() / 1000.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::source::Unpacking;
    use crate::load::PlanChoice;
    use crate::report::Rate;

    const GIB: u64 = 1 << 30;

    fn rates(write: f64) -> Rates {
        let rate = |rate| Rate { one_core: rate, all_cores: rate * cores() as f64 };
        let work = WorkSpeed { hash: rate(2e9), read: rate(1e9), build: rate(5e8), built_share: 1.0 };
        let disk = DiskRates { write: Some(write), read: Some(1e9), sync: Some(0.001) };
        Rates { work, disk, source: disk, same_disk: true }
    }

    fn seconds(choice: PlanChoice, facts: &Facts, rates: &Rates) -> (f64, f64, String) {
        let plan = Plan::choose(choice, Some(facts.bytes), true, 64 * GIB, cores(), 1024, 256 << 20);
        let found = predict(&plan, facts, rates, 0.0, String::new());
        let of = |name: &str| found.seconds[name].as_f64().expect("a number");
        assert!(of("total") >= of("read") + of("build"));
        (of("read"), of("build"), found.limited_by)
    }

    fn facts() -> Facts {
        Facts { size: 4 * GIB, bytes: 4 * GIB, cached: 1.0, block: SAMPLE_BLOCK, unpacking: None, fresh: None }
    }

    #[test]
    fn the_slowest_part_decides() {
        let (read, build, by) = seconds(PlanChoice::Memory, &facts(), &rates(1e12));
        let cores = cores() as f64;
        let cpu = 4.0 * GIB as f64 / 1e9 / cores;
        assert!((read - cpu * READ_MAPPED).abs() < 0.01 && (build - 2.0 * cpu * BUILD_HELD).abs() < 0.01);
        assert_eq!(by, "processor");
        let (_, build, by) = seconds(PlanChoice::Memory, &facts(), &rates(1e8));
        assert!((42.0..44.0).contains(&build), "{build}");
        assert_eq!(by, "disk");
        let slow = Facts { unpacking: Some(Unpacking { rate: 1e8, cores: 1.0 }), ..facts() };
        let (read, _, by) = seconds(PlanChoice::Memory, &slow, &rates(1e12));
        assert!(read > 42.0, "{read}");
        assert_eq!(by, "unpacking");
    }

    #[test]
    fn what_must_come_from_disk_or_go_there_takes_longer() {
        let of = |choice, facts: &Facts| seconds(choice, facts, &rates(2e9)).0;
        let cold = Facts { cached: 0.0, ..facts() };
        assert!(of(PlanChoice::Memory, &cold) >= 4.2);
        assert!(of(PlanChoice::Spill, &facts()) > of(PlanChoice::Memory, &facts()));
        assert!(of(PlanChoice::Spill, &cold) >= 6.4, "the same disk reads and writes");
        let small = Facts { block: 200.0, ..facts() };
        assert!(of(PlanChoice::Memory, &small) > of(PlanChoice::Memory, &facts()), "small blocks are more work");
    }

    #[test]
    fn the_difference_is_a_share_of_what_was_expected() {
        let plan = Plan::choose(PlanChoice::Memory, Some(GIB), true, 4 * GIB, 2, 1024, 256 << 20);
        let mut prediction = predict(&plan, &facts(), &rates(1e9), 0.0, String::new());
        prediction.seconds.insert("total".into(), 4.0.into());
        prediction.seconds.insert("build".into(), 0.0.into());
        let reality = [("total", 5.0), ("build", 1.0), ("check", 1.0)];
        let reality = reality.into_iter().map(|(name, seconds)| (name.to_owned(), seconds.into())).collect();
        let compared = Compared::new(prediction, &reality);
        assert_eq!(compared.difference["total"], 0.25);
        assert_eq!(compared.difference.len(), 1, "nothing is compared with nothing");
    }
}
