//! Figures computed from the runs: medians, ratios with their uncertainty, and a recommendation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The middle of some values, and how far they spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The median distance from the median.
    pub mad: f64,
    /// The raw values, in the order of the rounds.
    pub samples: Vec<f64>,
    /// The rounds of the outliers; see `outliers` in `report::statistics`.
    pub outlier_rounds: Vec<u32>,
}

/// What an interval says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of the interval is below one.
    Lower,
    /// All of the interval is above one.
    Higher,
    /// The interval holds one: no difference shown.
    NoDifference,
    /// A single pair: nothing can be said.
    Unknown,
}

/// One variant against another, pair by pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The geometric mean of the rounds' ratios.
    pub ratio: f64,
    /// The lower end of the interval that holds the true ratio with 95 % confidence; `null` with a single pair.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Rounds in which both ran.
    pub pairs: usize,
    /// What that says.
    pub verdict: Verdict,
}

/// Ratios to one and the same variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The variant that the others are compared with.
    pub against: String,
    /// By metric.
    pub ratios: BTreeMap<String, Ratio>,
}

/// All figures of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantFigures {
    /// The variant.
    pub variant: String,
    /// Runs that count.
    pub runs: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Why, without repetitions.
    pub errors: Vec<String>,
    /// By metric; one that no run has is missing.
    pub metrics: BTreeMap<String, Spread>,
    /// Against the reference; `null` for the reference itself.
    pub to_reference: Option<Comparison>,
    /// The process's wall time against the copy of the snapshot in the same round.
    pub to_copy: Option<Ratio>,
}

/// The best in one respect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    /// The variant.
    pub variant: String,
    /// The metric it is best by.
    pub metric: String,
    /// Its median.
    pub median: f64,
    /// Variants that are not shown to be worse.
    pub no_difference_to: Vec<String>,
}

/// What the evidence allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A variant is shown to take no more than the margin longer than any other.
    Use,
    /// A single variant ran without a failure: nothing was compared.
    Only,
    /// No variant is shown to be as good as the others.
    NotDecided,
}

/// Which variant to use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// What the evidence allows.
    pub decision: Decision,
    /// Rounds that would probably decide it, beside those that were run; `null` when it is decided, and where more than
    /// 100 would be needed.
    pub more_rounds: Option<u32>,
    /// The fastest, import and scan together.
    pub by_total: Pick,
    /// The one with the smallest peak of memory.
    pub by_memory: Option<Pick>,
    /// The one with the fastest lookups.
    pub by_reads: Option<Pick>,
    /// The one to use by default; `null` when that is not decided.
    pub default: Option<String>,
    /// Why that one, or why none.
    pub reason: String,
    /// What it costs; `null` when it is not decided.
    pub trade_off: Option<String>,
    /// What weakens all this: few rounds, failed runs.
    pub caveats: Vec<String>,
}

/// Everything that is taken from the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The variant that others are compared with.
    pub reference: String,
    /// How much longer than another a variant may take and still count as equally fast, as a share.
    pub margin: f64,
    /// Seconds of the copy.
    pub copy: Option<Spread>,
    /// By variant, in the order of the command line.
    pub variants: Vec<VariantFigures>,
    /// `null` when no variant has a run that counts.
    pub recommendation: Option<Recommendation>,
}

#[cfg(test)]
impl Figures {
    /// The figures of a variant.
    pub fn of(&self, variant: &str) -> Option<&VariantFigures> {
        self.variants.iter().find(|figures| figures.variant == variant)
    }
}

impl VariantFigures {
    /// The median of a metric.
    pub fn median(&self, metric: &str) -> Option<f64> {
        self.metrics.get(metric).map(|spread| spread.median)
    }
}
