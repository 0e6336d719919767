//! Figures as text: the same words on the terminal, in Markdown and in HTML.

use std::collections::BTreeMap;

use super::figures::{Decision, Recommendation, VariantFigures};
use super::metrics::{Metric, Unit, metric};
use super::results::{BenchReport, Variant};
use crate::report::statistics::{Ratio, Spread};
use crate::report::{rfc3339, shown_in_line};
use crate::text::size::{counted, grouped, human, seconds};

/// The most names that are listed one by one.
const LISTED: usize = 4;

/// A note is printed if the page cache held shares of the databases before the scans that differ by more.
const UNEVEN: f64 = 0.5;

/// A note is printed if cold lookups leave a larger share of the database in the page cache.
const WARMED: f64 = 0.1;

/// A ratio is noisy if the end of its interval is more than so many times its start.
const NOISY: f64 = 4.0;

/// The text of a cell without a measurement.
pub(super) const NOTHING: &str = "–";

/// A table of the variants.
pub struct FigureTable {
    pub headings: Vec<&'static str>,
    /// A row for each variant, sorted by total time. Variants without one are last.
    pub rows: Vec<Vec<String>>,
}

type Cell = fn(&BenchReport, &VariantFigures) -> String;

/// Heading and content of each column, and if a narrow terminal shows it.
const COLUMNS: [(&str, bool, Cell); 13] = [
    ("preset", true, |_, it| shown_in_line(&it.variant).into_owned()),
    ("total", true, |report, it| median(it, total_key(report))),
    ("ratio", true, to_reference),
    ("import", false, |_, it| median(it, "import_seconds")),
    ("compact", false, |_, it| median(it, "compact_seconds")),
    ("scan", false, |_, it| median(it, "scan_seconds")),
    ("wall / cp", false, |_, it| to_copy(it)),
    ("CPU", false, |_, it| median(it, "cpu_seconds")),
    ("memory", true, |_, it| median(it, "peak_rss_bytes")),
    ("size", true, |_, it| median(it, "disk_bytes")),
    ("written / payload", false, |_, it| median(it, "write_amplification")),
    ("lookups", true, |_, it| median(it, "lookups_per_second")),
    ("runs", false, |_, it| match it.failed {
        0 => it.runs.to_string(),
        failed => format!("{} ({failed} failed)", it.runs + failed),
    }),
];

/// Returns the table with all columns (`wide`) or those of a narrow terminal. Columns without a measurement are left out.
pub fn figure_table(report: &BenchReport, wide: bool) -> FigureTable {
    let mut variants: Vec<&VariantFigures> = report.figures.variants.iter().collect();
    let time = |it: &VariantFigures| it.median(total_key(report)).unwrap_or(f64::INFINITY);
    variants.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let is_measured = |cell: &Cell| variants.iter().any(|it| cell(report, it) != NOTHING);
    let columns =
        || COLUMNS.iter().filter(|(name, narrow, cell)| (wide || *narrow) && (*name == "preset" || is_measured(cell)));
    let row = |it: &&VariantFigures| columns().map(|(.., cell)| cell(report, it)).collect();
    FigureTable { headings: columns().map(|(name, ..)| *name).collect(), rows: variants.iter().map(row).collect() }
}

/// Joins names in backticks. Of many names only some are listed.
pub(crate) fn some_of(names: &[&str]) -> String {
    let listed = if names.len() > LISTED { LISTED - 1 } else { names.len() };
    let mut text = names.iter().take(listed).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > listed {
        text.push_str(&format!(" and {}", counted((names.len() - listed) as u64, "other", "others")));
    }
    text
}

/// Formats seconds since 1970 as a date in UTC.
pub(super) fn date(seconds: u64) -> String {
    rfc3339(seconds).map_or_else(|| NOTHING.into(), |text| text.replace('T', " ").replace('Z', " UTC"))
}

pub(super) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => seconds(value),
        Unit::Nanoseconds if value < 1e4 => format!("{:.1} µs", value / 1e3),
        Unit::Nanoseconds if value < 1e6 => format!("{:.0} µs", value / 1e3),
        Unit::Nanoseconds => format!("{:.1} ms", value / 1e6),
        Unit::Bytes => human(value as u64),
        Unit::BytesPerSecond => format!("{}/s", human(value as u64)),
        Unit::PerSecond if value < 1e4 => format!("{}/s", grouped(value.round() as u64)),
        Unit::PerSecond if value < 1e6 => format!("{:.0} k/s", value / 1e3),
        Unit::PerSecond => format!("{:.1} M/s", value / 1e6),
        Unit::Count => grouped(value.round() as u64),
        Unit::Factor => format!("{value:.2}"),
    }
}

pub(super) fn median(figures: &VariantFigures, key: &str) -> String {
    let found = metric(key).zip(figures.median(key));
    found.map_or(NOTHING.into(), |(metric, median)| value(metric.unit, median))
}

/// Formats the median, and the range if there are several values.
pub(super) fn spread(metric: &Metric, spread: &Spread) -> String {
    let middle = value(metric.unit, spread.median);
    if spread.samples.len() < 2 {
        return middle;
    }
    format!("{middle} ({} to {})", value(metric.unit, spread.min), value(metric.unit, spread.max))
}

pub(super) fn cell(metric: &Metric, variant: &VariantFigures) -> String {
    variant.metrics.get(metric.key).map_or(NOTHING.into(), |found| spread(metric, found))
}

pub(super) fn ratio(ratio: f64, low: Option<f64>, high: Option<f64>) -> String {
    let interval = low.zip(high).map_or(String::new(), |(low, high)| format!(" ({low:.2} to {high:.2})"));
    format!("{ratio:.2}{interval}")
}

fn to_reference(report: &BenchReport, figures: &VariantFigures) -> String {
    match &figures.to_reference {
        None if figures.runs == 0 => NOTHING.into(),
        None => "1".into(),
        Some(comparison) => comparison
            .ratios
            .get(total_key(report))
            .map_or(NOTHING.into(), |found| ratio(found.ratio, found.low, found.high)),
    }
}

fn to_copy(figures: &VariantFigures) -> String {
    match &figures.to_copy {
        None => NOTHING.into(),
        Some(found) if is_noisy(found) => "cp too noisy".into(),
        Some(found) => ratio(found.ratio, found.low, found.high),
    }
}

fn is_noisy(ratio: &Ratio) -> bool {
    ratio.low.zip(ratio.high).is_some_and(|(low, high)| high > low * NOISY)
}

/// Returns the metric by which variants are compared: with the scan if it was measured.
pub(crate) fn total_key(report: &BenchReport) -> &'static str {
    let scanned = report.figures.variants.iter().any(|it| it.metrics.contains_key("total_seconds"));
    if scanned { "total_seconds" } else { "wall_seconds" }
}

/// Describes machine, snapshot and settings: names and values. Unknown ones are left out.
pub fn circumstances(report: &BenchReport) -> Vec<(&'static str, String)> {
    let (machine, setup, snapshot) = (&report.machine, &report.setup, &report.snapshot);
    let cpu = machine.cpu.as_deref().unwrap_or("an unknown processor");
    let memory = machine.memory_bytes.map_or(String::new(), |bytes| format!(", {} of memory", human(bytes)));
    let system = [machine.system.as_deref(), machine.kernel.as_deref()].into_iter().flatten().collect::<Vec<_>>();
    let device = machine.device.as_ref().map_or(String::new(), |device| format!(" on {device}"));
    let measured = report.period().map(|(first, last)| match (date(first), date(last)) {
        (first, last) if first == last => first,
        (first, last) => format!("{first} to {last}"),
    });
    let name = snapshot.path.rsplit('/').next().unwrap_or(&snapshot.path);
    let blocks = snapshot.blocks.map_or(String::new(), |blocks| format!(", {}", counted(blocks, "block", "blocks")));
    let warmup = if setup.warmup > 0 { format!(", {} before to warm up", setup.warmup) } else { String::new() };
    let scan = report.runs.iter().find_map(|run| run.scan.as_ref());
    let copy = report.figures.copy.as_ref().zip(metric("wall_seconds"));
    let lines = [
        ("machine", Some(format!("{} of {cpu}{memory}", counted(machine.cores as u64, "core", "cores")))),
        ("system", (!system.is_empty()).then(|| system.join(", "))),
        ("file system", machine.file_system.as_ref().map(|kind| format!("{kind}{device}"))),
        ("versions", Some(format!("bedload {}, RocksDB {}", machine.versions.bedload, machine.versions.rocksdb))),
        ("measured", measured),
        ("command", setup.command.clone()),
        ("snapshot", Some(format!("{name}, {}{blocks}", human(snapshot.bytes)))),
        ("rounds", Some(format!("{}{warmup}; page cache {}", setup.runs, setup.cache))),
        ("scan", scan.map(|scan| scan.kind.describe().to_owned())),
        ("copy", copy.map(|(copy, wall)| format!("cp and sync: {}", spread(wall, copy)))),
    ];
    lines.into_iter().filter_map(|(name, text)| Some((name, shown_in_line(&text?).into_owned()))).collect()
}

pub fn warnings(report: &BenchReport) -> Vec<String> {
    let mut lines: Vec<String> = report.setup.notes.clone();
    let mut failures: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for figures in &report.figures.variants {
        figures.errors.iter().for_each(|error| failures.entry(error).or_default().push(&figures.variant));
    }
    lines.extend(failures.iter().map(|(error, variants)| format!("{} failed: {error}", some_of(variants))));
    // All runs of a variant copy the same sample.
    for Variant { name, .. } in &report.variants {
        let own = report.runs.iter().filter(|run| run.variant == *name);
        let sample = own.into_iter().find_map(|run| run.import.as_ref()?.sample.as_ref());
        lines.extend(sample.map(|sample| format!("`{name}`: {}", sample.describe())));
    }
    for figures in &report.figures.variants {
        for key in [total_key(report), "peak_rss_bytes", "lookups_per_second"] {
            let (Some(metric), Some(found)) = (metric(key), figures.metrics.get(key)) else { continue };
            let rounds: Vec<String> = found.outlier_rounds.iter().map(|round| (round + 1).to_string()).collect();
            if !rounds.is_empty() {
                let (word, rounds) = (if rounds.len() == 1 { "round" } else { "rounds" }, rounds.join(", "));
                lines.push(format!("`{}`: {word} {rounds} are outliers by {}", figures.variant, metric.label));
            }
        }
    }
    lines.extend([uneven_scans(report), noisy_copy(report), warmed_by_lookups(report)].into_iter().flatten());
    for run in &report.runs {
        for note in run.notes.iter().map(|note| format!("`{}`: {note}", run.variant)) {
            if !lines.contains(&note) {
                lines.push(note);
            }
        }
    }
    if let Some(found) = &report.figures.recommendation {
        // The failures are listed above.
        lines.extend(found.caveats.iter().filter(|caveat| !caveat.contains(" failed in ")).cloned());
    }
    lines.iter().map(|line| shown_in_line(line).into_owned()).collect()
}

/// Some imports leave the files that they wrote in the page cache, others do not.
fn uneven_scans(report: &BenchReport) -> Option<String> {
    let share = |it: &VariantFigures| it.median("scan_resident");
    let mut known: Vec<(&str, f64)> =
        report.figures.variants.iter().filter_map(|it| Some((it.variant.as_str(), share(it)?))).collect();
    known.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let ((least, low), (most, high)) = (known.first()?, known.last()?);
    (high - low > UNEVEN).then(|| {
        format!(
            "scans began with {:.0} % (`{least}`) to {:.0} % (`{most}`) of the database in the page cache, as the imports \
             left it; --cold empties it for all",
            low * 100.0,
            high * 100.0
        )
    })
}

fn noisy_copy(report: &BenchReport) -> Option<String> {
    let is_noisy = report.figures.variants.iter().filter_map(|it| it.to_copy.as_ref()).any(is_noisy);
    let copy = report.figures.copy.as_ref().filter(|_| is_noisy)?;
    let (min, max) = (seconds(copy.min), seconds(copy.max));
    Some(format!(
        "the copy of the snapshot took {min} to {max}: too noisy to compare imports with; add rounds with --runs"
    ))
}

/// Cold lookups of a small database bring much of it into the page cache.
fn warmed_by_lookups(report: &BenchReport) -> Option<String> {
    let runs = report.runs.iter().filter(|run| !run.warmup);
    let shares = runs.filter_map(|run| run.reads.as_ref()?.cold.as_ref()?.resident_after_hits);
    let most = shares.fold(0.0, f64::max);
    (most > WARMED).then(|| {
        format!(
            "only the first cold lookups were cold: by their end up to {:.0} % of the database was in the page cache; on a \
             larger database, or with fewer --lookups, cold lookups are slower",
            most * 100.0
        )
    })
}

/// Returns the recommendation as names and values.
pub fn recommendation_lines(found: &Recommendation) -> Vec<(&'static str, String)> {
    let default = found.default.as_deref().unwrap_or_default();
    let mut lines = vec![match found.decision {
        Decision::Use => ("use", format!("`{default}`: {}", found.reason)),
        Decision::Only => ("only choice", format!("`{default}`: {}", found.reason)),
        Decision::NotDecided => ("not decided", found.reason.clone()),
    }];
    lines.extend(found.trade_off.clone().map(|cost| ("cost", cost)));
    let picks = [
        ("fastest", Some(&found.by_total).filter(|_| found.by_memory.is_some() || found.by_reads.is_some())),
        ("least memory", found.by_memory.as_ref()),
        ("fastest reads", found.by_reads.as_ref()),
    ];
    for (name, pick) in picks {
        let Some((pick, metric)) = pick.and_then(|pick| Some((pick, metric(&pick.metric)?))) else { continue };
        let alike: Vec<&str> = pick.no_difference_to.iter().map(String::as_str).collect();
        let alike = if alike.is_empty() {
            String::new()
        } else {
            format!("; no significant difference to {}", some_of(&alike))
        };
        lines.push((name, format!("`{}`, {} {}{alike}", pick.variant, metric.label, value(metric.unit, pick.median))));
    }
    lines.into_iter().map(|(name, words)| (name, shown_in_line(&words).into_owned())).collect()
}
