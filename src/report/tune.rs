//! The result of a search for better options.

use serde::{Deserialize, Serialize};

use super::bench::{BenchMachine, Ratio, SnapshotInfo};
use crate::report::shown_in_line;
use crate::text::size::{counted, human};

/// One option and its new value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Change {
    /// `stage.scope.option`, or an argument of the import.
    pub option: String,
    /// Its value, as it would be written.
    pub value: String,
}

/// Version of this document. It changes if a field is removed or changes its meaning.
pub const TUNE_SCHEMA: &str = "bedload-tune-3";

/// The goal of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// The wall time of the import.
    Import,
    /// The import and the scan that follows it.
    Total,
    /// Lookups in the finished database.
    Reads,
    /// The import's peak of memory.
    Memory,
}

impl Goal {
    /// The key of the metric of `bench`.
    pub(crate) fn metric(self) -> &'static str {
        match self {
            Self::Import => "wall_seconds",
            Self::Total => "total_seconds",
            Self::Reads => "lookups_per_second",
            Self::Memory => "peak_rss_bytes",
        }
    }

    /// Names the quantity that shrinks.
    pub fn what(self) -> &'static str {
        match self {
            Self::Import => "time of import",
            Self::Total => "time of import and scan",
            Self::Reads => "time of lookups",
            Self::Memory => "peak memory",
        }
    }
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The winner is better on the whole snapshot, by more than the noise.
    Better,
    /// On the whole snapshot no gain is shown, and none is to be expected from a reasonable number of further pairs.
    WithinNoise,
    /// On the whole snapshot the winner is better in the mean, but that is not shown yet.
    NotDecided {
        /// Pairs that would probably show it, beside those that were run.
        more_pairs: u32,
    },
    /// No candidate was better on the samples.
    NothingBetter,
    /// Less memory, but far too much time.
    TooSlow,
    /// The time was over before anything could be confirmed.
    OutOfTime,
    /// The winner failed on the whole snapshot.
    Failed {
        /// The error message.
        why: String,
    },
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuneReport {
    /// Name and version of this document.
    pub schema: String,
    /// The machine.
    pub machine: BenchMachine,
    /// The snapshot.
    pub snapshot: SnapshotInfo,
    /// The goal.
    pub goal: Goal,
    /// The preset it started from.
    pub start: String,
    /// Single changes that were tried on a whole sample.
    pub tried: usize,
    /// Each sample: what every candidate cost against the start.
    pub rungs: Vec<RungReport>,
    /// The best after the last sample.
    pub winner: Option<String>,
    /// Its changes.
    pub changes: Vec<Change>,
    /// The winner against the start on the whole snapshot.
    pub confirmation: Option<Confirmation>,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The preset file; `null` unless the winner is better.
    pub preset: Option<String>,
}

/// The costs of candidates on one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RungReport {
    /// The size of the sample in bytes.
    pub bytes: u64,
    /// Rounds, each with every candidate and the start.
    pub rounds: u32,
    /// Each candidate's cost over the start's; below one is better, `null` is one that failed.
    pub ratios: Vec<(String, Option<f64>)>,
}

/// The winner against the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Of what was to get better.
    pub ratio: Ratio,
    /// Of the import's wall time.
    pub time: Ratio,
}

impl TuneReport {
    /// The result for people.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "searched      around {} for the least {}: {}",
            shown_in_line(&self.start),
            self.goal.what(),
            counted(self.tried as u64, "change", "changes")
        );
        for rung in &self.rungs {
            let better = rung.ratios.iter().filter(|(_, ratio)| ratio.is_some_and(|ratio| ratio < 1.0)).count();
            text.push_str(&format!(
                "\nsample        {}: {} tried, {better} better than the start",
                human(rung.bytes),
                rung.ratios.len()
            ));
        }
        if let Some(winner) = &self.winner {
            let label = if matches!(self.outcome, Outcome::Better) { "winner" } else { "candidate" };
            text.push_str(&format!("\n{label:<14}{}", shown_in_line(winner)));
        }
        if let Some(Confirmation { ratio, .. }) = &self.confirmation {
            let interval = match (ratio.low, ratio.high) {
                (Some(low), Some(high)) => format!(", 95 % interval {low:.3} to {high:.3}"),
                _ => String::new(),
            };
            text.push_str(&format!(
                "\nconfirmed on  the whole snapshot, {}: {:.3} times the start's {}{interval}",
                counted(ratio.pairs as u64, "pair", "pairs"),
                ratio.ratio,
                self.goal.what()
            ));
        }
        let words: String = match &self.outcome {
            Outcome::Better => "better than the start by more than the noise".into(),
            Outcome::WithinNoise => "no win: no gain over the start is shown on the whole snapshot".into(),
            Outcome::NotDecided { more_pairs } => {
                let pairs = self.confirmation.as_ref().map_or(0, |it| it.ratio.pairs) as u64 + u64::from(*more_pairs);
                let more = counted(u64::from(*more_pairs), "more pair", "more pairs");
                format!("not decided: run {more} (the same command with --pairs {pairs})")
            }
            Outcome::NothingBetter => "no win: nothing was better than the start on the samples".into(),
            Outcome::TooSlow => "no win: less memory, but more than half as much time again".into(),
            Outcome::OutOfTime => {
                "not decided: the time was over before anything could be confirmed; give a longer --budget".into()
            }
            Outcome::Failed { why } => format!("no win: the winner failed on the whole snapshot: {why}"),
        };
        text.push_str(&format!("\nresult        {}\n", shown_in_line(&words)));
        text
    }
}
