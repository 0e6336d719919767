//! The parts of the page below the figures.

use super::super::metrics::Unit;
use super::super::phrases::{median, total_key, value};
use super::super::results::BenchReport;
use super::super::run::{LookupTimes, PressureKind, Run};
use super::chart::{Axis, Band, Dot, Drawing, PANEL, Series, panel, pieces};

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
    ("other", "start, commit, end"),
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
    pub legend: Vec<(&'static str, &'static str)>,
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
        // The parts of one run, as long as the median of all: the figure that the table has, too.
        let figures = report.figures.variants.iter().find(|it| it.variant == *name);
        let middle = figures.and_then(|it| it.median(total_key(report))).unwrap_or_else(|| sum(parts));
        let scale = middle / sum(parts).max(f64::MIN_POSITIVE);
        let spent = || parts.iter().filter(|(_, seconds)| *seconds > 0.0);
        let shares: Vec<(&str, f64)> = spent().map(|(phase, seconds)| (*phase, seconds * scale / longest)).collect();
        let words: Vec<String> =
            spent().map(|(phase, seconds)| format!("{phase} {}", value(Unit::Seconds, seconds * scale))).collect();
        let svg = pieces(&format!("{name}: {}", words.join(", ")), &shares);
        Figure { name, svg, caption: value(Unit::Seconds, middle) }
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
            let bands =
                pressure(report, name).map(|(class, from, to)| Band { class, from: from / unit, to: to / unit });
            let drawing = Drawing { bands: bands.collect(), series, ..Drawing::default() };
            let slowest = points.iter().map(|(_, speed)| speed / MIB).fold(f64::INFINITY, f64::min);
            let caption = format!("slowest {} MiB/s", number(slowest));
            Figure { name, svg: panel(PANEL, &format!("throughput of {name}"), &x, &y, &drawing), caption }
        })
        .collect();
    let mut legend = vec![("k1", "this preset"), ("k3", "the reference")];
    for (class, words) in [("compacting", "a compaction ended"), ("stalled", "writers are slowed down or stopped")] {
        if all.iter().any(|(name, _)| pressure(report, name).any(|(of, ..)| of == class)) {
            legend.push((class, words));
        }
    }
    Some(Chart {
        title: "Throughput over the snapshot",
        what: "MiB of the source read per second, in equal steps of the source: a curve that bends down is an import that gets slower.",
        legend,
        figures,
    })
}

/// The parts of the source during which RocksDB compacted or held writers back, in the typical run of a variant.
fn pressure<'a>(report: &'a BenchReport, variant: &'a str) -> impl Iterator<Item = (&'static str, f64, f64)> + 'a {
    let import = report.typical(variant).and_then(|run| run.import.as_ref());
    import.into_iter().flat_map(|import| &import.pressure).map(|part| {
        let class = match part.what {
            PressureKind::Compaction => "compacting",
            PressureKind::Stall => "stalled",
        };
        (class, part.from_bytes as f64, part.to_bytes as f64)
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
            let drawing = Drawing { series: series.into(), ..Drawing::default() };
            let of = |key| figures_of(report, name, key);
            let caption = format!("at most {}, {} of it its own", of("peak_rss_bytes"), of("peak_anonymous_bytes"));
            Figure { name, svg: panel(PANEL, &format!("memory of {name}"), &x, &y, &drawing), caption }
        })
        .collect();
    Some(Chart {
        title: "Memory over time",
        what: "MiB resident while importing. What is mapped from files the system can take back at any time.",
        legend: vec![("k1", "resident, mapped files included"), ("k2", "its own")],
        figures,
    })
}

/// The median of a metric of a variant, as the tables have it.
fn figures_of(report: &BenchReport, variant: &str, key: &str) -> String {
    report.figures.variants.iter().find(|it| it.variant == variant).map_or_else(String::new, |it| median(it, key))
}

/// The lookups of one state: its class, its name, the metrics of its quantiles, and its times.
type State<'a> = (&'static str, &'static str, [&'static str; 3], &'a LookupTimes);

/// What was measured of hits in a run.
fn states(run: &Run) -> Vec<State<'_>> {
    let Some(reads) = &run.reads else { return Vec::new() };
    let of = |class, name, keys, times| Some((class, name, keys, times));
    let cold = ["cold_hit_p50", "cold_hit_p99", "cold_hit_p999"];
    let warm = ["warm_hit_p50", "warm_hit_p99", "warm_hit_p999"];
    let all = [
        reads.cold.as_ref().and_then(|it| of("line", "cold", cold, &it.hit)),
        reads.warm.as_ref().and_then(|it| of("line2", "warm", warm, &it.hit)),
    ];
    all.into_iter().flatten().filter(|(.., times)| !times.histogram.is_empty()).collect()
}

pub(super) fn latency(report: &BenchReport) -> Option<Chart<'_>> {
    let all: Vec<(&str, Vec<State<'_>>)> =
        typical(report).into_iter().map(|(name, run)| (name, states(run))).filter(|(_, it)| !it.is_empty()).collect();
    let bounds = || {
        let times = all.iter().flat_map(|(_, states)| states).map(|(.., times)| times);
        times.flat_map(|times| times.histogram.iter().map(|(bound, _)| *bound as f64))
    };
    let (low, high) = (bounds().fold(f64::INFINITY, f64::min), bounds().fold(0.0, f64::max));
    if all.is_empty() || high <= 0.0 {
        return None;
    }
    let x = Axis::nines("share of the lookups that took no longer");
    let y = Axis::powers_of_ten(low * 0.84, high, "time of one lookup", |nanoseconds| match nanoseconds {
        it if it < 1e3 => format!("{it:.0} ns"),
        it if it < 1e6 => format!("{:.0} µs", it / 1e3),
        it if it < 1e9 => format!("{:.0} ms", it / 1e6),
        it => format!("{:.0} s", it / 1e9),
    });
    let figures = all
        .iter()
        .map(|(name, states)| {
            let mut drawing = Drawing::default();
            let mut words = Vec::new();
            for (class, state, keys, times) in states {
                drawing.series.push(Series { class, points: curve(times) });
                let medians = keys.map(|key| figures_of(report, name, key));
                for ((share, key), middle) in [0.5, 0.99, 0.999].into_iter().zip(keys).zip(&medians) {
                    let figures = report.figures.variants.iter().find(|it| it.variant == *name);
                    let Some(at) = figures.and_then(|it| it.median(key)) else { continue };
                    let title = format!("{state}: {} % within {middle}", share * 100.0);
                    let at = (nines(share), at.max(1.0).log10());
                    drawing.dots.push(Dot {
                        class: if *class == "line" { "dot" } else { "dot2" },
                        at,
                        title,
                        label: None,
                    });
                }
                let [p50, p99, p999] = medians;
                words.push(format!("{state}: half within {p50}, 99 % within {p99}, 99.9 % within {p999}"));
            }
            let svg = panel(PANEL, &format!("latencies of {name}"), &x, &y, &drawing);
            Figure { name, svg, caption: words.join("; ") }
        })
        .collect();
    Some(Chart {
        title: "How long a lookup takes",
        what: "Single lookups of keys that are there, one thread. Curves are of the typical run; dots are the medians of all runs.",
        legend: vec![("k1", "nothing in memory at first"), ("k2", "everything in memory")],
        figures,
    })
}

/// Where a share is on an axis of nines.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-3).log10()
}

/// The time within which each share of the lookups ended; the axis ends at 99.9 %.
fn curve(times: &LookupTimes) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut done = 0;
    for (bound, count) in &times.histogram {
        let at = (*bound as f64).max(1.0).log10();
        points.push((nines(done as f64 / times.count.max(1) as f64), at));
        done += count;
        let share = done as f64 / times.count.max(1) as f64;
        points.push((nines(share), at));
        if share >= 0.999 {
            break;
        }
    }
    points
}

/// A unit in which a size is a handy number.
pub(super) fn size_unit(bytes: f64) -> (f64, &'static str) {
    if bytes < 2.0 * 1024.0 * MIB { (MIB, "MiB") } else { (1024.0 * MIB, "GiB") }
}

/// A number of an axis: no more digits than it needs.
pub(super) fn number(value: f64) -> String {
    match value {
        _ if value >= 10.0 || value.fract().abs() < 1e-9 => format!("{value:.0}"),
        _ if value >= 1.0 || (value * 10.0).fract().abs() < 1e-9 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
