//! Two comparisons side by side, which may be of different machines, days, data or versions. What differs is said, and
//! nothing is recommended: a ratio between them is due to all that differs, not to a preset.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::Spread;
use super::metrics::{METRICS, metric};
use super::phrases::{NOTHING, date, spread, total_key};
use super::results::BenchReport;
use crate::report::shown_in_line;
use crate::text::size::{counted, grouped, human};

/// The version of this document.
pub const COMPARE_SCHEMA: &str = "bedload-bench-compare-1";

/// The same variants in two comparisons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompareReport {
    /// [`COMPARE_SCHEMA`].
    pub schema: &'static str,
    /// What differs besides the figures: its name, and both sides.
    pub differences: Vec<Circumstance>,
    /// The variants that both have.
    pub variants: Vec<ComparedVariant>,
    /// Those that only the first has.
    pub only_a: Vec<String>,
    /// Those that only the second has.
    pub only_b: Vec<String>,
    /// The metrics of the table.
    #[serde(skip)]
    shown: Vec<&'static str>,
}

/// A circumstance that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Circumstance {
    /// What it is.
    pub what: &'static str,
    /// In the first.
    pub a: String,
    /// In the second.
    pub b: String,
}

/// A variant in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedVariant {
    /// Its name.
    pub variant: String,
    /// Whether its preset, and what was set, are the same in both.
    pub same_options: bool,
    /// By metric.
    pub metrics: BTreeMap<&'static str, ComparedMetric>,
}

/// A metric in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedMetric {
    /// In the first.
    pub a: Spread,
    /// In the second.
    pub b: Spread,
    /// The median of the second over that of the first; `null` where that is zero.
    pub ratio: Option<f64>,
    /// The smallest of the second over the largest of the first.
    pub low: Option<f64>,
    /// The largest of the second over the smallest of the first.
    pub high: Option<f64>,
}

/// Puts `b` beside `a`.
pub fn compare(a: &BenchReport, b: &BenchReport) -> CompareReport {
    let names =
        |report: &BenchReport| -> Vec<String> { report.figures.variants.iter().map(|it| it.variant.clone()).collect() };
    let (of_a, of_b) = (names(a), names(b));
    let missing = |from: &[String], to: &[String]| from.iter().filter(|it| !to.contains(it)).cloned().collect();
    let variants = of_a.iter().filter(|name| of_b.contains(name)).map(|name| compared(a, b, name)).collect();
    CompareReport {
        schema: COMPARE_SCHEMA,
        differences: differences(a, b),
        variants,
        only_a: missing(&of_a, &of_b),
        only_b: missing(&of_b, &of_a),
        shown: vec![total_key(a), "peak_rss_bytes", "disk_bytes", "lookups_per_second"],
    }
}

fn compared(a: &BenchReport, b: &BenchReport, name: &str) -> ComparedVariant {
    let figures = |report: &BenchReport, key| {
        let of = report.figures.variants.iter().find(|it| it.variant == name)?;
        of.metrics.get(key).cloned()
    };
    let metrics = METRICS.iter().filter_map(|metric| {
        let (a, b) = (figures(a, metric.key)?, figures(b, metric.key)?);
        let over = |b: f64, a: f64| (a > 0.0).then(|| b / a);
        let (ratio, low, high) = (over(b.median, a.median), over(b.min, a.max), over(b.max, a.min));
        Some((metric.key, ComparedMetric { a, b, ratio, low, high }))
    });
    // The effective options are known only where an import succeeded; what was asked for always is.
    let asked = |report: &BenchReport| {
        let of = report.variants.iter().find(|it| it.name == name)?;
        let options: Vec<_> = of.options.iter().map(|row| (row.option.clone(), row.value.clone())).collect();
        Some((of.set.clone(), of.arguments.clone(), options))
    };
    ComparedVariant { variant: name.to_owned(), same_options: asked(a) == asked(b), metrics: metrics.collect() }
}

/// What is not the same on both sides.
fn differences(a: &BenchReport, b: &BenchReport) -> Vec<Circumstance> {
    let of = |report: &BenchReport| -> Vec<(&'static str, String)> {
        let (machine, setup, snapshot) = (&report.machine, &report.setup, &report.snapshot);
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| NOTHING.into());
        let size = |bytes: Option<u64>| bytes.map_or(NOTHING.into(), human);
        let blocks = snapshot.blocks.map_or(NOTHING.into(), |blocks| counted(blocks, "block", "blocks"));
        // The same data has the same content; its path says less.
        let digest = report.runs.iter().find_map(|run| run.import.as_ref()).map(|import| import.digest.clone());
        vec![
            ("data", format!("{}, {blocks}, digest {}", human(snapshot.bytes), known(&digest))),
            ("day", report.period().map_or(NOTHING.into(), |(first, _)| date(first).chars().take(10).collect())),
            ("processor", format!("{} of {}", counted(machine.cores as u64, "core", "cores"), known(&machine.cpu))),
            ("memory", size(machine.memory_bytes)),
            ("system", format!("{}, {}", known(&machine.system), known(&machine.kernel))),
            ("file system", format!("{} on {}", known(&machine.file_system), known(&machine.device))),
            ("bedload", machine.versions.bedload.clone()),
            ("RocksDB", machine.versions.rocksdb.clone()),
            ("rounds", format!("{} and {} before them", setup.runs, setup.warmup)),
            ("page cache", setup.cache.clone()),
            ("lookups", grouped(setup.lookups)),
            ("node ops", grouped(setup.node_ops)),
        ]
    };
    let sides = of(a).into_iter().zip(of(b));
    sides.filter(|((_, a), (_, b))| a != b).map(|((what, a), (_, b))| Circumstance { what, a, b }).collect()
}

/// The comparison for people: preset, figure, both sides and their ratio, a row for each metric of each variant.
pub fn compare_rows(report: &CompareReport) -> Vec<[String; 5]> {
    let rows = report.variants.iter().flat_map(|variant| {
        report.shown.iter().filter_map(move |key| {
            let (metric, found) = (metric(key)?, variant.metrics.get(key)?);
            let other = if variant.same_options { "" } else { " (other options)" };
            let name = format!("{}{other}", shown_in_line(&variant.variant));
            Some([name, metric.label.to_owned(), spread(metric, &found.a), spread(metric, &found.b), ratio(found)])
        })
    });
    rows.collect()
}

fn ratio(found: &ComparedMetric) -> String {
    match (found.ratio, found.low, found.high) {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
        (Some(ratio), ..) => format!("{ratio:.2}"),
        _ => NOTHING.into(),
    }
}
