//! One page without other files and without scripts, for small screens, print and dark mode. `page.html` is the template,
//! which escapes every text.

use std::fmt;

use askama::Template;

use super::figures::VariantFigures;
use super::metrics::{Metric, Unit, metric};
use super::phrases::{
    FigureTable, cell, circumstances, figure_table, median, recommendation_lines, total_key, value, warnings,
};
use super::results::{BenchReport, Variant};
use super::run::BenchRun;
use crate::report::shown_in_line;
use crate::text::escape::shown;

/// Variants beside one another in the table of all metrics; a sheet of paper has room for them.
const ABREAST: usize = 4;

/// Phases of a bar: their names in reports, which are their classes in the style sheet, and for people.
const PHASES: [(&str, &str); 7] = [
    ("read", "read"),
    ("build", "build"),
    ("ingest", "ingest"),
    ("compact", "compact"),
    ("check", "check"),
    ("scan", "scan"),
    ("other", "start, commit, end"),
];

/// The metrics that have a chart below the one of times.
const CHARTS: [&str; 4] = ["peak_rss_bytes", "disk_bytes", "write_amplification", "lookups_per_second"];

#[derive(Template)]
#[template(path = "page.html", config = "src/report/bench/html/askama.toml")]
struct Page<'a> {
    report: &'a BenchReport,
    snapshot: &'a str,
    /// The recommendation, and the best variants by single metrics.
    cards: Vec<(&'static str, String)>,
    table: FigureTable,
    charts: Vec<Chart<'a>>,
    metrics: Vec<&'static Metric>,
    /// The variants with options that were read back from their databases.
    with_options: Vec<&'a Variant>,
}

/// A bar for each variant.
struct Chart<'a> {
    title: &'a str,
    note: &'a str,
    /// Classes of the style sheet and their meaning.
    legend: Vec<(&'static str, &'static str)>,
    bars: Vec<ChartBar<'a>>,
}

struct ChartBar<'a> {
    name: &'a str,
    caption: String,
    /// Classes of the style sheet, and widths in percent.
    pieces: Vec<(&'static str, f64)>,
    /// The pieces as text.
    words: String,
}

/// Writes a text without markup and with visible control characters.
#[derive(Clone, Copy, Default)]
pub(crate) struct Escape;

impl askama::filters::Escaper for Escape {
    fn write_escaped_str<W: fmt::Write>(&self, mut page: W, text: &str) -> fmt::Result {
        shown(text).chars().try_for_each(|c| match c {
            '&' => page.write_str("&amp;"),
            '<' => page.write_str("&lt;"),
            '>' => page.write_str("&gt;"),
            '"' => page.write_str("&quot;"),
            c => page.write_char(c),
        })
    }
}

impl Page<'_> {
    fn is_chosen(&self, variant: &str) -> bool {
        let default = self.report.figures.recommendation.as_ref().and_then(|found| found.default.as_deref());
        default.is_some_and(|default| shown_in_line(default) == variant)
    }
}

/// Returns the comparison as a page.
pub fn html(report: &BenchReport) -> String {
    let cards = report.figures.recommendation.as_ref().map(recommendation_lines).unwrap_or_default();
    let charts = CHARTS.iter().filter_map(|key| metric_chart(report, metric(key)?));
    let page = Page {
        report,
        snapshot: report.snapshot.path.rsplit('/').next().unwrap_or(&report.snapshot.path),
        cards,
        table: figure_table(report, true),
        charts: time_chart(report).into_iter().chain(charts).collect(),
        metrics: report.figures.measured().collect(),
        with_options: report.variants.iter().filter(|variant| !variant.options.is_empty()).collect(),
    };
    // The template is compiled and writes to memory: it does not fail.
    page.render().map(|page| page + "\n").unwrap_or_default()
}

/// Returns the seconds of each phase of [`PHASES`]; the last one has the rest of the wall time.
fn phase_seconds(run: &BenchRun) -> Option<[f64; PHASES.len()]> {
    let import = run.import.as_ref()?;
    let mut all = PHASES.map(|(name, _)| {
        import.phases.iter().filter(|(phase, _)| phase == name).map(|(_, seconds)| seconds).sum::<f64>()
    });
    let [phases @ .., scan, other] = &mut all;
    *other = (run.wall().unwrap_or(0.0) - phases.iter().sum::<f64>()).max(0.0);
    *scan = run.scan.as_ref().map_or(0.0, |scan| scan.seconds);
    Some(all)
}

/// Returns bars of the total times. Each has the phases of the median run, scaled to the median of all runs.
fn time_chart(report: &BenchReport) -> Option<Chart<'_>> {
    let of = |it: &'_ VariantFigures| {
        let phases = phase_seconds(report.typical(&it.variant)?)?;
        let scale = it.median(total_key(report))? / phases.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        Some(phases.map(|seconds| seconds * scale))
    };
    let all: Vec<_> = report.figures.variants.iter().filter_map(|it| Some((it.variant.as_str(), of(it)?))).collect();
    let longest = all.iter().map(|(_, phases)| phases.iter().sum::<f64>()).fold(0.0, f64::max);
    let bars = all.iter().map(|(name, phases)| {
        let spent = || PHASES.iter().zip(phases).filter(|(_, seconds)| **seconds > 0.0);
        let words = spent().map(|((phase, _), seconds)| format!("{phase} {}", value(Unit::Seconds, *seconds)));
        ChartBar {
            name,
            caption: value(Unit::Seconds, phases.iter().sum()),
            pieces: spent().map(|((phase, _), seconds)| (*phase, seconds / longest * 100.0)).collect(),
            words: words.collect::<Vec<_>>().join(", "),
        }
    });
    let is_visible = |phase: &usize| all.iter().any(|(_, phases)| phases.get(*phase) > Some(&(longest / 2000.0)));
    (longest > 0.0).then(|| Chart {
        title: "total",
        note: "Bar length: median of all runs. Colours: phases of the median run, then the scan.",
        legend: (0..PHASES.len()).filter(is_visible).filter_map(|phase| PHASES.get(phase).copied()).collect(),
        bars: bars.collect(),
    })
}

/// Returns bars of the medians of a metric; `None` if no variant has a value.
fn metric_chart<'a>(report: &'a BenchReport, metric: &'static Metric) -> Option<Chart<'a>> {
    let all: Vec<(&VariantFigures, f64)> =
        report.figures.variants.iter().filter_map(|it| Some((it, it.median(metric.key)?))).collect();
    let longest = all.iter().map(|(_, median)| *median).fold(0.0, f64::max);
    let bar = |(it, middle): &(&'a VariantFigures, f64)| {
        let caption = median(it, metric.key);
        ChartBar {
            name: &it.variant,
            words: caption.clone(),
            caption,
            pieces: vec![("whole", middle / longest * 100.0)],
        }
    };
    (longest > 0.0).then(|| Chart {
        title: metric.label,
        note: metric.doc,
        legend: Vec::new(),
        bars: all.iter().map(bar).collect(),
    })
}

/// Lists the options and arguments on top of a variant's preset.
fn set_options(variant: &Variant) -> String {
    let all: Vec<&str> = variant.set.iter().chain(&variant.arguments).map(String::as_str).collect();
    if all.is_empty() { String::new() } else { format!(", with {}", all.join(", ")) }
}

/// Splits a text at its backticks. The flag is true for the parts between two of them.
fn code(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split('`').enumerate().map(|(index, part)| (index % 2 == 1, part))
}

/// Splits off a name in backticks at the start of a text, if a comma or a colon follows it.
fn named(text: &str) -> (&str, &str) {
    let parts = text.strip_prefix('`').and_then(|text| text.split_once('`'));
    let named = parts.and_then(|(name, rest)| Some((name, rest.strip_prefix(", ").or(rest.strip_prefix(": "))?)));
    named.unwrap_or(("", text))
}
