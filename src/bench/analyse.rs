//! Computes figures from runs, each with its uncertainty.

use super::recommend;
use super::rounds::Rounds;
use crate::report::bench::{COPY, Comparison, Figures, METRICS, Metric, Run, VariantFigures};
use crate::report::statistics;

/// Computes the figures of `variants` from `runs`; those of rounds that warm up, and failed ones, do not count. The
/// others are compared with the variant `reference`. `margin` is the share by which a variant may be slower than another
/// and still be recommended.
pub fn figures(variants: &[String], reference: &str, margin: f64, runs: &[Run]) -> Figures {
    let rounds = Rounds::new(runs);
    let copy = statistics::spread(&rounds.values(COPY, &wall()));
    let mut all: Vec<VariantFigures> =
        variants.iter().map(|variant| of_variant(variant, reference, &rounds, runs)).collect();
    for figures in &mut all {
        figures.to_copy = rounds.ratio(&wall(), &figures.variant, COPY);
    }
    let recommendation = recommend::recommend(&all, &rounds, runs, margin);
    Figures { reference: reference.to_owned(), margin, copy, variants: all, recommendation }
}

fn wall() -> Metric {
    *crate::report::bench::metric("wall_seconds").expect("a row of the metrics")
}

fn of_variant(variant: &str, reference: &str, rounds: &Rounds<'_>, runs: &[Run]) -> VariantFigures {
    let own = || runs.iter().filter(|run| run.variant == variant && !run.warmup);
    let mut errors: Vec<String> = Vec::new();
    for failure in own().filter_map(|run| run.failure.as_ref()) {
        let text = format!("{}: {}", failure.action, failure.error);
        if !errors.contains(&text) {
            errors.push(text);
        }
    }
    let spread = |metric: &Metric| statistics::spread(&rounds.values(variant, metric));
    let metrics = METRICS.iter().filter_map(|metric| Some((metric.key.to_owned(), spread(metric)?))).collect();
    let to_reference = (variant != reference).then(|| Comparison {
        against: reference.to_owned(),
        ratios: METRICS
            .iter()
            .filter_map(|metric| Some((metric.key.to_owned(), rounds.ratio(metric, variant, reference)?)))
            .collect(),
    });
    VariantFigures {
        variant: variant.to_owned(),
        runs: own().filter(|run| run.failure.is_none()).count(),
        failed: own().filter(|run| run.failure.is_some()).count(),
        errors,
        metrics,
        to_reference,
        to_copy: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{copy, failed, run};
    use super::*;
    use crate::report::bench::Verdict;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
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
    fn warm_up_and_failed_runs_do_not_count_and_failures_are_reported_once() {
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
