//! What RocksDB counted of the lookups, and how the database is spread over its levels.

use super::super::phrases::{Columns, NOTHING, median};
use super::super::results::BenchReport;
use super::super::run::Run;
use crate::report::statistics::median as middle;
use crate::rocks::Level;
use crate::text::size::human;

/// The metrics that RocksDB counted, and their headings.
const COUNTED: [(&str, &str); 5] = [
    ("read / value, cold", "cold_read_amplification"),
    ("read / value, warm", "warm_read_amplification"),
    ("read per miss, cold", "cold_miss_bytes"),
    ("block cache hits, cold", "cold_cache_hits"),
    ("block cache hits, warm", "warm_cache_hits"),
];

/// A column for each that was counted, and the levels, for the presets that have any; medians. Empty without any.
pub(super) fn counters(report: &BenchReport) -> Columns {
    let all = &report.figures.variants;
    let mut columns: Columns =
        COUNTED.map(|(heading, key)| (heading, all.iter().map(|it| median(it, key)).collect())).into();
    columns.push(("levels", all.iter().map(|it| levels(report, &it.variant)).collect()));
    columns.retain(|(_, cells): &(_, Vec<String>)| cells.iter().any(|cell| cell != NOTHING));
    if !columns.is_empty() {
        columns.insert(0, ("preset", all.iter().map(|it| it.variant.clone()).collect()));
    }
    columns
}

/// The bytes of each level that has files in any run: the median of all runs.
fn levels(report: &BenchReport, variant: &str) -> String {
    let counts = |run: &&Run| run.variant == variant && !run.warmup && run.failure.is_none();
    let imports: Vec<_> = report.runs.iter().filter(counts).filter_map(|run| run.import.as_ref()).collect();
    let mut numbers: Vec<i32> = imports.iter().flat_map(|import| &import.levels).map(|level| level.level).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let size = |number: i32| {
        let of = |levels: &[Level]| levels.iter().find(|it| it.level == number).map_or(0, |it| it.bytes);
        let bytes: Vec<f64> = imports.iter().map(|import| of(&import.levels) as f64).collect();
        Some(format!("L{number}: {}", human(middle(&bytes)? as u64)))
    };
    let sizes: Vec<String> = numbers.into_iter().filter_map(size).collect();
    if sizes.is_empty() { NOTHING.into() } else { sizes.join(", ") }
}
