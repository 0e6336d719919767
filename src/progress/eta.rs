//! How long a job will still take: the rest of its phase and the phases that follow.
//!
//! ```text
//! left = (1 - done) * expected * pace  +  what the phases behind it are expected to take * pace
//! ```
//!
//! `expected` is the weight of the phase, which the job gives when it begins: only the proportions between the
//! phases count. `pace` is how many seconds a unit of weight takes, and is corrected as the job proceeds: by what reading
//! takes, then by what building takes. The caller passes the time.
//!
//! Of phases that end after a time of their own, weights are the seconds that they take at most: then what is left is what
//! they may still take, and it never rises.

use super::Phase;

/// The share of a phase at which its own pace counts as much as what was expected of it.
const TRUST: f64 = 0.05;

/// The pace is that of the last part of a phase: of this share of the time it has taken, and of these seconds at least;
/// but at most this many times slower than the whole phase, because a pause ends.
const RECENT: f64 = 0.5;
const RECENT_LEAST: f64 = 3.0;
const SLOWER: f64 = 2.0;

/// The most marks kept of a phase; beyond it every second one is dropped.
const MAX_MARKS: usize = 128;

/// The least share of a phase that shows its pace.
const LEAST_DONE: f64 = 0.002;

/// How long the phases of a job take in proportion to each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PhaseWeights {
    /// Phases in their order, and the weight of each; the first phase that runs gives the scale.
    pub phases: Vec<(Phase, f64)>,
    /// Threads that the first phase would keep busy: where it waits for its source, only the time in which it works
    /// shows how long other phases take. `None` where waiting counts as well.
    pub busy_threads: Option<f64>,
    /// The share of the first phase that is left when its counters are full: what was read must still be flushed.
    pub tail: f64,
    /// Whether the weights are the seconds that the phases take at most.
    pub at_most: bool,
}

/// A place in a phase: the share of it that is done, when, and the processor time until then.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    done: f64,
    seconds: f64,
    cpu: Option<f64>,
}

/// The estimate and its inputs.
#[derive(Debug, Default)]
pub(super) struct Eta {
    weights: PhaseWeights,
    phase: Option<Phase>,
    began: f64,
    /// How much longer than expected this phase and those behind it will take, as far as is known when it begins.
    pace: Option<f64>,
    marks: Vec<Mark>,
    /// When phases that are limited end at the latest, and the least that was said to be left.
    limit: Option<(f64, f64)>,
}

impl Eta {
    /// Sets the weights of the phases from the next one on.
    pub fn expect(&mut self, weights: PhaseWeights) {
        (self.pace, self.limit) = (None, None);
        self.weights = weights;
    }

    /// A phase begins, with the pace of the one before.
    pub fn begin(&mut self, phase: Phase, seconds: f64, cpu: Option<f64>) {
        if self.is_expected() {
            let whole = self.marks.first().map(|first| (*first, Mark { done: 1.0, seconds, cpu }));
            self.pace = self.pace_of_others(whole.filter(|(first, _)| first.done < 0.9)).or(self.pace);
        }
        self.phase = Some(phase);
        self.began = seconds;
        if self.weights.at_most && self.is_expected() && self.limit.is_none() {
            let all: f64 = self.weights.phases.iter().map(|(_, most)| most).sum();
            self.limit = Some((seconds + all, all));
        }
        self.marks = vec![Mark { done: 0.0, seconds, cpu }];
    }

    /// What is done of this phase so far was done by an earlier run.
    pub fn take_up(&mut self, done: f64, seconds: f64, cpu: Option<f64>) {
        self.marks = vec![Mark { done: self.without_tail(done), seconds, cpu }];
    }

    /// The share of this phase that is done when its counters say `done`.
    fn without_tail(&self, done: f64) -> f64 {
        let tail = if self.index() == Some(0) { self.weights.tail } else { 0.0 };
        done.clamp(0.0, 1.0) * (1.0 - tail)
    }

    /// Notes that the share `done` of the phase is done after `seconds` and `cpu` seconds of the processor, and returns how
    /// many seconds are left.
    pub fn seconds_left(&mut self, done: Option<f64>, seconds: f64, cpu: Option<f64>) -> Option<f64> {
        let done = done.map(|done| self.without_tail(done));
        if let Some((until, least)) = self.limit {
            let most = self.expected();
            let rest = done.map_or(most - (seconds - self.began), |done| (1.0 - done) * most).max(0.0) + self.behind();
            let left = rest.min(until - seconds).min(least).max(f64::EPSILON);
            self.limit = Some((until, left));
            return Some(left);
        }
        if let Some(done) = done {
            self.note(Mark { done, seconds, cpu });
        }
        let rest = match (done, self.pace_of_this(self.recent())) {
            (Some(done), Some(pace)) => (1.0 - done) * self.expected() * pace,
            // The share that is done is unknown: the expected time, less the time it has had.
            (_, pace) if self.is_expected() => (self.expected() * pace? - (seconds - self.began)).max(0.0),
            _ => return None,
        };
        let behind = self.behind();
        if behind == 0.0 { Some(rest) } else { Some(rest + behind * self.pace_of_others(self.whole())?) }
    }

    fn note(&mut self, mark: Mark) {
        self.marks.push(mark);
        if self.marks.len() > MAX_MARKS {
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// The last mark and the one it is compared with, when enough was done in between.
    fn recent(&self) -> Option<(Mark, Mark)> {
        let (first, last) = (*self.marks.first()?, *self.marks.last()?);
        let far_enough = |from: &Mark| last.done - from.done >= LEAST_DONE;
        let span = ((last.seconds - first.seconds) * RECENT).max(RECENT_LEAST);
        let from = self.marks.iter().rev().find(|mark| last.seconds - mark.seconds >= span).copied();
        from.filter(far_enough).or(Some(first).filter(far_enough)).map(|from| (from, last))
    }

    /// The first mark and the last, when enough was done in between: a pause in this phase must not make others look slow.
    fn whole(&self) -> Option<(Mark, Mark)> {
        let (first, last) = (*self.marks.first()?, *self.marks.last()?);
        (last.done - first.done >= LEAST_DONE).then_some((first, last))
    }

    /// How much longer than expected this phase takes, from what was seen of it and what was known before.
    fn pace_of_this(&self, seen: Option<(Mark, Mark)>) -> Option<f64> {
        let before = self.pace.filter(|_| self.is_expected());
        let Some((from, last)) = seen else { return before };
        let first = self.marks.first().copied().unwrap_or(from);
        let of = |from: Mark| (last.seconds - from.seconds) / (last.done - from.done) / self.expected();
        let (pace, weight) = (of(from).min(of(first) * SLOWER), last.done - first.done);
        Some(before.map_or(pace, |before| (pace * weight + before * TRUST) / (weight + TRUST)))
    }

    /// How much longer than expected the phases behind this one take.
    fn pace_of_others(&self, seen: Option<(Mark, Mark)>) -> Option<f64> {
        let pace = self.pace_of_this(seen).filter(|_| self.is_expected())?;
        let threads = self.weights.busy_threads.filter(|_| self.index() == Some(0));
        let busy = threads.zip(seen).and_then(|(threads, (from, last))| {
            Some((last.cpu? - from.cpu?) / threads / (last.seconds - from.seconds).max(f64::EPSILON))
        });
        Some(pace * busy.unwrap_or(1.0).clamp(0.0, 1.0))
    }

    fn index(&self) -> Option<usize> {
        let phase = self.phase?;
        self.weights.phases.iter().position(|(known, _)| *known == phase)
    }

    fn is_expected(&self) -> bool {
        self.index().is_some()
    }

    /// What this phase is expected to take; any number where that is unknown, because only proportions count then.
    fn expected(&self) -> f64 {
        let found = self.index().and_then(|index| self.weights.phases.get(index));
        found.map_or(1.0, |(_, expected)| expected.max(f64::EPSILON))
    }

    fn behind(&self) -> f64 {
        let behind = self.index().and_then(|index| self.weights.phases.get(index + 1..));
        behind.unwrap_or_default().iter().map(|(_, expected)| expected).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: f64 = 40.0;
    const BUILD: f64 = 60.0;

    #[test]
    fn what_is_left_of_phases_with_limits_never_rises() {
        let mut eta = Eta::default();
        let phases = vec![(Phase::Measure, 8.0), (Phase::Sample, 3.0)];
        eta.expect(PhaseWeights { phases, at_most: true, ..PhaseWeights::default() });
        eta.begin(Phase::Measure, 1.0, None);
        let said =
            |eta: &mut Eta, done, seconds| eta.seconds_left(done, seconds, None).map(|left| (left * 10.0).round());
        assert_eq!(said(&mut eta, Some(0.0), 1.0), Some(110.0));
        assert_eq!(said(&mut eta, Some(0.0), 2.0), Some(100.0), "the step takes its time");
        assert_eq!(said(&mut eta, Some(0.5), 2.1), Some(70.0), "a step took less than it might have");
        assert_eq!(said(&mut eta, Some(0.5), 8.0), Some(40.0), "another took more");
        assert_eq!(said(&mut eta, Some(0.9), 8.1), Some(38.0));
        eta.begin(Phase::Sample, 8.2, None);
        assert_eq!(said(&mut eta, None, 8.3), Some(29.0));
        assert_eq!(said(&mut eta, None, 20.0), Some(0.0));
    }

    fn weights(build: f64) -> PhaseWeights {
        let phases = vec![(Phase::Read, 1.0), (Phase::Build, build), (Phase::Ingest, 0.005)];
        PhaseWeights { phases, ..PhaseWeights::default() }
    }

    /// An import that takes [`READ`] and [`BUILD`] seconds, looked at ten times a second, until `until`; the estimate
    /// then, and what is really left.
    fn at(weights: Option<PhaseWeights>, until: f64, knows_total: bool) -> (Option<f64>, f64) {
        let mut eta = Eta::default();
        eta.begin(Phase::Plan, 0.0, None);
        weights.into_iter().for_each(|weights| eta.expect(weights));
        eta.begin(Phase::Read, 0.0, None);
        let mut said = None;
        let mut tenths = 0;
        while f64::from(tenths) / 10.0 <= until {
            let now = f64::from(tenths) / 10.0;
            let built = now - READ;
            if tenths == (READ * 10.0) as i32 {
                eta.begin(Phase::Build, now, None);
            }
            let done = if built < 0.0 { Some(now / READ).filter(|_| knows_total) } else { Some(built / BUILD) };
            said = eta.seconds_left(done, now, None);
            tenths += 1;
        }
        (said, READ + BUILD - until)
    }

    fn is_within(weights: PhaseWeights, until: f64, share: f64) {
        let (said, truth) = at(Some(weights.clone()), until, true);
        let said = said.expect("an estimate");
        assert!((said - truth).abs() <= share * truth, "{said} s of {truth} s after {until} s, {weights:?}");
    }

    #[test]
    fn phases_that_follow_count_from_the_first_tenth_on() {
        is_within(weights(1.5), 4.0, 0.15);
        is_within(weights(1.5), 70.0, 0.05);
    }

    #[test]
    fn weights_that_are_wrong_are_corrected_on_the_way() {
        for wrong in [0.6, 1.6] {
            is_within(weights(1.5 * wrong), 4.0, 0.45);
            // Building shows what it takes.
            is_within(weights(1.5 * wrong), 70.0, 0.2);
        }
    }

    #[test]
    fn before_anything_is_done_nothing_reports() {
        assert_eq!(at(Some(weights(1.5)), 0.0, true).0, None);
        assert_eq!(at(None, 0.0, true).0, None);
    }

    #[test]
    fn a_phase_that_nothing_was_expected_of_reports_its_own_end() {
        let (said, _) = at(None, 10.0, true);
        assert!((said.expect("an estimate") - 30.0).abs() < 0.01, "{said:?}");
        assert_eq!(at(None, 10.0, false).0, None, "without a size there is no end");
    }

    #[test]
    fn a_pipe_of_unknown_size_is_foreseen_once_it_has_ended() {
        assert_eq!(at(Some(weights(1.5)), 20.0, false).0, None);
        let (said, truth) = at(Some(weights(1.5)), 41.0, false);
        assert!((said.expect("an estimate") - truth).abs() < 0.1 * truth, "{said:?} of {truth}");
    }

    #[test]
    fn what_an_earlier_run_has_done_is_no_sign_of_speed() {
        let mut eta = Eta::default();
        eta.begin(Phase::Read, 0.0, None);
        eta.take_up(0.8, 1.0, None);
        let said = (0..50).filter_map(|tenth| {
            let since = f64::from(tenth) / 10.0;
            eta.seconds_left(Some(0.8 + since / 100.0), 1.0 + since, None)
        });
        let last = said.last().expect("an estimate");
        assert!((last - 15.1).abs() < 0.1, "{last}");
    }

    #[test]
    fn a_source_that_is_waited_for_does_not_make_building_slow() {
        // Two threads work a tenth of the time.
        let weights = PhaseWeights { busy_threads: Some(2.0), ..weights(1.5) };
        let mut eta = Eta::default();
        eta.expect(weights);
        eta.begin(Phase::Read, 0.0, Some(0.0));
        let said = eta.seconds_left(Some(0.5), 50.0, Some(10.0)).expect("an estimate");
        assert!((said - (50.0 + 15.05)).abs() < 0.01, "{said}");
    }

    #[test]
    fn what_comes_after_the_counters_are_full_is_no_surprise() {
        let mut eta = Eta::default();
        eta.expect(PhaseWeights { tail: 0.5, ..weights(1.0) });
        eta.begin(Phase::Read, 0.0, None);
        let left = eta.seconds_left(Some(0.5), 5.0, None).expect("an estimate");
        assert!((left - 35.1).abs() < 0.01, "half is read, as much is flushed, and then it is built: {left}");
        let left = eta.seconds_left(Some(1.0), 10.0, None).expect("an estimate");
        assert!((left - 30.1).abs() < 0.01, "{left}");
        eta.begin(Phase::Build, 20.0, None);
        let left = eta.seconds_left(Some(0.0), 20.0, None).expect("an estimate");
        assert!((left - 20.1).abs() < 0.01, "{left}");
    }

    #[test]
    fn a_reader_that_slows_down_is_believed() {
        let mut eta = Eta::default();
        eta.begin(Phase::Verify, 0.0, None);
        let mut left = None;
        for tenth in 0..=200 {
            // Half of it in ten seconds, from a cache; what follows is slower by half.
            let now = f64::from(tenth) / 10.0;
            let done = if now < 10.0 { now / 20.0 } else { 0.5 + (now - 10.0) / 40.0 };
            left = eta.seconds_left(Some(done), now, None);
        }
        assert!(left.is_some_and(|left| (left - 10.0).abs() < 1.0), "{left:?}");
    }
}
