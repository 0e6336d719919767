//! What an import will take, from the import of a sample.
//!
//! ```text
//! read     the longest of: what the sample took, reading the source, and, when spilling, writing it all once
//! build    the longest of: what the sample took, and writing the database
//! ingest, compact, commit    what the sample took: a few syncs, however large the snapshot is
//! ```

use serde_json::Map;

use super::sample::Sample;
use crate::load::Plan;
use crate::parallel;
use crate::report::Prediction;

/// Bytes resident beside what the plan counts: the program and RocksDB.
const BASE: u64 = 32 << 20;

/// Bytes that a thread holds of a log.
const MEMORY_OF_LOGS: u64 = 12 << 20;

/// Predicts an import through the ingest loader; the disk of the database writes `write` bytes in a second.
pub(super) fn predict(plan: &Plan, sample: &Sample, write: Option<f64>) -> Prediction {
    let Sample { bytes, whole, report, source } = sample;
    let times = *whole as f64 / (*bytes).max(1) as f64;
    let took = |phase: &str| report.seconds.get(phase).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let write = |bytes: f64| write.map_or(0.0, |rate| bytes / rate.max(1.0));
    let written = write(report.levels.iter().map(|level| level.bytes).sum::<u64>() as f64 * times);
    let (from_source, cpu) = source.as_ref().map_or((0.0, 0.0), |source| (source.seconds, source.cpu_seconds));
    let checking = took("read") * times + cpu / parallel::cores() as f64;
    let (read_writes, build_writes) = match (plan.log(), report.plan.spills_blocks()) {
        (Some(_), _) => (written, 0.0),
        (None, true) => (write(*whole as f64), written),
        (None, false) => (0.0, written),
    };
    let read = Phase::longest([("processor", checking), ("source", from_source), ("disk", read_writes)]);
    let build = Phase::longest([("processor", took("build") * times), ("disk", build_writes), ("source", 0.0)]);

    let phases = [
        ("read", read.seconds),
        ("build", build.seconds),
        ("ingest", took("ingest")),
        ("compact", took("compact")),
        ("commit", took("commit")),
    ];
    let mut seconds = Map::new();
    seconds.insert("total".into(), rounded(phases.iter().map(|(_, seconds)| seconds).sum()));
    seconds.extend(phases.map(|(name, value)| (name.to_owned(), rounded(value))));
    let memory = match plan.log() {
        Some(_) => MEMORY_OF_LOGS * plan.threads as u64,
        None if report.plan.spills() => plan.memory,
        None => whole + whole / 32,
    };
    Prediction {
        seconds,
        peak_disk_bytes: plan
            .space
            .iter()
            .map(|space| space.needed_bytes)
            .try_fold(0, |sum, needed| Some(sum + needed?)),
        memory_bytes: BASE + memory.min(plan.memory),
        limited_by: if read.seconds > build.seconds { read.by } else { build.by }.into(),
        sample_bytes: *bytes,
        sample_seconds: took("total"),
    }
}

/// How long a phase takes, and what of it takes longest.
struct Phase {
    seconds: f64,
    by: &'static str,
}

impl Phase {
    fn longest(all: [(&'static str, f64); 3]) -> Self {
        let (by, seconds) = all.into_iter().fold(("processor", 0.0), |a, b| if b.1 > a.1 { b } else { a });
        Self { seconds, by }
    }
}

/// Milliseconds are more than can be predicted.
fn rounded(seconds: f64) -> serde_json::Value {
    ((seconds * 1000.0).round() / 1000.0).into()
}
