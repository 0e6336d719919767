//! Computes figures from runs: medians, and ratios of runs of the same round.

use super::recommendation::recommend;
use crate::report::bench::{BenchFigures, BenchRun, COPY, METRICS, VariantFigures, VariantRatios, metric};
use crate::report::statistics::spread;

/// Computes the figures of `variants` from the successful runs that count. `margin` is the share by which a variant may be
/// slower than another one and still be recommended.
pub fn figures(variants: &[String], reference: &str, margin: f64, runs: &[BenchRun]) -> BenchFigures {
    let all: Vec<VariantFigures> = variants.iter().map(|variant| of_variant(variant, reference, runs)).collect();
    let copy = metric("wall_seconds").and_then(|wall| spread(&wall.values(runs, COPY)));
    let recommendation = recommend(&all, reference, runs, margin);
    BenchFigures { reference: reference.to_owned(), margin, copy, variants: all, recommendation }
}

fn of_variant(variant: &str, reference: &str, runs: &[BenchRun]) -> VariantFigures {
    let own = || runs.iter().filter(|run| run.variant == variant && !run.warmup);
    let mut errors: Vec<String> = Vec::new();
    for failure in own().filter_map(|run| run.failure.as_ref()) {
        let text = format!("{}: {}", failure.action, failure.error);
        if !errors.contains(&text) {
            errors.push(text);
        }
    }
    let ratios = |against: &str| {
        METRICS.iter().filter_map(|it| Some((it.key.to_owned(), it.ratio(runs, variant, against)?))).collect()
    };
    VariantFigures {
        variant: variant.to_owned(),
        runs: own().filter(|run| run.failure.is_none()).count(),
        failed: own().filter(|run| run.failure.is_some()).count(),
        errors,
        metrics: METRICS
            .iter()
            .filter_map(|it| Some((it.key.to_owned(), spread(&it.values(runs, variant))?)))
            .collect(),
        to_reference: (variant != reference)
            .then(|| VariantRatios { against: reference.to_owned(), ratios: ratios(reference) }),
        to_copy: metric("wall_seconds").and_then(|wall| wall.ratio(runs, variant, COPY)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{copy, failed, run};
    use super::*;
    use crate::report::statistics::Verdict;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn ratios_compare_runs_of_one_round() {
        // The machine gets four times slower from round to round; `b` always takes twice as long as `a`.
        let mut runs = Vec::new();
        for (round, slow) in [(0, 1.0), (1, 4.0), (2, 16.0)] {
            runs.extend([copy(round, slow), run("a", round, slow * 2.0, 1.0), run("b", round, slow * 4.0, 1.0)]);
        }
        let figures = figures(&names(&["a", "b"]), "a", 0.05, &runs);
        let b = figures.of("b").expect("b");
        let ratio = &b.to_reference.as_ref().expect("compared").ratios["wall_seconds"];
        assert!((ratio.ratio - 2.0).abs() < 1e-9, "{ratio:?}");
        assert_eq!((ratio.pairs, ratio.verdict), (3, Verdict::Higher));
        assert!((b.to_copy.as_ref().expect("with the copy").ratio - 4.0).abs() < 1e-9);
        assert!(figures.of("a").expect("a").to_reference.is_none());
        assert_eq!(figures.copy.as_ref().map(|copy| copy.median), Some(4.0));
    }

    #[test]
    fn only_successful_runs_count() {
        let mut warmup = run("a", 0, 1000.0, 1.0);
        warmup.warmup = true;
        let runs = [warmup, run("a", 0, 2.0, 1.0), failed("a", 1, "no room"), failed("a", 2, "no room")];
        let figures = figures(&names(&["a", "gone"]), "a", 0.05, &runs);
        let a = figures.of("a").expect("a");
        assert_eq!((a.runs, a.failed, a.errors.as_slice()), (1, 2, names(&["import: no room"]).as_slice()));
        assert_eq!(a.median("wall_seconds"), Some(2.0));
        assert_eq!(a.median("stalls"), None, "what was not measured is missing");
        let gone = figures.of("gone").expect("asked for");
        assert_eq!((gone.runs, gone.metrics.len()), (0, 0));
    }
}
