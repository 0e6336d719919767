//! Recommends a variant if the runs show that it is fast enough.
//!
//! A variant passes if it is shown to be slower than each other one by at most a margin: in enough rounds, and with the whole
//! interval of each ratio of total times (import, compaction and scan). All these tests must hold, so their number does
//! not weaken them (Berger 1982). The reference is recommended if it passes, otherwise the fastest variant that does and is shown
//! to be faster than the reference. Another one that passes is recommended instead if it is shown to look keys up faster by more
//! than the margin: with many variants, some seem to be a little faster by chance. If none of these holds, the reference is kept
//! unless another variant is shown to be faster, and the spread so far gives the number of further rounds that would probably decide.
//! A variant with a failed run is never recommended if another one has none.

use std::cmp::Ordering;

use crate::report::bench::{BenchRun, Better, Decision, Metric, Pick, Recommendation, VariantFigures, metric, some_of};
use crate::report::statistics::{LEAST_PAIRS, MOST_MORE_PAIRS, Ratio, Verdict, is_below, more_pairs};
use crate::text::size::counted;

/// Metrics of the total time. The first one that all variants have is compared.
const TOTAL: [&str; 2] = ["total_seconds", "wall_seconds"];

const MEMORY: &str = "peak_rss_bytes";
const LOOKUPS: &str = "lookups_per_second";

/// Metrics by which another variant may be better than the recommended one, with words for the factor N.
const COSTS: [(&str, &str); 3] = [
    (MEMORY, "takes N times its memory"),
    ("disk_bytes", "takes N times its disk space"),
    (LOOKUPS, "looks up N times as many keys"),
];

pub(super) fn recommend(
    all: &[VariantFigures],
    reference: &str,
    runs: &[BenchRun],
    margin: f64,
) -> Option<Recommendation> {
    let sound: Vec<&VariantFigures> = all.iter().filter(|it| it.failed == 0).collect();
    let candidates =
        if sound.iter().any(|it| it.runs > 0) { sound } else { all.iter().filter(|it| it.runs > 0).collect() };
    let ran: Vec<&VariantFigures> = candidates.iter().copied().filter(|it| it.runs > 0).collect();
    let total = metric(TOTAL.iter().find(|key| ran.iter().all(|it| it.median(key).is_some()))?)?;
    let by_total = pick(&ran, runs, total)?;
    // A single variant that has run is not the best one if others have no run yet.
    let is_compared = ran.len() > 1 || candidates.len() == 1;
    let best = |key| metric(key).filter(|_| is_compared).and_then(|metric| pick(&ran, runs, metric));
    let (by_memory, by_reads) = (best(MEMORY), best(LOOKUPS));

    let judge = Judge { candidates: &candidates, reference, runs, total, limit: 1.0 + margin };
    let (decision, more_rounds, default, reason) = match candidates[..] {
        [only] => {
            let others = if all.len() == 1 { "nothing else was compared" } else { "no other ran without a failure" };
            (Decision::Only, None, Some(only.variant.clone()), others.to_owned())
        }
        _ => match judge.choose(&by_total.variant) {
            Some((chosen, reason)) => (Decision::Use, None, Some(chosen), reason),
            None => {
                let (more, reason) = judge.describe_undecided(&by_total.variant);
                match judge.keeps_reference() {
                    true => {
                        let reason = format!("no other is shown to be faster; to compare them further, {reason}");
                        (Decision::Use, more, Some(reference.to_owned()), reason)
                    }
                    false => (Decision::NotDecided, more, None, reason),
                }
            }
        },
    };
    let trade_off = default.as_ref().map(|name| trade_off(name, &ran, runs, total));
    let failed = all.iter().filter(|it| it.failed > 0).map(|it| {
        let why = it.errors.first().map_or("", String::as_str);
        let of = counted((it.failed + it.runs) as u64, "run", "runs");
        format!("`{}` failed in {} of {of} ({why})", it.variant, it.failed)
    });
    let caveats = failed.chain(digests_differ(runs)).collect();
    Some(Recommendation { decision, more_rounds, by_total, by_memory, by_reads, default, reason, trade_off, caveats })
}

struct Judge<'a> {
    /// All variants that are compared, also those without a run.
    candidates: &'a [&'a VariantFigures],
    reference: &'a str,
    runs: &'a [BenchRun],
    total: &'static Metric,
    /// A ratio passes if its interval is below.
    limit: f64,
}

impl Judge<'_> {
    /// Returns the ratios of `variant` to each other one; `None` if no round has both.
    fn ratios(&self, variant: &str) -> Vec<(&str, Option<Ratio>)> {
        let others = self.candidates.iter().filter(|other| other.variant != variant);
        others.map(|other| (other.variant.as_str(), self.total.ratio(self.runs, variant, &other.variant))).collect()
    }

    fn passes(&self, variant: &str) -> bool {
        self.ratios(variant).iter().all(|(_, ratio)| ratio.as_ref().is_some_and(|it| is_below(it, self.limit)))
    }

    /// True if enough rounds have the reference and each other variant, and none is shown to be faster.
    fn keeps_reference(&self) -> bool {
        let is_kept = |(_, ratio): &(&str, Option<Ratio>)| {
            ratio.as_ref().is_some_and(|it| it.pairs >= LEAST_PAIRS && it.verdict != Verdict::Higher)
        };
        let has_run = self.candidates.iter().any(|it| it.variant == self.reference);
        has_run && self.ratios(self.reference).iter().all(is_kept)
    }

    /// True if `variant` is the reference, or is shown to be faster.
    fn replaces_reference(&self, variant: &str) -> bool {
        let is_faster = |ratio: Option<Ratio>| ratio.is_some_and(|it| is_below(&it, 1.0));
        self.ratios(variant).into_iter().all(|(other, ratio)| other != self.reference || is_faster(ratio))
    }

    /// Returns the variant to use and the reason; `None` if none passes.
    fn choose(&self, fastest: &str) -> Option<(String, String)> {
        let mut passing: Vec<&VariantFigures> =
            self.candidates.iter().copied().filter(|it| self.passes(&it.variant)).collect();
        let time = |it: &VariantFigures| it.median(self.total.key).unwrap_or(f64::MAX);
        let order = |it: &VariantFigures| (it.variant != self.reference, time(it));
        passing.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal));
        let first = *passing.iter().find(|it| self.replaces_reference(&it.variant))?;
        let margin = percent(self.limit - 1.0);
        if let Some(better) = self.find_faster_lookups(first, &passing) {
            let reason = format!(
                "it is shown to take at most {margin} longer in total than any other, and to look keys up more than {margin} faster \
                 than `{}`",
                first.variant
            );
            return Some((better.variant.clone(), reason));
        }
        let ratios = self.ratios(&first.variant);
        let open = |(_, ratio): &&(&str, Option<Ratio>)| ratio.as_ref().is_none_or(|it| it.verdict != Verdict::Lower);
        let alike: Vec<&str> = ratios.iter().filter(open).map(|(name, _)| *name).collect();
        let reason = match alike[..] {
            [] => "the shortest total time; the difference is significant".into(),
            _ if first.variant == fastest => format!(
                "the shortest median of total time; shown to take at most {margin} longer than {}",
                some_of(&alike)
            ),
            _ => format!("it is shown to take at most {margin} longer in total than any other"),
        };
        Some((first.variant.clone(), reason))
    }

    /// Returns the variant with the fastest lookups among those that are shown to be better at it than the first by more than the
    /// margin.
    fn find_faster_lookups<'b>(
        &self,
        first: &VariantFigures,
        passing: &[&'b VariantFigures],
    ) -> Option<&'b VariantFigures> {
        let lookups = metric(LOOKUPS)?;
        let is_shown = |it: &&&VariantFigures| {
            lookups
                .ratio(self.runs, &first.variant, &it.variant)
                .is_some_and(|ratio| is_below(&ratio, 1.0 / self.limit))
        };
        let rate = |it: &VariantFigures| it.median(lookups.key).unwrap_or(0.0);
        passing.iter().filter(is_shown).max_by(|a, b| rate(a).total_cmp(&rate(b))).copied()
    }

    /// Returns the number of further rounds that would probably decide, and the reason.
    fn describe_undecided(&self, fastest: &str) -> (Option<u32>, String) {
        // The variant that needs the fewest rounds to pass decides.
        let needed = |variant: &str| -> Option<usize> {
            let limit = |other: &str| if other == self.reference { 1.0 } else { self.limit };
            let each = self.ratios(variant).into_iter().map(|(other, ratio)| match ratio {
                None => Some(LEAST_PAIRS),
                Some(ratio) => more_pairs(&ratio, limit(other)),
            });
            each.collect::<Option<Vec<usize>>>()?.into_iter().max()
        };
        let more = self.candidates.iter().filter_map(|it| needed(&it.variant)).min().map(|more| more.max(1));
        let worst = self.ratios(fastest).into_iter().max_by(|(_, a), (_, b)| upper_end(a).total_cmp(&upper_end(b)));
        let so_far = match worst {
            Some((other, None)) => format!("no round has both `{fastest}` and `{other}` yet"),
            Some((other, Some(Ratio { low: Some(low), high: Some(high), pairs, .. }))) => format!(
                "after {pairs} rounds `{fastest}` leads, but takes {low:.2} to {high:.2} times as long as `{other}` (95 % interval)"
            ),
            Some((other, Some(_))) => format!("one round of `{fastest}` and `{other}` shows no spread"),
            None => String::new(),
        };
        let advice = match more {
            Some(more) => {
                let made = self.candidates.iter().map(|it| it.runs + it.failed).max().unwrap_or(0);
                format!("run {} (--runs {})", counted(more as u64, "more round", "more rounds"), made + more)
            }
            None => format!("more than {MOST_MORE_PAIRS} more rounds would be needed at this spread"),
        };
        (more.and_then(|more| u32::try_from(more).ok()), format!("{advice}; {so_far}"))
    }
}

fn upper_end(ratio: &Option<Ratio>) -> f64 {
    ratio.as_ref().and_then(|ratio| ratio.high).unwrap_or(f64::INFINITY)
}

/// Formats a share as `5 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if (percent - percent.round()).abs() < 0.05 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// Returns the best variant by one metric, and those that are not shown to be worse.
fn pick(candidates: &[&VariantFigures], runs: &[BenchRun], metric: &Metric) -> Option<Pick> {
    let mut ranked: Vec<(&VariantFigures, f64)> =
        candidates.iter().filter_map(|it| Some((*it, it.median(metric.key)?))).collect();
    ranked.sort_by(|(_, a), (_, b)| match metric.better {
        Better::Lower => a.total_cmp(b),
        Better::Higher => b.total_cmp(a),
    });
    let ((best, median), rest) = ranked.split_first()?;
    let worse = if metric.better == Better::Lower { Verdict::Higher } else { Verdict::Lower };
    let is_shown = |other: &VariantFigures| {
        metric.ratio(runs, &other.variant, &best.variant).is_some_and(|ratio| ratio.verdict == worse)
    };
    Some(Pick {
        variant: best.variant.clone(),
        metric: metric.key.to_owned(),
        median: *median,
        no_difference_to: rest.iter().filter(|(it, _)| !is_shown(it)).map(|(it, _)| it.variant.clone()).collect(),
    })
}

/// Describes what the recommended variant costs: for each metric the best of the others, if it is shown to be better.
fn trade_off(default: &str, candidates: &[&VariantFigures], runs: &[BenchRun], total: &Metric) -> String {
    let of = |name: &str, key: &str| candidates.iter().find(|it| it.variant == name).and_then(|it| it.median(key));
    let times = |name: &str, key: &str| Some(of(name, key)? / of(default, key)?);
    let others = COSTS.iter().filter_map(|(key, words)| {
        let best = pick(candidates, runs, metric(key)?)?;
        if best.variant == default || best.no_difference_to.iter().any(|name| name == default) {
            return None;
        }
        let (factor, time) = (times(&best.variant, key)?, times(&best.variant, total.key)?);
        Some(format!("`{}` {} in {time:.2} times its time", best.variant, words.replace('N', &format!("{factor:.2}"))))
    });
    match others.collect::<Vec<String>>()[..] {
        [] => "no other variant needs less memory or disk space, or looks keys up faster.".into(),
        ref others => format!("{}.", others.join("; ")),
    }
}

/// All variants must have made the same records.
fn digests_differ(runs: &[BenchRun]) -> Option<String> {
    let mut imports = runs.iter().filter_map(|run| Some((&run.variant, &run.import.as_ref()?.digest)));
    let (first, a) = imports.next()?;
    let (other, b) = imports.find(|(_, digest)| *digest != a)?;
    Some(format!("`{first}` and `{other}` made different databases (content digests {a} and {b})"))
}

#[cfg(test)]
mod tests {
    use super::super::figures::figures;
    use super::super::tests::{failed, run};
    use super::*;

    fn judge(runs: &[BenchRun], names: &[&str], margin: f64) -> Recommendation {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        figures(&names, &names[0], margin, runs).recommendation.expect("something ran")
    }

    /// Returns runs by name, lookups per second, and total seconds of each round. The scan takes a quarter of a second.
    fn runs(variants: &[(&str, f64, &[f64])]) -> Vec<BenchRun> {
        let of = |(name, lookups, totals): &(&str, f64, &[f64])| {
            totals.iter().zip(0..).map(|(total, round)| run(name, round, total - 0.25, *lookups)).collect::<Vec<_>>()
        };
        variants.iter().flat_map(of).collect()
    }

    fn decided(found: &Recommendation) -> (Decision, Option<u32>, Option<&str>) {
        (found.decision, found.more_rounds, found.default.as_deref())
    }

    #[test]
    fn runs_determine_the_recommendation() {
        use Decision::{NotDecided, Use};
        let alike: [&[f64]; 2] = [&[1.25, 1.27, 1.24, 1.25, 1.26], &[1.26, 1.27, 1.25, 1.24, 1.28]];
        for (a, b, expected, reason) in [
            (
                (900.0, &[4.25, 4.33, 4.21][..]),
                (300.0, &[1.25, 1.27, 1.24][..]),
                (Use, None, Some("b")),
                "the shortest total time; the difference is significant",
            ),
            // The interval of the ratio is 0.10 to 30 or wider.
            (
                (300.0, &[1.0, 1.0]),
                (9000.0, &[1.4, 2.2]),
                (NotDecided, Some(2), None),
                "run 2 more rounds (--runs 4); after 2 rounds `a` leads, but takes 0.03 to 10.06 times as long as `b` (95 % interval)",
            ),
            (
                (300.0, alike[0]),
                (900.0, alike[1]),
                (Use, None, Some("b")),
                "it is shown to take at most 5 % longer in total than any other, and to look keys up more than 5 % faster than `a`",
            ),
            (
                (300.0, alike[0]),
                (300.0, alike[1]),
                (Use, None, Some("a")),
                "the shortest median of total time; shown to take at most 5 % longer than `b`",
            ),
            (
                (1.0, &[1.0]),
                (1.0, &[4.0]),
                (NotDecided, Some(2), None),
                "run 2 more rounds (--runs 3); one round of `a` and `b` shows no spread",
            ),
            (
                (1.0, &[1.0, 9.0, 1.0]),
                (1.0, &[9.0, 1.0, 1.0]),
                (Use, None, Some("a")),
                "no other is shown to be faster; to compare them further, more than 100 more rounds would be needed at this spread",
            ),
        ] {
            let found = judge(&runs(&[("a", a.0, a.1), ("b", b.0, b.1)]), &["a", "b"], 0.05);
            assert_eq!(decided(&found), expected, "{reason}");
            assert!(found.reason.starts_with(reason), "{}", found.reason);
            assert_eq!(found.trade_off.is_some(), found.default.is_some());
        }
    }

    #[test]
    fn advantages_of_others_are_described() {
        let found = judge(
            &runs(&[("slow", 900.0, &[4.25, 4.33, 4.21]), ("fast", 300.0, &[1.25, 1.27, 1.24])]),
            &["slow", "fast"],
            0.05,
        );
        assert_eq!(
            (found.by_total.variant.as_str(), found.by_reads.expect("measured").variant.as_str()),
            ("fast", "slow")
        );
        let trade_off = "`slow` looks up 3.00 times as many keys in 3.40 times its time.";
        assert_eq!((found.trade_off.as_deref(), found.caveats.len()), (Some(trade_off), 0));
    }

    #[test]
    fn margin_decides_on_slow_imports() {
        let uneven = runs(&[("a", 300.0, &[1.0, 1.1, 0.9, 1.0, 1.05]), ("b", 9000.0, &[2.0, 1.0, 3.0, 2.2, 2.0])]);
        assert_ne!(judge(&uneven, &["b", "a"], 0.05).default.as_deref(), Some("b"), "its lookups do not count");
        assert_eq!(judge(&uneven, &["b", "a"], 0.5).default.as_deref(), Some("a"));
        let alike = runs(&[("a", 300.0, &[1.25, 1.27, 1.24]), ("b", 900.0, &[1.26, 1.27, 1.25])]);
        let found = judge(&alike, &["a", "b"], 0.001);
        assert_eq!((found.more_rounds.is_some(), found.default.as_deref()), (true, Some("a")));
    }

    #[test]
    fn reference_is_kept_without_a_faster_variant() {
        let alike = runs(&[("a", 300.0, &[1.25, 1.27, 1.24, 1.25]), ("b", 300.0, &[1.26, 1.27, 1.25, 1.26])]);
        for reference in ["a", "b"] {
            let other = if reference == "a" { "b" } else { "a" };
            let found = judge(&alike, &[reference, other], 0.05);
            assert_eq!((found.default.as_deref(), &*found.by_total.variant), (Some(reference), "a"));
        }
        // Shown to be faster, but by less than the margin. With many variants some are so by chance.
        let faster = runs(&[("a", 306.0, &[1.0, 1.01, 1.0, 1.01]), ("b", 300.0, &[1.03, 1.04, 1.03, 1.04])]);
        assert_eq!(judge(&faster, &["b", "a"], 0.05).default.as_deref(), Some("b"));
        // The other one is shown to be within the margin, the reference is not, but it is not shown to be slower either.
        let uneven = runs(&[("a", 300.0, &[1.0, 1.12, 1.0, 1.08, 0.99]), ("b", 300.0, &[0.97, 0.98, 1.0, 0.99, 0.97])]);
        assert_eq!(decided(&judge(&uneven, &["a", "b"], 0.05)), (Decision::Use, Some(2), Some("a")));
        // One that is shown to be faster, but not yet than a third one.
        let three =
            [("a", 300.0, &[2.0, 2.1, 2.0][..]), ("b", 300.0, &[1.0, 1.3, 1.0]), ("c", 300.0, &[1.2, 1.0, 1.1])];
        assert_eq!(judge(&runs(&three), &["a", "b", "c"], 0.05).decision, Decision::NotDecided);
        let much_faster = runs(&[("a", 300.0, &[1.0, 1.01, 1.0, 1.01]), ("b", 300.0, &[1.09, 1.1, 1.09, 1.1])]);
        assert_eq!(judge(&much_faster, &["b", "a"], 0.05).default.as_deref(), Some("a"));
    }

    #[test]
    fn smaller_database_is_a_cost_of_others() {
        let mut all = runs(&[("a", 300.0, &[1.0, 1.01, 1.0]), ("b", 300.0, &[1.3, 1.31, 1.3])]);
        for run in &mut all {
            run.import.as_mut().expect("an import").disk_bytes = Some(if run.variant == "a" { 200 } else { 100 });
        }
        let found = judge(&all, &["a", "b"], 0.05);
        assert_eq!(found.trade_off.as_deref(), Some("`b` takes 0.50 times its disk space in 1.30 times its time."));
    }

    #[test]
    fn failed_and_missing_runs_prevent_a_win() {
        let mut runs = runs(&[("a", 300.0, &[1.0, 1.1, 0.9])]);
        let found = judge(&runs, &["a", "b"], 0.05);
        assert_eq!(decided(&found), (Decision::NotDecided, Some(3), None));
        assert_eq!(found.reason, "run 3 more rounds (--runs 6); no round has both `a` and `b` yet");
        runs.push(failed("b", 0, "out of room"));
        let found = judge(&runs, &["a", "b"], 0.05);
        assert_eq!(decided(&found), (Decision::Only, None, Some("a")));
        assert_eq!(found.reason, "no other ran without a failure");
        assert_eq!(judge(&runs, &["a"], 0.05).reason, "nothing else was compared");
        runs.extend([run("b", 1, 0.5, 1.0), failed("a", 3, "out of room")]);
        runs.retain(|run| run.variant == "a" || run.failure.is_none());
        let found = judge(&runs, &["a", "b"], 0.05);
        assert_eq!(decided(&found), (Decision::Only, None, Some("b")), "the other one has a failed run");
        assert_eq!(found.caveats, ["`a` failed in 1 of 4 runs (import: out of room)"]);
    }

    #[test]
    fn different_databases_are_reported() {
        let mut runs = runs(&[("a", 1.0, &[1.0]), ("b", 1.0, &[4.0])]);
        runs[1].import.as_mut().expect("an import").digest = "ff".into();
        let found = judge(&runs, &["a", "b"], 0.05);
        assert_eq!(found.by_total.no_difference_to, ["b"]);
        assert_eq!(found.caveats, ["`a` and `b` made different databases (content digests 00 and ff)"]);
    }
}
