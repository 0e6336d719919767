//! Figures in words: the same words on the terminal, in Markdown and in HTML.

use super::figures::{Decision, Ratio, Recommendation, Spread, VariantFigures};
use super::metrics::{Metric, Unit, metric};
use super::results::BenchReport;
use super::run::Run;
use crate::report::{rfc3339, shown_in_line};
use crate::text::size::{counted, grouped, human, seconds};

/// The columns that a terminal has room for.
const NARROW: [&str; 6] = ["preset", "total", "ratio", "memory", "size", "lookups"];

/// The most names that are listed one by one.
const LISTED: usize = 4;

/// Shares of databases in the page cache that differ by more make scans hard to compare.
const UNEVEN: f64 = 0.5;

/// Cold lookups that leave more of the database in the page cache than this have not been cold to their end.
const WARMED: f64 = 0.1;

/// Names, marked; of many only how many more there are.
pub(crate) fn some_of(names: &[&str]) -> String {
    let shown = if names.len() > LISTED { LISTED - 1 } else { names.len() };
    let mut text = names.iter().take(shown).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > shown {
        text.push_str(&format!(" and {}", counted((names.len() - shown) as u64, "other", "others")));
    }
    text
}

/// The text of a cell without a measurement.
pub(super) const NOTHING: &str = "–";

/// Seconds since 1970 as a date in UTC.
pub(super) fn date(seconds: u64) -> String {
    rfc3339(seconds).map_or_else(|| NOTHING.into(), |text| text.replace('T', " ").replace('Z', " UTC"))
}

/// A value with its unit.
pub(super) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => seconds(value),
        Unit::Nanoseconds => nanoseconds(value),
        Unit::Bytes => human(value as u64),
        Unit::BytesPerSecond => format!("{}/s", human(value as u64)),
        Unit::PerSecond => format!("{}/s", thousands(value)),
        Unit::Count => grouped(value.round() as u64),
        Unit::Factor => format!("{value:.2}"),
    }
}

fn nanoseconds(value: f64) -> String {
    match value {
        _ if value < 1e4 => format!("{:.1} µs", value / 1e3),
        _ if value < 1e6 => format!("{:.0} µs", value / 1e3),
        _ => format!("{:.1} ms", value / 1e6),
    }
}

fn thousands(value: f64) -> String {
    match value {
        _ if value < 1e4 => grouped(value.round() as u64),
        _ if value < 1e6 => format!("{:.0} k", value / 1e3),
        _ => format!("{:.1} M", value / 1e6),
    }
}

/// The median of a metric.
pub(super) fn median(figures: &VariantFigures, key: &str) -> String {
    match (metric(key), figures.median(key)) {
        (Some(metric), Some(median)) => value(metric.unit, median),
        _ => NOTHING.into(),
    }
}

/// The median, and the range where there are several values.
pub(super) fn spread(metric: &Metric, spread: &Spread) -> String {
    let middle = value(metric.unit, spread.median);
    if spread.samples.len() < 2 {
        return middle;
    }
    format!("{middle} ({} to {})", value(metric.unit, spread.min), value(metric.unit, spread.max))
}

/// A ratio with its interval.
pub(super) fn ratio(ratio: &Ratio) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!("{:.2} ({low:.2} to {high:.2})", ratio.ratio),
        _ => format!("{:.2}", ratio.ratio),
    }
}

/// The ratio of two times whose interval is wider than this says nothing: its end over its beginning.
const NOISY: f64 = 4.0;

fn is_noisy(ratio: &Ratio) -> bool {
    ratio.low.zip(ratio.high).is_some_and(|(low, high)| high > low * NOISY)
}

/// The time against the copy, unless the copy varied too much.
fn to_copy(figures: &VariantFigures) -> String {
    match &figures.to_copy {
        None => NOTHING.into(),
        Some(found) if is_noisy(found) => "cp too noisy".into(),
        Some(found) => ratio(found),
    }
}

/// Warns if the copies took too different times to compare with.
fn noisy_copy(report: &BenchReport) -> Option<String> {
    let is_noisy = report.figures.variants.iter().filter_map(|it| it.to_copy.as_ref()).any(is_noisy);
    let copy = report.figures.copy.as_ref().filter(|_| is_noisy)?;
    let (min, max) = (seconds(copy.min), seconds(copy.max));
    Some(format!(
        "the copy of the snapshot took {min} to {max}: too noisy to compare imports with; add rounds with --runs"
    ))
}

/// By what variants are compared: with the scan where it was measured.
pub(super) fn total_key(report: &BenchReport) -> &'static str {
    let scanned = report.figures.variants.iter().any(|it| it.metrics.contains_key("total_seconds"));
    if scanned { "total_seconds" } else { "wall_seconds" }
}

/// The columns of a table: heading, and what a variant has there.
pub type Columns = Vec<(&'static str, Vec<String>)>;

/// The columns of the table for `wide` terminals and pages, and the few that a terminal has room for. The variants are in
/// the order of their total time, those without one last.
pub fn columns_by_total(report: &BenchReport, wide: bool) -> Columns {
    let total = total_key(report);
    let mut all: Vec<&VariantFigures> = report.figures.variants.iter().collect();
    let time = |it: &&VariantFigures| it.median(total).unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let mut columns = columns_of(report, &all);
    columns.retain(|(name, _)| wide || NARROW.contains(name));
    columns
}

/// The columns with the variants in the order of the command line.
pub(super) fn columns(report: &BenchReport) -> Columns {
    columns_of(report, &report.figures.variants.iter().collect::<Vec<_>>())
}

fn columns_of(report: &BenchReport, all: &[&VariantFigures]) -> Columns {
    let total = total_key(report);
    let medians = |key: &'static str| all.iter().map(|it| median(it, key)).collect::<Vec<_>>();
    let reference = |it: &VariantFigures| match &it.to_reference {
        None if it.runs == 0 => NOTHING.into(),
        None => "1".into(),
        Some(comparison) => comparison.ratios.get(total).map_or(NOTHING.into(), ratio),
    };
    let runs = |it: &VariantFigures| match it.failed {
        0 => it.runs.to_string(),
        failed => format!("{} ({failed} failed)", it.runs + failed),
    };
    let mut columns = vec![
        ("preset", all.iter().map(|it| shown_in_line(&it.variant).into_owned()).collect::<Vec<_>>()),
        ("total", medians(total)),
        ("ratio", all.iter().map(|it| reference(it)).collect()),
        ("import", medians("import_seconds")),
        ("compact", medians("compact_seconds")),
        ("scan", medians("scan_seconds")),
        ("wall / cp", all.iter().map(|it| to_copy(it)).collect()),
        ("CPU", medians("cpu_seconds")),
        ("memory", medians("peak_rss_bytes")),
        ("size", medians("disk_bytes")),
        ("written / payload", medians("write_amplification")),
        ("lookups", medians("lookups_per_second")),
        ("node", medians("node_per_second")),
        ("runs", all.iter().map(|it| runs(it)).collect()),
    ];
    // A column without a measurement is left out.
    columns.retain(|(name, cells)| *name == "preset" || cells.iter().any(|cell| cell != NOTHING));
    columns
}

/// Where, on what, how: name and value, what is not known left out.
pub fn circumstances(report: &BenchReport) -> Vec<(&'static str, String)> {
    let (machine, setup, snapshot) = (&report.machine, &report.setup, &report.snapshot);
    let mut lines = Vec::new();
    let mut say = |name, text: Option<String>| lines.extend(text.map(|text| (name, shown_in_line(&text).into_owned())));
    let cpu = machine.cpu.as_deref().unwrap_or("an unknown processor");
    let memory = machine.memory_bytes.map_or(String::new(), |bytes| format!(", {} of memory", human(bytes)));
    say("machine", Some(format!("{} of {cpu}{memory}", counted(machine.cores as u64, "core", "cores"))));
    let system = [machine.system.as_deref(), machine.kernel.as_deref()].into_iter().flatten().collect::<Vec<_>>();
    say("system", (!system.is_empty()).then(|| system.join(", ")));
    let device = machine.device.as_ref().map_or(String::new(), |device| format!(" on {device}"));
    say("file system", machine.file_system.as_ref().map(|kind| format!("{kind}{device}")));
    say("versions", Some(format!("bedload {}, RocksDB {}", machine.versions.bedload, machine.versions.rocksdb)));
    say(
        "measured",
        report.period().map(|(first, last)| match (date(first), date(last)) {
            (first, last) if first == last => first,
            (first, last) => format!("{first} to {last}"),
        }),
    );
    say("command", setup.command.clone());
    let name = snapshot.path.rsplit('/').next().unwrap_or(&snapshot.path);
    let blocks = snapshot.blocks.map_or(String::new(), |blocks| format!(", {}", counted(blocks, "block", "blocks")));
    say("snapshot", Some(format!("{name}, {}{blocks}", human(snapshot.bytes))));
    let warmup = if setup.warmup > 0 { format!(", {} before to warm up", setup.warmup) } else { String::new() };
    say("rounds", Some(format!("{}{warmup}, {}; page cache {}", setup.runs, setup.order, setup.cache)));
    let scan = report.runs.iter().find_map(|run| run.scan.as_ref());
    say("scan", scan.map(|scan| scan.kind.describe().to_owned()));
    say(
        "copy",
        report
            .figures
            .copy
            .as_ref()
            .and_then(|copy| Some(format!("cp and sync: {}", spread(metric("wall_seconds")?, copy)))),
    );
    lines
}

/// Warnings about the figures.
pub fn warnings(report: &BenchReport) -> Vec<String> {
    let mut lines: Vec<String> = report.setup.notes.clone();
    let mut failures: Vec<(&str, Vec<&str>)> = Vec::new();
    for figures in &report.figures.variants {
        for error in &figures.errors {
            match failures.iter_mut().find(|(known, _)| known == error) {
                Some((_, variants)) => variants.push(&figures.variant),
                None => failures.push((error, vec![&figures.variant])),
            }
        }
    }
    lines.extend(failures.iter().map(|(error, variants)| format!("{} failed: {error}", some_of(variants))));
    for figures in &report.figures.variants {
        for key in [total_key(report), "peak_rss_bytes", "lookups_per_second"] {
            let (Some(metric), Some(found)) = (metric(key), figures.metrics.get(key)) else { continue };
            if !found.outlier_rounds.is_empty() {
                let rounds: Vec<String> = found.outlier_rounds.iter().map(|round| (round + 1).to_string()).collect();
                let (word, rounds) = (if rounds.len() == 1 { "round" } else { "rounds" }, rounds.join(", "));
                lines.push(format!("`{}`: {word} {rounds} lie far out by {}", figures.variant, metric.label));
            }
        }
    }
    lines.extend(uneven_scans(&report.figures.variants));
    lines.extend(noisy_copy(report));
    lines.extend(cold_only_at_first(report));
    let mut notes: Vec<String> = Vec::new();
    for run in &report.runs {
        for note in run.notes.iter().map(|note| format!("`{}`: {note}", run.variant)) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    lines.extend(notes);
    if let Some(found) = &report.figures.recommendation {
        // Failures are reported above, one by one.
        lines.extend(found.caveats.iter().filter(|caveat| !caveat.contains(" failed in ")).cloned());
    }
    lines.iter().map(|line| shown_in_line(line).into_owned()).collect()
}

/// Scans that did not begin alike: some imports leave what they wrote in the page cache, others do not.
fn uneven_scans(variants: &[VariantFigures]) -> Option<String> {
    let share = |it: &VariantFigures| it.median("scan_resident");
    let mut known: Vec<(&str, f64)> =
        variants.iter().filter_map(|it| Some((it.variant.as_str(), share(it)?))).collect();
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

/// What the evidence allows, as the name of the line that says so.
pub(super) fn decision(decision: &Decision) -> &'static str {
    match decision {
        Decision::Use => "use",
        Decision::Only => "only choice",
        Decision::NotDecided => "not decided",
    }
}

/// What "nothing in memory" means where the lookups themselves bring much of a small database into it.
fn cold_only_at_first(report: &BenchReport) -> Option<String> {
    let cold = |run: &Run| run.reads.as_ref()?.cold.as_ref()?.resident_after_hits;
    let shares: Vec<f64> = report.runs.iter().filter(|run| !run.warmup).filter_map(cold).collect();
    let most = shares.into_iter().fold(0.0, f64::max);
    (most > WARMED).then(|| {
        format!(
            "\"nothing in memory\" is true of the first lookups only: by their end up to {:.0} % of the database was in the \
             page cache; on a larger database, or with fewer --lookups, cold lookups are slower",
            most * 100.0
        )
    })
}

/// The recommendation, line by line: what for, and the words.
pub fn recommendation_lines(found: &Recommendation) -> Vec<(&'static str, String)> {
    let default = found.default.as_deref().unwrap_or_default();
    let words = match found.decision {
        Decision::Use | Decision::Only => format!("`{default}`: {}", found.reason),
        Decision::NotDecided => found.reason.clone(),
    };
    let mut lines = vec![(decision(&found.decision), words)];
    lines.extend(found.trade_off.clone().map(|cost| ("cost", cost)));
    let picks = [
        ("fastest", Some(&found.by_total).filter(|_| found.by_memory.is_some() || found.by_reads.is_some())),
        ("least memory", found.by_memory.as_ref()),
        ("fastest reads", found.by_reads.as_ref()),
    ];
    for (name, pick) in picks {
        let Some((pick, metric)) = pick.and_then(|pick| Some((pick, metric(&pick.metric)?))) else { continue };
        let alike: Vec<&str> = pick.no_difference_to.iter().map(String::as_str).collect();
        let alike =
            if alike.is_empty() { String::new() } else { format!("; no difference shown to {}", some_of(&alike)) };
        lines.push((name, format!("`{}`, {} {}{alike}", pick.variant, metric.label, value(metric.unit, pick.median))));
    }
    lines.into_iter().map(|(name, words)| (name, shown_in_line(&words).into_owned())).collect()
}
