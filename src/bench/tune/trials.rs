//! The runs of a search: candidates on samples, each between two runs of the start, and pairs on the whole snapshot.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::matrix::Variant;
use super::super::measure::{Runner, Turn};
use super::super::pace::Pace;
use super::super::{Clock, Step, snapshot};
use super::halving::{self, Measure, Rung, SAMPLE_ROUNDS, rungs};
use super::options::{FEWEST_PAIRS, TuneObserver, TuneOptions};
use super::run_store::{RunStore, Stage};
use super::sample;
use super::space::Candidate;
use super::todo::Todo;
use crate::error::{Error, Result};
use crate::report::bench::{Ratio, Run, metric};
use crate::report::statistics;
use crate::report::tune::{Confirmation, Goal, Outcome, RungReport};

/// The most pairs that a budget of time is spent on: more would show differences that matter to none.
const MOST_PAIRS: u32 = 100;

/// When so many candidates or more are all better than the start, it is the start that is wrong.
const SUSPICIOUS: usize = 4;

/// How much longer an import may take that saves memory.
const MEMORY_PATIENCE: f64 = 1.5;

/// The runs of a search.
pub(super) struct Trials<'a> {
    pub options: &'a TuneOptions,
    pub runner: Runner<'a>,
    pub samples: &'a Path,
    pub store: RunStore,
    pub clock: Clock,
    pub search: Clock,
    pub observer: &'a dyn TuneObserver,
    pub rungs: Vec<RungReport>,
    /// What the machine has been warmed up for in this session.
    pub warm: Option<Stage>,
    pub pace: Pace,
    pub todo: Todo,
}

impl Measure for Trials<'_> {
    fn ratios(&mut self, rung: &Rung, list: &[Candidate]) -> Result<Option<Vec<Option<f64>>>> {
        let sample = self.sample(rung.bytes);
        let sample = if sample.exists() { sample } else { self.runner.source.to_owned() };
        self.observer.rung(list.len(), rung.bytes, rung.rounds);
        self.todo.begin(rung, list.len());
        let mut found = Found { pairs: vec![Vec::new(); list.len()], failed: vec![false; list.len()] };
        for round in rung.first..rung.first + rung.rounds {
            if !self.round(rung, round, &sample, list, &mut found)? {
                return Ok(None);
            }
        }
        let ratios = found.ratios();
        let measured = || ratios.iter().flatten();
        self.rungs.push(RungReport {
            bytes: rung.bytes,
            rounds: rung.rounds,
            all_better: measured().count() >= SUSPICIOUS && measured().all(|&ratio| ratio < 1.0),
            ratios: list.iter().map(Candidate::name).zip(ratios.iter().copied()).collect(),
        });
        Ok(Some(ratios))
    }
}

/// What was found on a sample, by candidate: its costs, each with the start's, and whether it failed.
struct Found {
    pairs: Vec<Vec<(f64, f64)>>,
    failed: Vec<bool>,
}

impl Found {
    fn ratios(&self) -> Vec<Option<f64>> {
        let all = self.pairs.iter().zip(&self.failed);
        all.map(|(pairs, failed)| statistics::ratio(pairs).filter(|_| !failed).map(|ratio| ratio.ratio)).collect()
    }

    fn fail(&mut self, index: usize) {
        self.failed.iter_mut().skip(index).take(1).for_each(|failed| *failed = true);
    }

    fn add(&mut self, index: usize, pair: (f64, f64)) {
        self.pairs.iter_mut().skip(index).take(1).for_each(|pairs| pairs.push(pair));
    }
}

impl Trials<'_> {
    /// A round on a sample. Each candidate is held against the runs of the start before and behind it. `false` when the
    /// time is over.
    fn round(&mut self, rung: &Rung, round: u32, sample: &Path, list: &[Candidate], found: &mut Found) -> Result<bool> {
        let stage = Stage::Sample(rung.bytes);
        // The candidates have other places in every round.
        let turn = (round - rung.first) as usize * list.len() / rung.rounds as usize;
        let places = halving::places(list.len(), turn);
        let (mut starts, mut before) = (0, None);
        let mut waiting: Vec<(usize, String, f64)> = Vec::new();
        for (done, place) in places.iter().enumerate() {
            self.may_go_on()?;
            if !self.search.allows(Duration::ZERO) {
                return Ok(false);
            }
            self.todo.in_rung((round - rung.first) as usize * places.len() + done);
            let Some(index) = *place else {
                let cost = self.cost_of_start(sample, stage, round, starts)?;
                let reference = before.map_or(cost, |before: f64| (before * cost).sqrt());
                for (index, name, own) in waiting.drain(..) {
                    self.observer.ran(&name, Some(own / reference));
                    found.add(index, (own, reference));
                }
                (starts, before) = (starts + 1, Some(cost));
                continue;
            };
            let (Some(candidate), false) = (list.get(index), found.failed.get(index) == Some(&true)) else { continue };
            let run = self.run(&candidate.variant(&self.options.preset), sample, stage, round, 0)?;
            match self.cost(&run) {
                Some(cost) => waiting.push((index, candidate.name(), cost)),
                None => {
                    self.observer.ran(&candidate.name(), None);
                    found.fail(index);
                }
            }
        }
        Ok(true)
    }

    fn may_go_on(&self) -> Result<()> {
        if self.options.stop.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }
}

impl Trials<'_> {
    fn sample(&self, bytes: u64) -> PathBuf {
        self.samples.join(format!("{bytes}.car"))
    }

    /// The samples, written. What is no CAR is not cut: its only sample is the whole.
    pub fn rungs_of(&self, source: &snapshot::SourceProfile) -> Result<Vec<Rung>> {
        let bytes = source.bytes;
        let whole = vec![Rung { bytes, first: 0, rounds: SAMPLE_ROUNDS }];
        if source.folder {
            return Ok(whole);
        }
        let rungs = rungs(bytes);
        for rung in &rungs {
            let target = self.sample(rung.bytes);
            match sample::write(self.runner.source, &target, rung.bytes) {
                Ok(_) => {}
                Err(Error::BadInput { .. }) => {
                    std::fs::remove_file(&target).map_err(Error::io("remove", &target)).or_else(gone)?;
                    return Ok(whole);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(rungs)
    }

    /// Runs a variant, unless that has been done.
    fn run(&mut self, variant: &Variant, source: &Path, stage: Stage, round: u32, repeat: u32) -> Result<Run> {
        match self.store.run(stage, &variant.name, round, repeat) {
            Some(run) => Ok(run.clone()),
            None => self.run_anew(variant, source, stage, round, repeat),
        }
    }

    /// Runs a variant. The first run on a sample is preceded by one of the start that is not kept: it finds a colder
    /// machine than all others.
    fn run_anew(&mut self, variant: &Variant, source: &Path, stage: Stage, round: u32, repeat: u32) -> Result<Run> {
        if self.warm != Some(stage) {
            self.warm = Some(stage);
            self.timed(&Candidate::default().variant(&self.options.preset), source, stage, round, true)?;
        }
        let run = self.timed(variant, source, stage, round, false)?;
        self.store.keep(stage, repeat, run.clone())?;
        Ok(run)
    }

    fn timed(&mut self, variant: &Variant, source: &Path, stage: Stage, round: u32, warmup: bool) -> Result<Run> {
        let begun = Instant::now();
        let bytes = match stage {
            Stage::Sample(bytes) => bytes,
            Stage::Whole => self.todo.whole,
        };
        let expected = self.pace.expected(&variant.name, bytes);
        // With a budget the confirmation goes on to its end.
        let left = self.clock.left().or_else(|| self.todo.left(&self.pace));
        self.observer.begins(&Step {
            variant: variant.name.clone(),
            round,
            warmup,
            number: self.todo.done + 1,
            of: self.todo.runs,
            sample: matches!(stage, Stage::Sample(_)).then_some(bytes),
            expected,
            left,
        });
        let run =
            self.runner.import_from(source, &self.store.keys(stage)?, variant, Turn { round, position: 0, warmup })?;
        self.pace.note(&variant.name, bytes, begun.elapsed());
        Ok(run)
    }

    /// Runs two variants one right after the other; what was stopped between them is measured again.
    fn pair(&mut self, one: &Variant, other: &Variant, round: u32) -> Result<(Run, Run)> {
        let known = |variant: &Variant| self.store.run(Stage::Whole, &variant.name, round, 0).cloned();
        if let (Some(one), Some(other)) = (known(one), known(other)) {
            return Ok((one, other));
        }
        let source = self.runner.source;
        let one = self.run_anew(one, source, Stage::Whole, round, 0)?;
        self.todo.done += 1;
        Ok((one, self.run_anew(other, source, Stage::Whole, round, 0)?))
    }

    /// What a run cost; the lower the better. `None` when it failed or did not measure what counts.
    fn cost(&self, run: &Run) -> Option<f64> {
        if run.failure.is_some() {
            return None;
        }
        let of = |key: &str| metric(key).and_then(|metric| metric.of(run));
        match self.options.goal {
            Goal::Import => of("wall_seconds"),
            Goal::Total => of("total_seconds"),
            Goal::Reads => of("lookups_per_second").filter(|&rate| rate > 0.0).map(|rate| 1.0 / rate),
            Goal::Memory => of("peak_rss_bytes"),
        }
    }

    fn cost_of_start(&mut self, source: &Path, stage: Stage, round: u32, repeat: u32) -> Result<f64> {
        let start = Candidate::default().variant(&self.options.preset);
        let run = self.run(&start, source, stage, round, repeat)?;
        self.cost(&run).ok_or_else(|| Error::Usage {
            reason: match &run.failure {
                Some(failure) => format!("the start itself fails ({}): {}", failure.action, failure.error),
                None => "the start does not measure what is to get better".into(),
            },
            hint: "start from a preset that imports this snapshot: --preset".into(),
        })
    }

    /// The winner against the start, on the whole snapshot, in pairs whose order alternates: as many as the user wants, and
    /// what a budget of time leaves room for. Their number does not depend on what they show, which would make wins of noise.
    pub fn confirm(&mut self, winner: &Candidate) -> Result<(Option<Confirmation>, Outcome)> {
        let variant = winner.variant(&self.options.preset);
        let start = Candidate::default().variant(&self.options.preset);
        let most = if self.options.budget.is_some() { MOST_PAIRS.max(self.options.pairs) } else { self.options.pairs };
        self.observer.rung(1, self.todo.whole, self.options.pairs);
        let mut pairs: Vec<(f64, f64)> = Vec::new();
        let mut walls: Vec<(f64, f64)> = Vec::new();
        let mut longest = Duration::ZERO;
        let wall = |run: &Run| run.process.as_ref().map_or(0.0, |process| process.seconds);
        for round in 0..most {
            self.may_go_on()?;
            let begun = Instant::now();
            if !self.clock.allows(longest) {
                break;
            }
            self.todo.in_pair(
                round,
                self.clock.left().filter(|_| !longest.is_zero()).map_or(self.options.pairs, |left| {
                    most.min(round + (left.as_secs_f64() / longest.as_secs_f64()) as u32)
                }),
            );
            let first_is_winner = round % 2 == 1;
            let (one, other) = if first_is_winner { (&variant, &start) } else { (&start, &variant) };
            let (one, other) = self.pair(one, other, round)?;
            let (won, started) = if first_is_winner { (one, other) } else { (other, one) };
            let (Some(cost), Some(before)) = (self.cost(&won), self.cost(&started)) else {
                let failure = won.failure.or(started.failure).map_or_else(String::new, |it| it.error);
                return Ok((None, Outcome::Failed { why: failure }));
            };
            self.observer.ran(&winner.name(), Some(cost / before));
            pairs.push((cost, before));
            walls.push((wall(&won), wall(&started)));
            longest = longest.max(begun.elapsed());
        }
        let (Some(ratio), Some(time)) = (statistics::ratio(&pairs), statistics::ratio(&walls)) else {
            return Ok((None, Outcome::OutOfTime));
        };
        let outcome = judge(&ratio, &time, self.options.goal);
        Ok((Some(Confirmation { ratio, time, pairs }), outcome))
    }
}

/// What the pairs on the whole snapshot show.
fn judge(ratio: &Ratio, time: &Ratio, goal: Goal) -> Outcome {
    if ratio.pairs < FEWEST_PAIRS as usize {
        return Outcome::OutOfTime;
    }
    if !statistics::is_below(ratio, 1.0) {
        let more = statistics::more_pairs(ratio, 1.0).and_then(|more| u32::try_from(more.max(1)).ok());
        return more.map_or(Outcome::WithinNoise, |more_pairs| Outcome::NotDecided { more_pairs });
    }
    if goal == Goal::Memory && time.ratio > MEMORY_PATIENCE { Outcome::TooSlow } else { Outcome::Better }
}

/// What is not there need not be removed.
fn gone(error: Error) -> Result<()> {
    match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(pairs: &[(f64, f64)]) -> Outcome {
        let ratio = statistics::ratio(pairs).expect("pairs");
        judge(&ratio, &ratio, Goal::Total)
    }

    #[test]
    fn a_win_must_be_shown_and_what_is_open_says_how_many_more_pairs_it_takes() {
        assert_eq!(judged(&[(0.90, 1.0), (0.91, 1.0), (0.89, 1.0)]), Outcome::Better);
        assert_eq!(judged(&[(0.5, 1.0), (0.5, 1.0)]), Outcome::OutOfTime, "two pairs show nothing");
        // Mean -0.0512 and deviation 0.0951: of 15 pairs 2.145 * 0.0951 / sqrt(15) is larger, of 16 it is 0.0507.
        assert_eq!(judged(&[(0.95, 1.0), (1.045, 1.0), (0.864, 1.0)]), Outcome::NotDecided { more_pairs: 13 });
        assert_eq!(judged(&[(1.01, 1.0), (1.2, 1.0), (0.95, 1.0)]), Outcome::WithinNoise, "no gain in the mean");
        let (less, slow) = (statistics::ratio(&[(0.5, 1.0); 3]).expect("pairs"), statistics::ratio(&[(2.0, 1.0); 3]));
        assert_eq!(judge(&less, &slow.expect("pairs"), Goal::Memory), Outcome::TooSlow);
    }
}
