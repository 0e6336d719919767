//! The parts of the page below the figures.

use super::super::metrics::Unit;
use super::super::phrases::value;
use super::super::results::BenchReport;
use super::super::run::{LookupTimes, Run};
use super::chart::{Axis, Series, panel, pieces};

const MIB: f64 = (1 << 20) as f64;

/// Equal steps of the source that a curve of throughput is drawn in.
const STEPS: usize = 24;

/// Presets beside one another in the table of all metrics: what a sheet of paper has room for.
pub(super) const ABREAST: usize = 4;

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

/// A variant's drawing, which is HTML, between texts.
pub(super) struct Figure<'a> {
    pub name: &'a str,
    pub svg: String,
    pub caption: String,
}

/// A heading, what the colours mean, and one figure a variant.
pub(super) struct Chart<'a> {
    pub title: &'static str,
    pub what: &'static str,
    pub legend: [(&'static str, &'static str); 2],
    pub figures: Vec<Figure<'a>>,
}

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
    let sum: f64 = all.iter().map(|(_, seconds)| seconds).sum::<f64>() - scan;
    if let Some((_, other)) = all.last_mut() {
        *other = (wall - sum).max(0.0);
    }
    all
}

/// The phases that are seen, with their classes, and a bar of them for each variant.
pub(super) fn phases(report: &BenchReport) -> (Vec<(&'static str, &'static str)>, Vec<Figure<'_>>) {
    let all: Vec<(&str, Vec<(&'static str, f64)>)> = typical(report)
        .into_iter()
        .map(|(name, run)| (name, phase_seconds(run)))
        .filter(|(_, it)| !it.is_empty())
        .collect();
    let sum = |parts: &[(&str, f64)]| parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let longest = all.iter().map(|(_, parts)| sum(parts)).fold(0.0, f64::max);
    if longest <= 0.0 {
        return Default::default();
    }
    let is_seen = |(class, _): &(&str, &str)| {
        all.iter().flat_map(|(_, parts)| parts).any(|(phase, seconds)| phase == class && *seconds > longest / 2000.0)
    };
    let bars = all.iter().map(|(name, parts)| {
        let spent = || parts.iter().filter(|(_, seconds)| *seconds > 0.0);
        let shares: Vec<(&str, f64)> = spent().map(|(phase, seconds)| (*phase, seconds / longest)).collect();
        let words: Vec<String> =
            spent().map(|(phase, seconds)| format!("{phase} {}", value(Unit::Seconds, *seconds))).collect();
        let svg = pieces(&format!("{name}: {}", words.join(", ")), &shares);
        Figure { name, svg, caption: value(Unit::Seconds, sum(parts)) }
    });
    (PHASES.into_iter().filter(is_seen).collect(), bars.collect())
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

pub(super) fn throughput(report: &BenchReport) -> Option<Chart<'_>> {
    let all: Vec<(&str, Vec<(f64, f64)>)> = typical(report)
        .into_iter()
        .map(|(name, run)| (name, speeds(run)))
        .filter(|(_, points)| points.len() > 2)
        .collect();
    let highest = all.iter().flat_map(|(_, points)| points).map(|(_, speed)| speed / MIB).fold(0.0, f64::max);
    if all.is_empty() {
        return None;
    }
    let (unit, name) = size_unit(report.snapshot.bytes as f64);
    let x = Axis::up_to(report.snapshot.bytes as f64 / unit, 5.0, &format!("{name} of the snapshot"), number);
    let y = Axis::linear(highest, 4.0, "MiB/s", number);
    let scaled = |points: &[(f64, f64)]| points.iter().map(|(at, speed)| (at / unit, speed / MIB)).collect::<Vec<_>>();
    let reference = all.iter().find(|(name, _)| *name == report.figures.reference).map(|(_, points)| scaled(points));
    let figures = all
        .iter()
        .map(|(name, points)| {
            let mut series = Vec::new();
            if *name != report.figures.reference {
                series.extend(reference.clone().map(|points| Series { class: "reference", points }));
            }
            series.push(Series { class: "line", points: scaled(points) });
            let slowest = points.iter().map(|(_, speed)| speed / MIB).fold(f64::INFINITY, f64::min);
            let caption = format!("slowest {} MiB/s", number(slowest));
            Figure { name, svg: panel(&format!("throughput of {name}"), &x, &y, &series), caption }
        })
        .collect();
    Some(Chart {
        title: "Throughput over the snapshot",
        what: "MiB of the source read per second, in equal steps of the source: a curve that bends down is an import that gets slower.",
        legend: [("k1", "this preset"), ("k3", "the reference")],
        figures,
    })
}

pub(super) fn memory(report: &BenchReport) -> Option<Chart<'_>> {
    let all = typical(report);
    let samples = |run: &Run| run.process.as_ref().map(|process| process.memory.clone()).unwrap_or_default();
    let highest = all.iter().flat_map(|(_, run)| samples(run)).map(|it| it.rss_bytes as f64 / MIB).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let y = Axis::linear(highest, 4.0, "MiB", number);
    let figures = all
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
            Figure { name, svg: panel(&format!("memory of {name}"), &x, &y, &series), caption }
        })
        .collect();
    Some(Chart {
        title: "Memory over time",
        what: "MiB resident while importing. What is mapped from files the system can take back at any time.",
        legend: [("k1", "resident, mapped files included"), ("k2", "its own")],
        figures,
    })
}

pub(super) fn latency(report: &BenchReport) -> Option<Chart<'_>> {
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
        return None;
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
    let figures = all
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
            let svg = panel(&format!("latencies of {name}"), &x, &y, &series);
            Figure { name, svg, caption: words.join("; ") }
        })
        .collect();
    Some(Chart {
        title: "How long a lookup takes",
        what: "Single lookups of keys that are there, one thread: the share of them in each quarter of a doubling of time.",
        legend: [("k1", "nothing in memory"), ("k2", "everything in memory")],
        figures,
    })
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
