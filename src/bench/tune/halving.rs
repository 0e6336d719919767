//! Successive halving (Jamieson and Talwalkar 2016), with a third instead of a half: many candidates on little data,
//! the better ones on more. Between samples the changes of the best are put together.
//!
//! Nothing here knows how a candidate is measured: tests give it a table.

use super::space::Candidate;
use crate::error::Result;

/// The smallest sample, in bytes: less is over before it can be measured.
const MIN_SAMPLE: u64 = 16 << 20;

/// How much larger each sample is than the one before.
const GROWTH: u64 = 4;

/// Rounds on each sample.
pub(super) const SAMPLE_ROUNDS: u32 = 2;

/// Of so many candidates one remains.
const KEEP_ONE_OF: usize = 3;

/// From how many of the best changes are put together.
const TOGETHER: usize = 4;

/// The most changes in one candidate.
const MOST_CHANGES: usize = 4;

/// Between two runs of the start there are at most so many candidates: machines drift.
const BETWEEN: usize = 4;

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rung {
    pub bytes: u64,
    /// The number of the first round: what is looked at again is measured again.
    pub first: u32,
    pub rounds: u32,
}

/// Something that can measure candidates.
pub(super) trait Measure {
    /// What each costs against the start on a sample: below one is better, `None` for one that failed. `None` for all when
    /// the time is over.
    fn ratios(&mut self, rung: &Rung, list: &[Candidate]) -> Result<Option<Vec<Option<f64>>>>;
}

/// The best candidate after the last sample that there was time for; `None` when none is better than the start.
///
/// # Errors
/// As [`Measure::ratios`].
pub(super) fn search(
    measure: &mut dyn Measure,
    mut alive: Vec<Candidate>,
    rungs: &[Rung],
) -> Result<Option<Candidate>> {
    let mut best = None;
    for (index, rung) in rungs.iter().enumerate() {
        if alive.is_empty() {
            break;
        }
        let Some(ratios) = measure.ratios(rung, &alive)? else { break };
        let mut ranked: Vec<(Candidate, f64)> = alive
            .into_iter()
            .zip(ratios)
            .filter_map(|(candidate, ratio)| Some((candidate, ratio?)))
            .filter(|(_, ratio)| *ratio < 1.0)
            .collect();
        ranked.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        best = ranked.first().map(|(candidate, _)| candidate.clone());
        let mut kept: Vec<Candidate> = ranked.into_iter().map(|(candidate, _)| candidate).collect();
        let together = combined(&kept);
        let keep = kept.len().div_ceil(KEEP_ONE_OF);
        kept.truncate(keep);
        for more in together {
            if !kept.contains(&more) {
                kept.push(more);
            }
        }
        alive = kept;
        if index + 1 == rungs.len() && rungs.len() == 1 && !alive.is_empty() {
            // A single sample: what was put together has not been seen yet.
            let again = Rung { first: rung.first + rung.rounds, ..*rung };
            let Some(ratios) = measure.ratios(&again, &alive)? else { break };
            let found = alive.iter().zip(ratios).filter_map(|(candidate, ratio)| Some((candidate, ratio?)));
            let found = found.filter(|(_, ratio)| *ratio < 1.0).min_by(|(_, a), (_, b)| a.total_cmp(b));
            best = found.map(|(candidate, _)| candidate.clone());
        }
    }
    Ok(best)
}

/// How many candidates there are at most on the sample behind one that has so many.
pub(super) fn at_most_behind(count: usize) -> usize {
    let others = count.saturating_sub(1).min(TOGETHER - 1);
    count.div_ceil(KEEP_ONE_OF) + (2 * others).saturating_sub(1)
}

/// The candidates of a round in their order, `None` for the start: it runs first and last and after every [`BETWEEN`]
/// candidates, so that each of them stands between two runs of it. The candidates are turned by `turn` places.
pub(super) fn places(count: usize, turn: usize) -> Vec<Option<usize>> {
    let mut places = Vec::with_capacity(starts_of(count) + count);
    for step in 0..count {
        if step % BETWEEN == 0 {
            places.push(None);
        }
        places.push(Some((step + turn) % count));
    }
    places.push(None);
    places
}

/// How often the start runs in a round with so many candidates.
pub(super) fn starts_of(count: usize) -> usize {
    count.div_ceil(BETWEEN) + 1
}

/// The best with the next best ones that change something else, one after the other.
fn combined(ranked: &[Candidate]) -> Vec<Candidate> {
    let Some((best, rest)) = ranked.split_first() else { return Vec::new() };
    let mut found: Vec<Candidate> = Vec::new();
    let mut all = best.clone();
    for other in rest.iter().take(TOGETHER - 1) {
        found.extend(best.with(other).filter(|both| both.changes.len() <= MOST_CHANGES));
        if let Some(more) = all.with(other).filter(|more| more.changes.len() <= MOST_CHANGES) {
            all = more;
            if !found.contains(&all) {
                found.push(all.clone());
            }
        }
    }
    found
}

/// The sizes of the samples, in bytes.
pub fn rungs(bytes: u64) -> Vec<Rung> {
    let mut sizes: Vec<u64> = Vec::new();
    let mut size = bytes / GROWTH;
    while size >= MIN_SAMPLE && sizes.len() < 3 {
        sizes.push(size);
        size /= GROWTH;
    }
    if sizes.is_empty() {
        // Small as it is: all of it.
        sizes.push(bytes);
    }
    sizes.reverse();
    sizes.into_iter().map(|bytes| Rung { bytes, first: 0, rounds: SAMPLE_ROUNDS }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tune::Change;

    /// Each change multiplies the cost by the factor behind its value; small samples add noise.
    struct Table {
        seen: Vec<(u64, usize)>,
        time_for: usize,
    }

    impl Measure for Table {
        fn ratios(&mut self, rung: &Rung, list: &[Candidate]) -> Result<Option<Vec<Option<f64>>>> {
            self.seen.push((rung.bytes, list.len()));
            if self.seen.len() > self.time_for {
                return Ok(None);
            }
            let factor = |change: &Change| change.value.parse::<f64>().ok();
            Ok(Some(list.iter().map(|it| it.changes.iter().map(factor).product()).collect()))
        }
    }

    fn candidate(changes: &[(&str, &str)]) -> Candidate {
        let change = |(option, value): &(&str, &str)| Change { option: (*option).into(), value: (*value).into() };
        Candidate { changes: changes.iter().map(change).collect() }
    }

    fn find(list: &[(&str, &str)], rungs: usize, time_for: usize) -> (Option<String>, Vec<(u64, usize)>) {
        let mut table = Table { seen: Vec::new(), time_for };
        let alive = list.iter().map(|change| candidate(&[*change])).collect();
        let rungs: Vec<Rung> = (1..=rungs as u64).map(|bytes| Rung { bytes, first: 0, rounds: 2 }).collect();
        let found = search(&mut table, alive, &rungs).expect("a table does not fail");
        (found.map(|found| found.name()), table.seen)
    }

    const CHANGES: [(&str, &str); 6] = [
        ("a.b.x", "0.9"),
        ("a.b.x", "0.8"),
        ("a.b.y", "0.7"),
        ("a.b.z", "1.3"),
        ("a.b.w", "0.95"),
        ("a.b.v", "broken"),
    ];

    #[test]
    fn the_best_changes_are_put_together() {
        let (found, seen) = find(&CHANGES, 3, 99);
        assert_eq!(found.as_deref(), Some("w=0.95, x=0.8, y=0.7"));
        assert_eq!(seen[0], (1, 6));
        assert!(seen.iter().all(|(_, count)| *count <= 6), "fewer on more: {seen:?}");
    }

    #[test]
    fn one_sample_is_looked_at_twice() {
        let (found, seen) = find(&CHANGES, 1, 99);
        assert_eq!(found.as_deref(), Some("w=0.95, x=0.8, y=0.7"));
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn every_candidate_stands_between_two_runs_of_the_start() {
        assert_eq!(places(1, 0), [None, Some(0), None]);
        for (count, turn) in [(4, 0), (5, 2), (21, 11)] {
            let places = places(count, turn);
            assert_eq!((places.first(), places.last()), (Some(&None), Some(&None)));
            assert_eq!(places.iter().filter(|place| place.is_none()).count(), starts_of(count));
            assert!(places.windows(BETWEEN + 1).all(|part| part.iter().any(Option::is_none)), "{places:?}");
            let mut all: Vec<usize> = places.into_iter().flatten().collect();
            assert_eq!(all[0], turn);
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn so_many_go_on_at_most() {
        for count in 1..30_usize {
            let list: Vec<Candidate> = (0..count).map(|it| candidate(&[(&format!("a.b.x{it}"), "0.9")])).collect();
            let kept = count.div_ceil(KEEP_ONE_OF) + combined(&list).len();
            assert!(kept <= at_most_behind(count), "{count}: {kept}");
        }
    }

    #[test]
    fn when_time_is_over_the_best_so_far_counts() {
        assert_eq!(find(&CHANGES, 3, 1).0.as_deref(), Some("y=0.7"));
        assert_eq!(find(&CHANGES, 3, 0).0, None);
    }

    #[test]
    fn where_nothing_is_better_nothing_is_found() {
        let (found, seen) = find(&[("a.b.x", "1.1"), ("a.b.y", "1.0")], 3, 99);
        assert_eq!((found, seen.len()), (None, 1));
    }

    #[test]
    fn samples_grow_fourfold_up_to_a_quarter_of_the_whole() {
        let sizes = |bytes: u64| rungs(bytes).into_iter().map(|rung| rung.bytes >> 20).collect::<Vec<_>>();
        assert_eq!(sizes(4 << 30), [64, 256, 1024]);
        assert_eq!(sizes(256 << 20), [16, 64]);
        assert_eq!(sizes(100 << 20), [25]);
        assert_eq!(sizes(20 << 20), [20], "a small one is its own sample");
    }
}
