//! Which preset to use, what that costs, and whether the runs show it.
//!
//! A variant is to be used when it is shown to take at most a margin longer than every other: in enough rounds, and with
//! the whole interval of each ratio of total times (import, compaction, and the scan that follows). Each of these must
//! hold, so that their number weakens none of them (Berger 1982). Of those that pass, the fastest is taken, or one that is
//! shown to look keys up faster. Where none passes nothing is decided, and the spread so far tells how many more rounds
//! would probably do. A variant with a failed run is never recommended while there is one without.

use super::rounds::Rounds;
use crate::report::bench::{
    Better, Decision, Metric, Pick, Ratio, Recommendation, Run, VariantFigures, Verdict, metric, some_of,
};
use crate::report::statistics::{LEAST_PAIRS, MOST_MORE_PAIRS, is_below, more_pairs};
use crate::text::size::counted;

/// What variants are compared by for the total: the scan belongs to it where it was measured.
const TOTAL: [&str; 2] = ["total_seconds", "wall_seconds"];

pub(super) fn recommend(
    all: &[VariantFigures],
    rounds: &Rounds<'_>,
    runs: &[Run],
    margin: f64,
) -> Option<Recommendation> {
    let sound: Vec<&VariantFigures> = all.iter().filter(|it| it.failed == 0).collect();
    let candidates =
        if sound.iter().any(|it| it.runs > 0) { sound } else { all.iter().filter(|it| it.runs > 0).collect() };
    let ran: Vec<&VariantFigures> = candidates.iter().copied().filter(|it| it.runs > 0).collect();
    let total = TOTAL.iter().find(|key| ran.iter().all(|it| it.median(key).is_some()))?;
    let total = metric(total)?;
    let by_total = pick(&ran, rounds, total)?;
    // Where others have no run yet, the only one that ran has won nothing.
    let compared = ran.len() > 1 || candidates.len() == 1;
    let best = |key| metric(key).filter(|_| compared).and_then(|metric| pick(&ran, rounds, metric));
    let (by_memory, by_reads) = (best("peak_rss_bytes"), best("lookups_per_second"));

    let judge = Judge { candidates: &candidates, rounds, total, limit: 1.0 + margin };
    let (decision, more_rounds, default, reason) = match candidates[..] {
        [only] => {
            let others = if all.len() == 1 { "nothing else was compared" } else { "no other ran without a failure" };
            (Decision::Only, None, Some(only.variant.clone()), others.to_owned())
        }
        _ => match judge.choose(&by_total.variant) {
            Some((chosen, reason)) => (Decision::Use, None, Some(chosen), reason),
            None => {
                let (more, reason) = judge.undecided(&by_total.variant);
                (Decision::NotDecided, more, None, reason)
            }
        },
    };
    let trade_off = default.as_ref().map(|name| trade_off(name, &ran, total, by_memory.as_ref(), by_reads.as_ref()));
    let mut caveats = Vec::new();
    for failed in all.iter().filter(|it| it.failed > 0) {
        let why = failed.errors.first().map_or("", String::as_str);
        caveats.push(format!(
            "`{}` failed in {} of {} ({why})",
            failed.variant,
            failed.failed,
            counted((failed.failed + failed.runs) as u64, "run", "runs")
        ));
    }
    caveats.extend(digests_differ(runs));
    Some(Recommendation { decision, more_rounds, by_total, by_memory, by_reads, default, reason, trade_off, caveats })
}

/// Judges by total time.
struct Judge<'a> {
    /// All that are compared, also those that have no run yet.
    candidates: &'a [&'a VariantFigures],
    rounds: &'a Rounds<'a>,
    total: &'a Metric,
    /// What a ratio must be shown to be below.
    limit: f64,
}

impl Judge<'_> {
    /// The ratios of `variant` to each of the others; `None` where no round has both.
    fn ratios(&self, variant: &str) -> Vec<(&str, Option<Ratio>)> {
        let others = self.candidates.iter().filter(|other| other.variant != variant);
        others.map(|other| (other.variant.as_str(), self.rounds.ratio(self.total, variant, &other.variant))).collect()
    }

    fn passes(&self, variant: &str) -> bool {
        self.ratios(variant).iter().all(|(_, ratio)| ratio.as_ref().is_some_and(|it| is_below(it, self.limit)))
    }

    /// The variant to use, and why; `None` where none is shown to be as fast as the others.
    fn choose(&self, fastest: &str) -> Option<(String, String)> {
        let mut passing: Vec<&VariantFigures> =
            self.candidates.iter().copied().filter(|it| self.passes(&it.variant)).collect();
        let time = |it: &VariantFigures| it.median(self.total.key).unwrap_or(f64::MAX);
        passing.sort_by(|a, b| time(a).total_cmp(&time(b)));
        let first = *passing.first()?;
        let margin = percent(self.limit - 1.0);
        if let Some(better) = self.better_to_read(&passing) {
            let reason = format!(
                "it is shown to take at most {margin} longer in total than any other, and to look keys up faster than `{}`",
                first.variant
            );
            return Some((better.variant.clone(), reason));
        }
        let ratios = self.ratios(&first.variant);
        let open = |(_, ratio): &&(&str, Option<Ratio>)| ratio.as_ref().is_none_or(|it| it.verdict != Verdict::Lower);
        let alike: Vec<&str> = ratios.iter().filter(open).map(|(name, _)| *name).collect();
        let reason = match alike[..] {
            [] => "the shortest total time, by more than the noise".into(),
            _ if first.variant == fastest => format!(
                "the shortest median of total time; shown to take at most {margin} longer than {}",
                some_of(&alike)
            ),
            _ => format!("it is shown to take at most {margin} longer in total than any other"),
        };
        Some((first.variant.clone(), reason))
    }

    /// The one of `passing` that looks keys up fastest, if it is shown to be better at that than the first of them.
    fn better_to_read<'b>(&self, passing: &[&'b VariantFigures]) -> Option<&'b VariantFigures> {
        let lookups = metric("lookups_per_second")?;
        let (first, rest) = passing.split_first()?;
        let is_shown = |it: &&&VariantFigures| {
            // That this one is better is that the ratio of the first one to it is below one.
            self.rounds.ratio(lookups, &first.variant, &it.variant).is_some_and(|ratio| is_below(&ratio, 1.0))
        };
        let rate = |it: &VariantFigures| it.median(lookups.key).unwrap_or(0.0);
        rest.iter().filter(is_shown).max_by(|a, b| rate(a).total_cmp(&rate(b))).copied()
    }

    /// How many more rounds would probably decide, and what is known so far.
    fn undecided(&self, fastest: &str) -> (Option<u32>, String) {
        // For each variant what it takes to show that it passes; the easiest of these decides.
        let needed = |variant: &str| -> Option<usize> {
            let each = self.ratios(variant).into_iter().map(|(_, ratio)| match ratio {
                None => Some(LEAST_PAIRS),
                Some(ratio) => more_pairs(&ratio, self.limit),
            });
            each.collect::<Option<Vec<usize>>>()?.into_iter().max()
        };
        let more = self.candidates.iter().filter_map(|it| needed(&it.variant)).min().map(|more| more.max(1));
        let worst = self.ratios(fastest).into_iter().max_by(|(_, a), (_, b)| open(a).total_cmp(&open(b)));
        let so_far = match worst {
            Some((other, None)) => format!("`{other}` has no run beside one of `{fastest}` yet"),
            Some((other, Some(Ratio { low: Some(low), high: Some(high), pairs, .. }))) => format!(
                "after {pairs} rounds `{fastest}` is the fastest by the median, but may take {low:.2} to {high:.2} times the \
                 total time of `{other}`"
            ),
            Some((other, Some(_))) => {
                format!("one round of `{fastest}` and `{other}` has no spread that shows anything")
            }
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

/// Up to which ratio it is open how two compare.
fn open(ratio: &Option<Ratio>) -> f64 {
    ratio.as_ref().and_then(|ratio| ratio.high).unwrap_or(f64::INFINITY)
}

/// `5 %`
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if (percent - percent.round()).abs() < 0.05 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// The best by one metric, and those not shown to be worse.
fn pick(candidates: &[&VariantFigures], rounds: &Rounds<'_>, metric: &Metric) -> Option<Pick> {
    let mut ranked: Vec<(&VariantFigures, f64)> =
        candidates.iter().filter_map(|it| Some((*it, it.median(metric.key)?))).collect();
    ranked.sort_by(|(_, a), (_, b)| match metric.better {
        Better::Lower => a.total_cmp(b),
        Better::Higher => b.total_cmp(a),
    });
    let ((best, median), rest) = ranked.split_first()?;
    let worse = match metric.better {
        Better::Lower => Verdict::Higher,
        Better::Higher => Verdict::Lower,
    };
    let is_shown = |other: &VariantFigures| {
        rounds.ratio(metric, &other.variant, &best.variant).is_some_and(|ratio| ratio.verdict == worse)
    };
    Some(Pick {
        variant: best.variant.clone(),
        metric: metric.key.to_owned(),
        median: *median,
        no_difference_to: rest.iter().filter(|(it, _)| !is_shown(it)).map(|(it, _)| it.variant.clone()).collect(),
    })
}

/// What choosing `default` gives up, in one sentence.
fn trade_off(
    default: &str,
    candidates: &[&VariantFigures],
    total: &Metric,
    by_memory: Option<&Pick>,
    by_reads: Option<&Pick>,
) -> String {
    let of = |name: &str, key: &str| candidates.iter().find(|it| it.variant == name).and_then(|it| it.median(key));
    let times = |name: &str, key: &str| Some(of(name, key)? / of(default, key)?);
    let mut others = Vec::new();
    let gives_up = |pick: &&Pick| pick.variant != default && !pick.no_difference_to.iter().any(|name| name == default);
    if let Some(pick) = by_memory.filter(gives_up)
        && let (Some(memory), Some(time)) = (times(&pick.variant, "peak_rss_bytes"), times(&pick.variant, total.key))
    {
        others.push(format!("`{}` takes {memory:.2} times its memory and {time:.2} times its time", pick.variant));
    }
    if let Some(pick) = by_reads.filter(gives_up)
        && let (Some(reads), Some(time)) = (times(&pick.variant, "lookups_per_second"), times(&pick.variant, total.key))
    {
        others.push(format!("`{}` looks up {reads:.2} times as many keys in {time:.2} times its time", pick.variant));
    }
    match others[..] {
        [] => "nothing measured here is given up for it.".into(),
        _ => format!("{}.", others.join("; ")),
    }
}

/// Every variant must have made the same records of the same keys.
fn digests_differ(runs: &[Run]) -> Option<String> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for run in runs {
        if let Some(import) = &run.import
            && !seen.iter().any(|(_, digest)| *digest == import.digest)
        {
            seen.push((&run.variant, &import.digest));
        }
    }
    let [(first, a), (other, b), ..] = seen[..] else { return None };
    Some(format!("`{first}` and `{other}` made different databases (content digests {a} and {b})"))
}

#[cfg(test)]
mod tests {
    use super::super::analyse::figures;
    use super::super::testing::{failed, run};
    use super::*;

    const MARGIN: f64 = 0.05;

    fn judged_with(runs: &[Run], names: &[&str], margin: f64) -> Recommendation {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        figures(&names, &names[0], margin, runs).recommendation.expect("something ran")
    }

    fn judged(runs: &[Run], names: &[&str]) -> Recommendation {
        judged_with(runs, names, MARGIN)
    }

    fn rounds(list: &[(&str, f64, f64)]) -> Vec<Run> {
        let noise = [1.0, 1.02, 0.99];
        (0..3)
            .flat_map(|round| {
                list.iter().map(move |(name, wall, lookups)| run(name, round, wall * noise[round as usize], *lookups))
            })
            .collect()
    }

    /// Runs of one variant by their total seconds, of which the scan takes a quarter of a second.
    fn totals(name: &str, lookups: f64, totals: &[f64]) -> Vec<Run> {
        totals.iter().zip(0..).map(|(total, round)| run(name, round, total - 0.25, lookups)).collect()
    }

    fn decided(found: &Recommendation) -> (Decision, Option<u32>, Option<&str>) {
        (found.decision, found.more_rounds, found.default.as_deref())
    }

    #[test]
    fn the_fastest_by_more_than_the_noise_is_the_default() {
        let found = judged(&rounds(&[("slow", 4.0, 900.0), ("fast", 1.0, 300.0)]), &["slow", "fast"]);
        assert_eq!(decided(&found), (Decision::Use, None, Some("fast")));
        assert_eq!(found.by_total.variant, "fast");
        assert_eq!(found.reason, "the shortest total time, by more than the noise");
        assert_eq!(found.by_reads.expect("measured").variant, "slow");
        let trade_off = "`slow` looks up 3.00 times as many keys in 3.40 times its time.";
        assert_eq!(found.trade_off.as_deref(), Some(trade_off));
        assert_eq!(found.caveats, Vec::<String>::new());
    }

    #[test]
    fn equality_that_is_not_shown_is_not_assumed() {
        // Two rounds, 0.5 and 6 times: the interval of the ratio is 0.10 to 30 or wider.
        let mut runs = totals("a", 300.0, &[1.0, 1.0]);
        runs.extend(totals("b", 9000.0, &[1.4, 2.2]));
        let found = judged(&runs, &["a", "b"]);
        let (decision, more, default) = decided(&found);
        assert_eq!((decision, default), (Decision::NotDecided, None), "{}", found.reason);
        assert_eq!(more, Some(2));
        assert_eq!(found.trade_off, None);
        assert_eq!(
            found.reason,
            "run 2 more rounds (--runs 4); after 2 rounds `a` is the fastest by the median, but may take 0.03 to 10.06 times the \
             total time of `b`"
        );
    }

    #[test]
    fn a_variant_that_takes_twice_as_long_is_not_used_for_its_lookups() {
        let mut runs = totals("a", 300.0, &[1.0, 1.1, 0.9, 1.0, 1.05]);
        runs.extend(totals("b", 9000.0, &[2.0, 1.0, 3.0, 2.2, 2.0]));
        let found = judged(&runs, &["b", "a"]);
        assert_ne!(found.default.as_deref(), Some("b"), "{}", found.reason);
        assert_eq!(judged_with(&runs, &["b", "a"], 0.5).default.as_deref(), Some("a"), "a wide margin decides");
    }

    #[test]
    fn of_equals_the_one_with_faster_lookups_is_the_default() {
        let mut runs = totals("a", 300.0, &[1.25, 1.27, 1.24, 1.25, 1.26]);
        runs.extend(totals("b", 900.0, &[1.26, 1.27, 1.25, 1.24, 1.28]));
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(found.by_total.variant, "a");
        assert_eq!(found.by_total.no_difference_to, ["b"]);
        assert_eq!(decided(&found), (Decision::Use, None, Some("b")), "{}", found.reason);
        assert_eq!(
            found.reason,
            "it is shown to take at most 5 % longer in total than any other, and to look keys up faster than `a`"
        );
        assert_eq!(found.trade_off.as_deref(), Some("nothing measured here is given up for it."));
        let found = judged_with(&runs, &["a", "b"], 0.001);
        assert_eq!((found.decision, found.default), (Decision::NotDecided, None), "by another margin nothing is shown");
    }

    #[test]
    fn of_equals_that_read_alike_the_fastest_is_the_default_with_what_was_shown() {
        let mut runs = totals("a", 300.0, &[1.25, 1.27, 1.24, 1.25, 1.26]);
        runs.extend(totals("b", 300.0, &[1.26, 1.27, 1.25, 1.24, 1.28]));
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(decided(&found), (Decision::Use, None, Some("a")));
        assert_eq!(found.reason, "the shortest median of total time; shown to take at most 5 % longer than `b`");
    }

    #[test]
    fn a_variant_that_failed_is_not_recommended() {
        let mut runs = rounds(&[("a", 1.0, 1.0), ("b", 3.0, 1.0)]);
        runs.push(failed("a", 3, "out of room"));
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(decided(&found), (Decision::Only, None, Some("b")));
        assert_eq!(found.caveats, ["`a` failed in 1 of 4 runs (import: out of room)"]);
    }

    #[test]
    fn over_a_variant_that_never_ran_there_is_no_win() {
        let mut runs = totals("a", 300.0, &[1.0, 1.1, 0.9]);
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(decided(&found), (Decision::NotDecided, Some(3), None));
        assert_eq!(found.reason, "run 3 more rounds (--runs 6); `b` has no run beside one of `a` yet");
        runs.extend((0..3).map(|round| failed("b", round, "out of room")));
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(decided(&found), (Decision::Only, None, Some("a")));
        assert_eq!(found.reason, "no other ran without a failure");
        assert_eq!(judged(&runs, &["a"]).reason, "nothing else was compared");
    }

    #[test]
    fn one_round_is_too_few_and_different_records_are_reported() {
        let mut runs = vec![run("a", 0, 1.0, 1.0), run("b", 0, 4.0, 1.0)];
        runs[1].import.as_mut().expect("an import").digest = "ff".into();
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(decided(&found), (Decision::NotDecided, Some(2), None));
        assert_eq!(
            found.reason,
            "run 2 more rounds (--runs 3); one round of `a` and `b` has no spread that shows anything"
        );
        assert_eq!(found.by_total.no_difference_to, ["b"]);
        assert_eq!(found.caveats, ["`a` and `b` made different databases (content digests 00 and ff)"]);
    }

    #[test]
    fn where_rounds_are_too_uneven_no_number_is_promised() {
        let mut runs = totals("a", 1.0, &[1.0, 9.0, 1.0]);
        runs.extend(totals("b", 1.0, &[9.0, 1.0, 1.0]));
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(decided(&found), (Decision::NotDecided, None, None));
        assert!(
            found.reason.starts_with("more than 100 more rounds would be needed at this spread"),
            "{}",
            found.reason
        );
    }
}
