//! Estimates the time left: the rest of the phase and the phases that follow.
//!
//! ```text
//! left = (1 - done) * expected * pace  +  expected of the following phases * pace
//! ```
//!
//! `expected` is the weight of a phase; only the proportions between phases count. `pace` is the number of seconds per unit of
//! weight, corrected by the times of reading and then of building. The caller passes the time.

use super::event::Phase;

/// The share of a phase at which its own pace counts as much as the expected one.
const TRUST: f64 = 0.05;

/// The pace is measured over the last part of a phase: this share of its time, and at least these seconds. It is at most
/// `SLOWER` times that of the whole phase, because a pause ends.
const RECENT: f64 = 0.5;
const RECENT_LEAST: f64 = 3.0;
const SLOWER: f64 = 2.0;

/// The most marks kept of a phase; then every second one is dropped.
const MAX_MARKS: usize = 128;

/// The least share of a phase that shows its pace.
const LEAST_DONE: f64 = 0.002;

/// Durations of the phases of a job in proportion to each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PhaseWeights {
    /// Phases in order, each with its weight; the first phase that runs sets the scale.
    pub phases: Vec<(Phase, f64)>,
    /// Threads of the first phase: if it waits for its source, only its processor time shows how long other phases take.
    /// `None` if waiting counts as well.
    pub busy_threads: Option<f64>,
}

/// A share of a phase that is done, when, and the processor time until then.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    done: f64,
    seconds: f64,
    cpu: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Eta {
    weights: PhaseWeights,
    phase: Option<Phase>,
    began: f64,
    /// The pace known when this phase began.
    pace: Option<f64>,
    marks: Vec<Mark>,
}

impl Eta {
    /// Sets the weights of the phases from the next one on.
    pub fn expect(&mut self, weights: PhaseWeights) {
        (self.pace, self.weights) = (None, weights);
    }

    /// Begins a phase with the pace of the one before.
    pub fn begin(&mut self, phase: Phase, seconds: f64, cpu: Option<f64>) {
        if self.is_expected() {
            let whole = self.marks.first().map(|first| (*first, Mark { done: 1.0, seconds, cpu }));
            self.pace = self.pace_of_others(whole.filter(|(first, _)| first.done < 0.9)).or(self.pace);
        }
        (self.phase, self.began) = (Some(phase), seconds);
        self.marks = vec![Mark { done: 0.0, seconds, cpu }];
    }

    /// Resumes this phase: an earlier run did the share `done`.
    pub fn resume(&mut self, done: f64, seconds: f64, cpu: Option<f64>) {
        self.marks = vec![Mark { done: done.clamp(0.0, 1.0), seconds, cpu }];
    }

    /// Notes the share of the phase that is `done`, the time and the processor time in seconds. Returns the seconds left.
    pub fn seconds_left(&mut self, done: Option<f64>, seconds: f64, cpu: Option<f64>) -> Option<f64> {
        let done = done.map(|done| done.clamp(0.0, 1.0));
        if let Some(done) = done {
            self.marks.push(Mark { done, seconds, cpu });
            if self.marks.len() > MAX_MARKS {
                self.marks = self.marks.iter().step_by(2).copied().collect();
            }
        }
        let rest = match (done, self.pace_of_this(self.recent())) {
            (Some(done), Some(pace)) => (1.0 - done) * self.expected() * pace,
            // The share that is done is unknown: the expected time, less the time so far.
            (_, pace) if self.is_expected() => (self.expected() * pace? - (seconds - self.began)).max(0.0),
            _ => return None,
        };
        let following = self.following();
        if following == 0.0 { Some(rest) } else { Some(rest + following * self.pace_of_others(self.whole())?) }
    }

    /// The last mark and the one it is compared with, if enough was done in between.
    fn recent(&self) -> Option<(Mark, Mark)> {
        let (first, last) = (*self.marks.first()?, *self.marks.last()?);
        let far_enough = |from: &Mark| last.done - from.done >= LEAST_DONE;
        let span = ((last.seconds - first.seconds) * RECENT).max(RECENT_LEAST);
        let from = self.marks.iter().rev().find(|mark| last.seconds - mark.seconds >= span).copied();
        from.filter(far_enough).or(Some(first).filter(far_enough)).map(|from| (from, last))
    }

    /// The first and the last mark, if enough was done in between: a pause in this phase must not make others look slow.
    fn whole(&self) -> Option<(Mark, Mark)> {
        let (first, last) = (*self.marks.first()?, *self.marks.last()?);
        (last.done - first.done >= LEAST_DONE).then_some((first, last))
    }

    /// The pace of this phase, from the marks `seen` and from the pace known before.
    fn pace_of_this(&self, seen: Option<(Mark, Mark)>) -> Option<f64> {
        let before = self.pace.filter(|_| self.is_expected());
        let Some((from, last)) = seen else { return before };
        let first = self.marks.first().copied().unwrap_or(from);
        let of = |from: Mark| (last.seconds - from.seconds) / (last.done - from.done) / self.expected();
        let (pace, weight) = (of(from).min(of(first) * SLOWER), last.done - first.done);
        Some(before.map_or(pace, |before| (pace * weight + before * TRUST) / (weight + TRUST)))
    }

    /// The pace of the following phases.
    fn pace_of_others(&self, seen: Option<(Mark, Mark)>) -> Option<f64> {
        let pace = self.pace_of_this(seen).filter(|_| self.is_expected())?;
        let threads = self.weights.busy_threads.filter(|_| self.index() == Some(0));
        let busy = threads.zip(seen).and_then(|(threads, (from, last))| {
            Some((last.cpu? - from.cpu?) / threads / (last.seconds - from.seconds).max(f64::EPSILON))
        });
        Some(pace * busy.unwrap_or(1.0).clamp(0.0, 1.0))
    }

    fn index(&self) -> Option<usize> {
        self.weights.phases.iter().position(|(known, _)| Some(*known) == self.phase)
    }

    fn is_expected(&self) -> bool {
        self.index().is_some()
    }

    /// The weight of this phase; 1 if it has none, because only proportions count then.
    fn expected(&self) -> f64 {
        self.index().map_or(1.0, |index| self.weights.phases[index].1.max(f64::EPSILON))
    }

    /// The weight of the following phases.
    fn following(&self) -> f64 {
        self.index().map_or(0.0, |index| self.weights.phases[index + 1..].iter().map(|(_, expected)| expected).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: f64 = 40.0;
    const BUILD: f64 = 60.0;

    fn weights(build: f64) -> PhaseWeights {
        let phases = vec![(Phase::Read, 1.0), (Phase::Build, build), (Phase::Ingest, 0.005)];
        PhaseWeights { phases, ..PhaseWeights::default() }
    }

    /// An import that takes [`READ`] and [`BUILD`] seconds, sampled ten times a second, until `until`. Returns the
    /// estimate then, and the true time left.
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
    fn following_phases_count_from_first_tenth() {
        is_within(weights(1.5), 4.0, 0.15);
        is_within(weights(1.5), 70.0, 0.05);
    }

    #[test]
    fn wrong_weights_are_corrected() {
        for wrong in [0.6, 1.6] {
            is_within(weights(1.5 * wrong), 4.0, 0.45);
            // Building shows what it takes.
            is_within(weights(1.5 * wrong), 70.0, 0.2);
        }
    }

    #[test]
    fn no_estimate_before_progress() {
        assert_eq!(at(Some(weights(1.5)), 0.0, true).0, None);
        assert_eq!(at(None, 0.0, true).0, None);
    }

    #[test]
    fn phase_without_weight_has_its_own_end() {
        let (said, _) = at(None, 10.0, true);
        assert!((said.expect("an estimate") - 30.0).abs() < 0.01, "{said:?}");
        assert_eq!(at(None, 10.0, false).0, None, "without a size there is no end");
    }

    #[test]
    fn pipe_is_estimated_after_its_end() {
        assert_eq!(at(Some(weights(1.5)), 20.0, false).0, None);
        let (said, truth) = at(Some(weights(1.5)), 41.0, false);
        assert!((said.expect("an estimate") - truth).abs() < 0.1 * truth, "{said:?} of {truth}");
    }

    #[test]
    fn resumed_share_does_not_count_for_speed() {
        let mut eta = Eta::default();
        eta.begin(Phase::Read, 0.0, None);
        eta.resume(0.8, 1.0, None);
        let said = (0..50).filter_map(|tenth| {
            let since = f64::from(tenth) / 10.0;
            eta.seconds_left(Some(0.8 + since / 100.0), 1.0 + since, None)
        });
        let last = said.last().expect("an estimate");
        assert!((last - 15.1).abs() < 0.1, "{last}");
    }

    #[test]
    fn waiting_for_source_does_not_slow_building() {
        // Two threads work a tenth of the time.
        let weights = PhaseWeights { busy_threads: Some(2.0), ..weights(1.5) };
        let mut eta = Eta::default();
        eta.expect(weights);
        eta.begin(Phase::Read, 0.0, Some(0.0));
        let said = eta.seconds_left(Some(0.5), 50.0, Some(10.0)).expect("an estimate");
        assert!((said - (50.0 + 15.05)).abs() < 0.01, "{said}");
    }

    #[test]
    fn slower_reading_raises_the_estimate() {
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
