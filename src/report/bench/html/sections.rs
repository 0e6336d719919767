//! The parts of the page below the figures.

use super::super::metrics::{METRICS, Unit};
use super::super::phrases::{NOTHING, spread, value};
use super::super::results::BenchReport;
use super::super::run::{LookupTimes, Run};
use super::chart::{Axis, Series, panel, pieces};
use super::{escape, table, with_range};

const MIB: f64 = (1 << 20) as f64;

/// Equal steps of the source that a curve of throughput is drawn in.
const STEPS: usize = 24;

/// Presets beside one another in the table of all metrics: what a sheet of paper has room for.
const ABREAST: usize = 4;

/// What a bar is made of: the phase's name in reports, its class, its name for people.
const PHASES: [(&str, &str); 7] = [
    ("read", "read"),
    ("build", "build"),
    ("ingest", "ingest"),
    ("compact", "compact"),
    ("check", "check"),
    ("scan", "scan"),
    ("other", "start, publish, end"),
];

/// The variants that ran, each with its typical run.
fn typical(report: &BenchReport) -> Vec<(&str, &Run)> {
    let names = report.variants.iter().map(|variant| variant.name.as_str());
    names.filter_map(|name| Some((name, report.typical(name)?))).collect()
}

/// Seconds of each phase; what no phase claims is `other`.
fn phase_seconds(run: &Run) -> Vec<(&'static str, f64)> {
    let Some(import) = &run.import else { return Vec::new() };
    let scan = run.scan.as_ref().map_or(0.0, |scan| scan.seconds);
    let of = |name: &str| match name {
        "scan" => scan,
        "other" => 0.0,
        name => import.phases.iter().filter(|(phase, _)| phase == name).map(|(_, seconds)| seconds).sum(),
    };
    let mut all: Vec<(&'static str, f64)> = PHASES.iter().map(|(name, _)| (*name, of(name))).collect();
    let wall = run.process.as_ref().map_or(0.0, |process| process.seconds);
    let told: f64 = all.iter().map(|(_, seconds)| seconds).sum::<f64>() - scan;
    if let Some((_, other)) = all.last_mut() {
        *other = (wall - told).max(0.0);
    }
    all
}

pub(super) fn phases(report: &BenchReport) -> String {
    let all: Vec<(&str, Vec<(&'static str, f64)>)> = typical(report)
        .into_iter()
        .map(|(name, run)| (name, phase_seconds(run)))
        .filter(|(_, it)| !it.is_empty())
        .collect();
    let sum = |parts: &[(&str, f64)]| parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let longest = all.iter().map(|(_, parts)| sum(parts)).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let mut text = String::from(
        "<section>\n<h2>Where the time goes</h2>\n<p class=\"note\">Of each preset the run whose wall time is the \
         median one, and the scan behind it.</p>\n<p class=\"legend\">",
    );
    for (class, name) in PHASES {
        if all
            .iter()
            .any(|(_, parts)| parts.iter().any(|(phase, seconds)| *phase == class && *seconds > longest / 2000.0))
        {
            text.push_str(&format!("<span><i class=\"{class}\"></i>{name}</span>"));
        }
    }
    text.push_str("</p>\n<div class=\"bars\">\n");
    for (name, parts) in &all {
        let total = value(Unit::Seconds, sum(parts));
        let shares: Vec<(&str, f64)> = parts
            .iter()
            .filter(|(_, seconds)| *seconds > 0.0)
            .map(|(phase, seconds)| (*phase, seconds / longest))
            .collect();
        let words: Vec<String> = parts
            .iter()
            .filter(|(_, seconds)| *seconds > 0.0)
            .map(|(phase, seconds)| format!("{phase} {}", value(Unit::Seconds, *seconds)))
            .collect();
        let name = escape(name);
        text.push_str(&format!(
            "<div class=\"bar\"><div class=\"label\"><span>{name}</span><span>{total}</span></div>{}</div>\n",
            pieces(&format!("{name}: {}", words.join(", ")), &shares)
        ));
    }
    text.push_str("</div>\n</section>\n");
    text
}

/// Bytes per second over equal steps of the source: the middle of each step, and the speed in it.
fn speeds(run: &Run) -> Vec<(f64, f64)> {
    let Some(import) = &run.import else { return Vec::new() };
    let width = (import.source_bytes / STEPS as u64).max(1);
    let mut points = Vec::new();
    let (mut bytes, mut seconds) = (0, 0.0);
    for (index, step) in import.curve.iter().enumerate() {
        let is_last = index + 1 == import.curve.len();
        let (more, time) = (step.bytes.saturating_sub(bytes), step.seconds - seconds);
        // What is left at the end is too little to be a speed of its own, unless it is a fair part of a step.
        if (more >= width || (is_last && more * 2 >= width)) && time > 0.0 {
            points.push(((bytes as f64 + more as f64 / 2.0), more as f64 / time));
            (bytes, seconds) = (step.bytes, step.seconds);
        }
    }
    points
}

pub(super) fn throughput(report: &BenchReport) -> String {
    let all: Vec<(&str, Vec<(f64, f64)>)> = typical(report)
        .into_iter()
        .map(|(name, run)| (name, speeds(run)))
        .filter(|(_, points)| points.len() > 2)
        .collect();
    let highest = all.iter().flat_map(|(_, points)| points).map(|(_, speed)| speed / MIB).fold(0.0, f64::max);
    if all.is_empty() {
        return String::new();
    }
    let (unit, name) = size_unit(report.snapshot.bytes as f64);
    let x = Axis::up_to(report.snapshot.bytes as f64 / unit, 5.0, &format!("{name} of the snapshot"), number);
    let y = Axis::linear(highest, 4.0, "MiB/s", number);
    let scaled = |points: &[(f64, f64)]| points.iter().map(|(at, speed)| (at / unit, speed / MIB)).collect::<Vec<_>>();
    let reference = all.iter().find(|(name, _)| *name == report.figures.reference).map(|(_, points)| scaled(points));
    let figures: Vec<(String, String, String)> = all
        .iter()
        .map(|(name, points)| {
            let mut series = Vec::new();
            if *name != report.figures.reference {
                series.extend(reference.clone().map(|points| Series { class: "reference", points }));
            }
            series.push(Series { class: "line", points: scaled(points) });
            let slowest = points.iter().map(|(_, speed)| speed / MIB).fold(f64::INFINITY, f64::min);
            let caption = format!("slowest {} MiB/s", number(slowest));
            (escape(name), panel(&format!("throughput of {}", escape(name)), &x, &y, &series), caption)
        })
        .collect();
    section(
        "Throughput over the snapshot",
        "MiB of the source read per second, in equal steps of the source: a curve that bends down is an import that gets slower.",
        &[("k1", "this preset"), ("k3", "the reference")],
        &figures,
    )
}

pub(super) fn memory(report: &BenchReport) -> String {
    let all = typical(report);
    let samples = |run: &Run| run.process.as_ref().map(|process| process.memory.clone()).unwrap_or_default();
    let highest = all.iter().flat_map(|(_, run)| samples(run)).map(|it| it.rss_bytes as f64 / MIB).fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let y = Axis::linear(highest, 4.0, "MiB", number);
    let figures: Vec<(String, String, String)> = all
        .iter()
        .map(|(name, run)| (*name, samples(run)))
        .filter(|(_, samples)| samples.len() > 2)
        .map(|(name, samples)| {
            let end = samples.last().map_or(0.0, |sample| sample.seconds);
            let x = Axis::up_to(end, 5.0, "seconds", number);
            let series = [
                Series {
                    class: "area",
                    points: samples.iter().map(|it| (it.seconds, it.rss_bytes as f64 / MIB)).collect(),
                },
                Series {
                    class: "area2",
                    points: samples.iter().map(|it| (it.seconds, it.anonymous_bytes as f64 / MIB)).collect(),
                },
            ];
            let peak =
                |of: fn(&super::super::run::MemorySample) -> u64| samples.iter().map(of).max().unwrap_or(0) as f64;
            let caption = format!(
                "at most {}, {} of it its own",
                value(Unit::Bytes, peak(|it| it.rss_bytes)),
                value(Unit::Bytes, peak(|it| it.anonymous_bytes))
            );
            (escape(name), panel(&format!("memory of {}", escape(name)), &x, &y, &series), caption)
        })
        .collect();
    section(
        "Memory over time",
        "MiB resident while importing. What is mapped from files the system can take back at any time.",
        &[("k1", "resident, mapped files included"), ("k2", "its own")],
        &figures,
    )
}

pub(super) fn latency(report: &BenchReport) -> String {
    type Both<'a> = (&'a str, Option<&'a LookupTimes>, Option<&'a LookupTimes>);
    let all: Vec<Both<'_>> = typical(report)
        .into_iter()
        .filter_map(|(name, run)| {
            let reads = run.reads.as_ref()?;
            Some((name, reads.cold.as_ref().map(|it| &it.hit), reads.warm.as_ref().map(|it| &it.hit)))
        })
        .filter(|(_, cold, warm)| [cold, warm].iter().any(|it| it.is_some_and(|it| !it.histogram.is_empty())))
        .collect();
    let bounds = || {
        let latencies = all.iter().flat_map(|(_, cold, warm)| [*cold, *warm]).flatten();
        latencies.flat_map(|latency| latency.histogram.iter().map(|(bound, _)| *bound as f64))
    };
    let (low, high) = (bounds().fold(f64::INFINITY, f64::min), bounds().fold(0.0, f64::max));
    if all.is_empty() || high <= 0.0 {
        return String::new();
    }
    let x = Axis::powers_of_ten(low * 0.84, high, "time of one lookup", |nanoseconds| match nanoseconds {
        it if it < 1e3 => format!("{it:.0} ns"),
        it if it < 1e6 => format!("{:.0} µs", it / 1e3),
        it if it < 1e9 => format!("{:.0} ms", it / 1e6),
        it => format!("{:.0} s", it / 1e9),
    });
    let share = |latency: &LookupTimes| {
        latency.histogram.iter().map(|(_, count)| *count as f64 / latency.count as f64).fold(0.0, f64::max)
    };
    let highest = all.iter().flat_map(|(_, cold, warm)| [*cold, *warm]).flatten().map(share).fold(0.0, f64::max);
    let y = Axis::linear(highest * 100.0, 4.0, "%", |it| format!("{it:.0} %"));
    let figures: Vec<(String, String, String)> = all
        .iter()
        .map(|(name, cold, warm)| {
            let mut series = Vec::new();
            let mut words = Vec::new();
            for (class, state, latency) in [("area", "cold", cold), ("area2", "warm", warm)] {
                let Some(latency) = latency else { continue };
                series.push(Series { class, points: outline(latency) });
                if let (Some(p50), Some(p99)) = (latency.p50_ns, latency.p99_ns) {
                    let show = |it: u64| value(Unit::Nanoseconds, it as f64);
                    words.push(format!("{state}: half within {}, 99 % within {}", show(p50), show(p99)));
                }
            }
            (escape(name), panel(&format!("latencies of {}", escape(name)), &x, &y, &series), words.join("; "))
        })
        .collect();
    section(
        "How long a lookup takes",
        "Single lookups of keys that are there, one thread: the share of them in each quarter of a doubling of time.",
        &[("k1", "nothing in memory"), ("k2", "everything in memory")],
        &figures,
    )
}

/// The outline of a histogram: flat over each bucket, down to zero between buckets that do not touch.
fn outline(latency: &LookupTimes) -> Vec<(f64, f64)> {
    const BUCKET: f64 = 0.075_257_498_915_995; // log10 of a quarter of a doubling
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (bound, count) in &latency.histogram {
        let (to, share) = ((*bound as f64).log10(), *count as f64 * 100.0 / latency.count as f64);
        let from = to - BUCKET;
        match points.last().copied() {
            Some((end, _)) if from - end > BUCKET / 2.0 => points.extend([(end, 0.0), (from, 0.0)]),
            None => points.push((from, 0.0)),
            _ => {}
        }
        points.extend([(from, share), (to, share)]);
    }
    if let Some((end, _)) = points.last().copied() {
        points.push((end, 0.0));
    }
    points
}

pub(super) fn every_metric(report: &BenchReport) -> String {
    let all = &report.figures.variants;
    let measured = || METRICS.iter().filter(|metric| all.iter().any(|it| it.metrics.contains_key(metric.key)));
    let mut text =
        String::from("<section>\n<h2>Every metric</h2>\n<p class=\"note\">Medians, and the range in brackets.</p>\n");
    for variants in all.chunks(ABREAST) {
        let headings: Vec<String> =
            std::iter::once("metric".to_owned()).chain(variants.iter().map(|it| escape(&it.variant))).collect();
        let rows = measured().map(|metric| {
            let cells = variants.iter().map(|it| match it.metrics.get(metric.key) {
                Some(found) => with_range(&spread(metric, found)),
                None => NOTHING.into(),
            });
            let name = format!("<span title=\"{}\">{}</span>", escape(metric.doc), escape(metric.label));
            (std::iter::once(name).chain(cells).collect(), false)
        });
        text.push_str(&table(&headings, rows));
    }
    text.push_str("</section>\n");
    text
}

pub(super) fn options(report: &BenchReport) -> String {
    let shown: Vec<_> = report.variants.iter().filter(|variant| !variant.options.is_empty()).collect();
    if shown.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section>\n<h2>Effective options</h2>\n<p class=\"note\">Of the finished database, read back from RocksDB: what was \
         asked for or differs from its defaults.</p>\n",
    );
    for variant in shown {
        let asked: Vec<&str> = variant.set.iter().chain(&variant.arguments).map(String::as_str).collect();
        let asked = if asked.is_empty() { String::new() } else { format!(", with {}", escape(&asked.join(", "))) };
        text.push_str(&format!(
            "<details><summary>{}</summary>\n<p class=\"note\">{}; loader {}{asked}</p>\n",
            escape(&variant.name),
            escape(&variant.summary),
            escape(&variant.loader)
        ));
        let headings = ["option", "value", "default"].map(str::to_owned);
        let rows = variant.options.iter().map(|row| {
            let cells = [&row.option, &row.value, &row.default].map(|cell| format!("<code>{}</code>", escape(cell)));
            (cells.to_vec(), false)
        });
        text.push_str(&table(&headings, rows));
        text.push_str("</details>\n");
    }
    text.push_str("</section>\n");
    text
}

/// A heading, what the colours mean, and one figure a variant.
fn section(title: &str, what: &str, legend: &[(&str, &str)], figures: &[(String, String, String)]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut text = format!("<section>\n<h2>{title}</h2>\n<p class=\"note\">{what}</p>\n<p class=\"legend\">");
    legend.iter().for_each(|(class, name)| text.push_str(&format!("<span><i class=\"{class}\"></i>{name}</span>")));
    text.push_str("</p>\n<div class=\"panels\">\n");
    for (name, svg, caption) in figures {
        text.push_str(&format!("<figure><h3>{name}</h3>\n{svg}\n<figcaption>{caption}</figcaption></figure>\n"));
    }
    text.push_str("</div>\n</section>\n");
    text
}

/// A unit in which a size is a handy number.
fn size_unit(bytes: f64) -> (f64, &'static str) {
    if bytes < 2.0 * 1024.0 * MIB { (MIB, "MiB") } else { (1024.0 * MIB, "GiB") }
}

/// A number of an axis: no more digits than it needs.
fn number(value: f64) -> String {
    match value {
        _ if value >= 10.0 || value.fract().abs() < 1e-9 => format!("{value:.0}"),
        _ if value >= 1.0 || (value * 10.0).fract().abs() < 1e-9 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
