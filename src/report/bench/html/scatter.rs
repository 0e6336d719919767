//! Size against time: what no other preset beats in both.

use super::super::metrics::{Unit, metric};
use super::super::phrases::{total_key, value};
use super::super::results::BenchReport;
use super::super::run::Run;
use super::chart::{Axis, Dot, Drawing, NARROW, Series, WIDE, panel};
use super::sections::{number, size_unit};

/// A wide and a narrow chart of the variants' medians of time and size, with every single run; `None` if no variant has both.
pub(super) fn scatter(report: &BenchReport) -> Option<[String; 2]> {
    let time = metric(total_key(report))?;
    let size = metric("disk_bytes")?;
    let of_run = |run: &Run| Some((time.of(run)?, size.of(run)?));
    let variants: Vec<(&str, (f64, f64))> = report
        .figures
        .variants
        .iter()
        .filter_map(|it| Some((it.variant.as_str(), (it.median(time.key)?, it.median(size.key)?))))
        .collect();
    let runs: Vec<(&str, u32, (f64, f64))> = variants
        .iter()
        .flat_map(|(name, _)| report.counted(name))
        .filter_map(|run| Some((run.variant.as_str(), run.round, of_run(run)?)))
        .collect();
    let all = || variants.iter().map(|(_, at)| at).chain(runs.iter().map(|(.., at)| at));
    let (slowest, largest) = all().fold((0.0, 0.0), |(a, b): (f64, f64), (x, y)| (a.max(*x), b.max(*y)));
    if slowest <= 0.0 || largest <= 0.0 {
        return None;
    }
    let (unit, name) = size_unit(largest);
    let scaled = |(seconds, bytes): (f64, f64)| (seconds, bytes / unit);
    let words =
        |(seconds, bytes): (f64, f64)| format!("{}, {}", value(Unit::Seconds, seconds), value(Unit::Bytes, bytes));
    let front = front(&variants.iter().map(|(_, at)| *at).collect::<Vec<_>>());
    let mut dots: Vec<Dot<'_>> = runs
        .iter()
        .map(|(name, round, at)| {
            let title = format!("{name}, round {}: {}", round + 1, words(*at));
            Dot { class: "run", at: scaled(*at), title, label: None }
        })
        .collect();
    // The best first, so that their labels have their place.
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_by_key(|index| !front.contains(index));
    dots.extend(order.into_iter().filter_map(|index| {
        let (name, at) = variants.get(index)?;
        let class = if front.contains(&index) { "best" } else { "dot" };
        Some(Dot { class, at: scaled(*at), title: format!("{name}: {}", words(*at)), label: Some(name) })
    }));
    let points = front.iter().filter_map(|index| variants.get(*index)).map(|(_, at)| scaled(*at)).collect();
    let series = vec![Series { class: "front", points }];
    let x = Axis::linear(slowest, 6.0, &format!("{}, in seconds", time.label), number);
    let y = Axis::linear(largest / unit, 5.0, &format!("size of the database, in {name}"), number);
    let drawing = Drawing { series, dots, ..Drawing::default() };
    Some([WIDE, NARROW].map(|frame| panel(frame, "size of the database against time", &x, &y, &drawing)))
}

/// Those that no other is better than in one and at least as good as in the other, by the first.
fn front(points: &[(f64, f64)]) -> Vec<usize> {
    let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    let mut found: Vec<usize> = points
        .iter()
        .enumerate()
        .filter(|(_, at)| !points.iter().any(|other| beats(other, at)))
        .map(|it| it.0)
        .collect();
    found.sort_by(|a, b| points[*a].0.total_cmp(&points[*b].0));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_what_no_other_beats_in_both() {
        assert_eq!(front(&[(3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (3.0, 3.0), (2.0, 2.5)]), [1, 2, 0]);
        assert_eq!(front(&[(1.0, 1.0), (1.0, 1.0)]), [0, 1], "equal ones beat each other in nothing");
        assert_eq!(front(&[]), Vec::<usize>::new());
    }
}
