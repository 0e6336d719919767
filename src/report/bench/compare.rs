//! Two comparisons side by side, of different machines, days, data or versions. All differences are listed. Nothing is
//! recommended, because a ratio between two comparisons is due to all that differs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::metrics::{METRICS, metric};
use super::phrases::{NOTHING, date, ratio, spread, total_key};
use super::results::BenchReport;
use crate::report::shown_in_line;
use crate::report::statistics::Spread;
use crate::text::size::{counted, grouped, human};

/// The version of this document.
pub const COMPARE_SCHEMA: &str = "bedload-bench-compare-1";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompareReport {
    /// [`COMPARE_SCHEMA`].
    pub schema: &'static str,
    /// The circumstances that differ.
    pub differences: Vec<Circumstance>,
    /// The variants that both have.
    pub variants: Vec<ComparedVariant>,
    pub only_a: Vec<String>,
    pub only_b: Vec<String>,
    /// The keys of the metrics in the table.
    #[serde(skip)]
    shown: [&'static str; 4],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Circumstance {
    pub what: &'static str,
    pub a: String,
    pub b: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedVariant {
    pub variant: String,
    /// True if its preset and the options on top of it are the same in both.
    pub same_options: bool,
    pub metrics: BTreeMap<&'static str, ComparedMetric>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedMetric {
    pub a: Spread,
    pub b: Spread,
    /// The median of B over that of A; `null` if that is zero.
    pub ratio: Option<f64>,
    /// The smallest value of B over the largest of A.
    pub low: Option<f64>,
    /// The largest value of B over the smallest of A.
    pub high: Option<f64>,
}

pub fn compare(a: &BenchReport, b: &BenchReport) -> CompareReport {
    let names = |report: &BenchReport| report.figures.variants.iter().map(|it| it.variant.clone()).collect::<Vec<_>>();
    let (of_a, of_b) = (names(a), names(b));
    let missing = |from: &[String], to: &[String]| from.iter().filter(|it| !to.contains(it)).cloned().collect();
    CompareReport {
        schema: COMPARE_SCHEMA,
        differences: differences(a, b),
        variants: of_a.iter().filter(|name| of_b.contains(name)).map(|name| compared(a, b, name)).collect(),
        only_a: missing(&of_a, &of_b),
        only_b: missing(&of_b, &of_a),
        shown: [total_key(a), "peak_rss_bytes", "disk_bytes", "lookups_per_second"],
    }
}

fn compared(a: &BenchReport, b: &BenchReport, name: &str) -> ComparedVariant {
    let of = |report: &BenchReport, key| report.figures.of(name)?.metrics.get(key).cloned();
    let metrics = METRICS.iter().filter_map(|metric| {
        let (a, b) = (of(a, metric.key)?, of(b, metric.key)?);
        let over = |b: f64, a: f64| (a > 0.0).then(|| b / a);
        let (ratio, low, high) = (over(b.median, a.median), over(b.min, a.max), over(b.max, a.min));
        Some((metric.key, ComparedMetric { a, b, ratio, low, high }))
    });
    // The effective options are known only after a successful import; those on top of the preset always are.
    let options = |report: &BenchReport| {
        let of = report.variants.iter().find(|it| it.name == name)?;
        let effective: Vec<_> = of.options.iter().map(|row| (row.option.clone(), row.value.clone())).collect();
        Some((of.set.clone(), of.arguments.clone(), effective))
    };
    ComparedVariant { variant: name.to_owned(), same_options: options(a) == options(b), metrics: metrics.collect() }
}

fn differences(a: &BenchReport, b: &BenchReport) -> Vec<Circumstance> {
    let of = |report: &BenchReport| {
        let (machine, setup, snapshot) = (&report.machine, &report.setup, &report.snapshot);
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| NOTHING.into());
        let blocks = snapshot.blocks.map_or(NOTHING.into(), |blocks| counted(blocks, "block", "blocks"));
        // The digest identifies the data; the path does not.
        let digest = report.runs.iter().find_map(|run| run.import.as_ref()).map(|import| import.digest.clone());
        [
            ("data", format!("{}, {blocks}, digest {}", human(snapshot.bytes), known(&digest))),
            ("day", report.period().map_or(NOTHING.into(), |(first, _)| date(first).chars().take(10).collect())),
            ("processor", format!("{} of {}", counted(machine.cores as u64, "core", "cores"), known(&machine.cpu))),
            ("memory", machine.memory_bytes.map_or(NOTHING.into(), human)),
            ("system", format!("{}, {}", known(&machine.system), known(&machine.kernel))),
            ("file system", format!("{} on {}", known(&machine.file_system), known(&machine.device))),
            ("bedload", machine.versions.bedload.clone()),
            ("RocksDB", machine.versions.rocksdb.clone()),
            ("rounds", format!("{} and {} before them", setup.runs, setup.warmup)),
            ("page cache", setup.cache.clone()),
            ("lookups", grouped(setup.lookups)),
        ]
    };
    let sides = of(a).into_iter().zip(of(b));
    sides.filter(|((_, a), (_, b))| a != b).map(|((what, a), (_, b))| Circumstance { what, a, b }).collect()
}

/// Returns the rows of a table: preset, figure, both sides and their ratio.
pub fn compare_rows(report: &CompareReport) -> Vec<[String; 5]> {
    let rows = report.variants.iter().flat_map(|variant| {
        report.shown.iter().filter_map(move |key| {
            let (metric, found) = (metric(key)?, variant.metrics.get(key)?);
            let other = if variant.same_options { "" } else { " (other options)" };
            let name = format!("{}{other}", shown_in_line(&variant.variant));
            let ratio = found.ratio.map_or(NOTHING.into(), |middle| ratio(middle, found.low, found.high));
            Some([name, metric.label.to_owned(), spread(metric, &found.a), spread(metric, &found.b), ratio])
        })
    });
    rows.collect()
}
