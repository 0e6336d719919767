//! One page without any other file and without a script, for small screens, print and dark mode. Rows are sorted by the
//! style sheet: each has its place by each column, and a column's heading chooses between them.
//!
//! Everything is drawn from the run whose wall time is the median one; figures are medians of all runs. Charts are many
//! small ones, each with the reference's curve in grey, instead of one with twenty colours. `page.html` is the template,
//! which escapes every text; only drawings (`chart`) come as HTML.

mod chart;
mod counters;
mod escape;
mod scatter;
mod sections;
mod sort;

use askama::Template;

pub(crate) use self::escape::Escape;
use self::sections::{ABREAST, Chart, Figure};
use self::sort::Order;
use super::figures::VariantFigures;
use super::metrics::{METRICS, Metric};
use super::phrases::{Columns, NOTHING, circumstances, columns, decision, recommendation_lines, spread, warnings};
use super::results::{BenchReport, VariantInfo};

#[derive(Template)]
#[template(path = "page.html", config = "src/report/bench/html/askama.toml")]
struct Page<'a> {
    report: &'a BenchReport,
    snapshot: &'a str,
    /// What is best beside the recommendation itself.
    cards: Vec<(&'static str, String)>,
    columns: Vec<(&'static str, Vec<String>)>,
    orders: Vec<Order>,
    /// Size against time.
    scatter: Option<[String; 2]>,
    /// The phases that are long enough to be seen, and a bar of them for each variant.
    phases: Vec<(&'static str, &'static str)>,
    bars: Vec<Figure<'a>>,
    charts: Vec<Chart<'a>>,
    /// What RocksDB counted of the lookups, and its levels; as `columns`.
    counted: Columns,
    /// Those that were measured.
    metrics: Vec<&'static Metric>,
    /// Those whose database was read back.
    with_options: Vec<&'a VariantInfo>,
}

impl Page<'_> {
    /// Whether rows can be sorted by a column.
    fn is_sorted_by(&self, column: &usize) -> bool {
        self.orders.iter().any(|order| order.column == *column)
    }

    /// The places of a row, for the style sheet.
    fn places(&self, row: &usize) -> String {
        let place = |order: &Order| Some(format!("--s{}:{}", order.column, order.places.get(*row)?));
        self.orders.iter().filter_map(place).collect::<Vec<_>>().join(";")
    }

    fn is_chosen(&self, variant: &str) -> bool {
        self.report.figures.recommendation.as_ref().is_some_and(|found| found.default.as_deref() == Some(variant))
    }
}

/// The comparison as a page.
pub fn html(report: &BenchReport) -> String {
    let (phases, bars) = sections::phases(report);
    let charts = [sections::throughput(report), sections::memory(report), sections::latency(report)];
    let cards = report.figures.recommendation.iter();
    let is_measured = |metric: &&Metric| report.figures.variants.iter().any(|it| it.metrics.contains_key(metric.key));
    let columns = columns(report);
    let headings: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let page = Page {
        report,
        snapshot: report.snapshot.path.rsplit('/').next().unwrap_or(&report.snapshot.path),
        cards: cards.flat_map(|found| recommendation_lines(found).into_iter().filter(is_pick)).collect(),
        orders: sort::orders(report, &headings),
        columns,
        scatter: scatter::scatter(report),
        phases,
        bars,
        charts: charts.into_iter().flatten().collect(),
        counted: counters::counters(report),
        metrics: METRICS.iter().filter(is_measured).collect(),
        with_options: report.variants.iter().filter(|variant| !variant.options.is_empty()).collect(),
    };
    // A template that is compiled in and writes to memory fails at nothing.
    page.render().map(|page| page + "\n").unwrap_or_default()
}

/// Whether a line of the recommendation names what is best in one respect.
fn is_pick((name, _): &(&'static str, String)) -> bool {
    ["fastest", "least memory", "fastest reads"].contains(name)
}

/// A variant's figure of a metric.
fn cell(metric: &Metric, variant: &VariantFigures) -> String {
    variant.metrics.get(metric.key).map_or(NOTHING.into(), |found| spread(metric, found))
}

/// The options of a variant beside its preset.
fn asked(variant: &VariantInfo) -> String {
    let asked: Vec<&str> = variant.set.iter().chain(&variant.arguments).map(String::as_str).collect();
    if asked.is_empty() { String::new() } else { format!(", with {}", asked.join(", ")) }
}

/// The parts of a text in which backquotes mark names, each with whether it is one.
fn code(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part))
}

/// The name that a text begins with in backquotes, and the rest.
fn named(text: &str) -> (&str, &str) {
    text.strip_prefix('`').and_then(|text| text.split_once("`, ")).unwrap_or(("", text))
}
