//! Which preset to use, and what that costs.
//!
//! The default is the fastest by total time (import, compaction, and the scan that follows). Where others are not shown
//! to be slower, the one of them that is shown to look keys up faster is preferred. A preset with a failed run is never
//! recommended while there is one without.
//!
//! One round has no interval that could show anything: there a difference counts from the factor `PLAIN` on, and the
//! reason says so.

use super::rounds::Rounds;
use crate::report::bench::{
    Better, Metric, Pick, Ratio, Recommendation, Run, VariantFigures, Verdict, metric, some_of,
};

/// Rounds from which an interval begins to mean something.
const FEW: usize = 3;

/// The factor that a single round must show.
const PLAIN: f64 = 1.5;

/// What variants are compared by for the total: the scan belongs to it where it was measured.
const TOTAL: [&str; 2] = ["total_seconds", "wall_seconds"];

pub(super) fn recommend(all: &[VariantFigures], rounds: &Rounds<'_>, runs: &[Run]) -> Option<Recommendation> {
    let sound: Vec<&VariantFigures> = all.iter().filter(|it| it.runs > 0 && it.failed == 0).collect();
    let some: Vec<&VariantFigures> = all.iter().filter(|it| it.runs > 0).collect();
    let candidates = if sound.is_empty() { some } else { sound };
    let total = TOTAL.iter().find(|key| candidates.iter().all(|it| it.median(key).is_some()))?;
    let total = metric(total)?;
    let by_total = pick(&candidates, rounds, total)?;
    let by_memory = metric("peak_rss_bytes").and_then(|metric| pick(&candidates, rounds, metric));
    let by_reads = metric("lookups_per_second").and_then(|metric| pick(&candidates, rounds, metric));

    let (default, reason) = default(&candidates, rounds, &by_total, all.len());
    let trade_off = trade_off(&default, &candidates, total, by_memory.as_ref(), by_reads.as_ref());
    let mut caveats = Vec::new();
    let least = candidates.iter().map(|it| it.runs).min().unwrap_or(0);
    if least < FEW {
        let rounds = if least == 1 { "one round".into() } else { format!("{least} rounds") };
        caveats.push(format!("{rounds} only: run more to tell differences from noise"));
    }
    for failed in all.iter().filter(|it| it.failed > 0) {
        let why = failed.errors.first().map_or("", String::as_str);
        caveats.push(format!(
            "`{}` failed in {} of {} runs ({why})",
            failed.variant,
            failed.failed,
            failed.failed + failed.runs
        ));
    }
    caveats.extend(digests_differ(runs));
    Some(Recommendation { by_total, by_memory, by_reads, default, reason, trade_off, caveats })
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
        rounds.ratio(metric, &other.variant, &best.variant).is_some_and(|ratio| verdict(&ratio) == worse)
    };
    Some(Pick {
        variant: best.variant.clone(),
        metric: metric.key.to_owned(),
        median: *median,
        no_difference_to: rest.iter().filter(|(it, _)| !is_shown(it)).map(|(it, _)| it.variant.clone()).collect(),
    })
}

/// What a ratio says; where it has no interval, by its size.
fn verdict(ratio: &Ratio) -> Verdict {
    match ratio.verdict {
        Verdict::Unknown if ratio.ratio >= PLAIN => Verdict::Higher,
        Verdict::Unknown if ratio.ratio <= 1.0 / PLAIN => Verdict::Lower,
        known => known,
    }
}

/// The variant to use, and why.
fn default(candidates: &[&VariantFigures], rounds: &Rounds<'_>, by_total: &Pick, compared: usize) -> (String, String) {
    let fastest = &by_total.variant;
    if compared == 1 {
        return (fastest.clone(), "nothing else was compared".into());
    }
    let alike: Vec<&str> = by_total.no_difference_to.iter().map(String::as_str).collect();
    let lookups = metric("lookups_per_second");
    let better = candidates
        .iter()
        .filter(|it| alike.contains(&it.variant.as_str()))
        .filter(|it| {
            let ratio = lookups.and_then(|metric| rounds.ratio(metric, &it.variant, fastest));
            ratio.is_some_and(|ratio| verdict(&ratio) == Verdict::Higher)
        })
        .max_by(|a, b| {
            a.median("lookups_per_second").unwrap_or(0.0).total_cmp(&b.median("lookups_per_second").unwrap_or(0.0))
        });
    if let Some(better) = better {
        let reason = format!(
            "no difference in total time to `{fastest}`, which has the lowest median, is shown, and it looks keys up faster"
        );
        return (better.variant.clone(), reason);
    }
    let reason = match alike[..] {
        [] if candidates.iter().any(|it| it.runs == 1) => {
            format!("the shortest total time, by a factor of {PLAIN} or more")
        }
        [] => "the shortest total time, by more than the noise".into(),
        _ => format!("the shortest median of total time; no difference is shown to {}", some_of(&alike)),
    };
    (fastest.clone(), reason)
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

    fn judged(runs: &[Run], names: &[&str]) -> Recommendation {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        figures(&names, &names[0], runs).recommendation.expect("something ran")
    }

    fn rounds(list: &[(&str, f64, f64)]) -> Vec<Run> {
        let noise = [1.0, 1.02, 0.99];
        (0..3)
            .flat_map(|round| {
                list.iter().map(move |(name, wall, lookups)| run(name, round, wall * noise[round as usize], *lookups))
            })
            .collect()
    }

    #[test]
    fn the_fastest_by_more_than_the_noise_is_the_default() {
        let found = judged(&rounds(&[("slow", 4.0, 900.0), ("fast", 1.0, 300.0)]), &["slow", "fast"]);
        assert_eq!((found.default.as_str(), found.by_total.variant.as_str()), ("fast", "fast"));
        assert_eq!(found.reason, "the shortest total time, by more than the noise");
        assert_eq!(found.by_reads.expect("measured").variant, "slow");
        assert_eq!(found.trade_off, "`slow` looks up 3.00 times as many keys in 3.40 times its time.");
        assert_eq!(found.caveats, Vec::<String>::new());
    }

    #[test]
    fn of_equals_the_one_with_faster_lookups_is_the_default() {
        let mut runs = rounds(&[("a", 1.0, 300.0)]);
        runs.extend([(0, 1.1), (1, 0.95), (2, 1.05)].map(|(round, wall)| run("b", round, wall, 900.0)));
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(found.by_total.variant, "a");
        assert_eq!(found.by_total.no_difference_to, ["b"]);
        assert_eq!(found.default, "b");
        assert_eq!(found.trade_off, "nothing measured here is given up for it.");
    }

    #[test]
    fn a_variant_that_failed_is_not_recommended() {
        let mut runs = rounds(&[("a", 1.0, 1.0), ("b", 3.0, 1.0)]);
        runs.push(failed("a", 3, "out of room"));
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(found.default, "b");
        assert_eq!(found.caveats, ["`a` failed in 1 of 4 runs (import: out of room)"]);
    }

    #[test]
    fn one_round_is_too_few_and_different_records_are_told() {
        let mut runs = vec![run("a", 0, 1.0, 1.0), run("b", 0, 1.2, 1.0)];
        runs[1].import.as_mut().expect("an import").digest = "ff".into();
        let found = judged(&runs, &["a", "b"]);
        assert_eq!(found.default, "a");
        assert_eq!(found.reason, "the shortest median of total time; no difference is shown to `b`");
        assert_eq!(
            found.caveats,
            [
                "one round only: run more to tell differences from noise",
                "`a` and `b` made different databases (content digests 00 and ff)"
            ]
        );
    }

    #[test]
    fn one_round_shows_only_what_is_plain() {
        let all = [run("a", 0, 1.0, 100.0), run("b", 0, 1.2, 900.0), run("c", 0, 9.0, 2000.0)];
        let found = judged(&all, &["a", "b", "c"]);
        assert_eq!(
            (found.by_total.variant.as_str(), &found.by_total.no_difference_to[..]),
            ("a", &["b".to_owned()][..])
        );
        assert_eq!(found.default, "b", "nine times the lookups in about the time");
        assert_eq!(found.trade_off, "`c` looks up 2.22 times as many keys in 6.38 times its time.");
        let found = judged(&[run("a", 0, 1.0, 1.0), run("b", 0, 4.0, 1.0)], &["a", "b"]);
        assert_eq!(found.reason, "the shortest total time, by a factor of 1.5 or more");
    }
}
