//! Figures computed from the runs: medians, ratios with their intervals, and a recommendation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metrics::{METRICS, Metric};
use crate::report::statistics::{Ratio, Spread};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantRatios {
    pub against: String,
    /// By metric.
    pub ratios: BTreeMap<String, Ratio>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantFigures {
    pub variant: String,
    /// Successful runs that count.
    pub runs: usize,
    pub failed: usize,
    /// The errors of failed runs, each once.
    pub errors: Vec<String>,
    /// By metric. A metric without a value in any run is missing.
    pub metrics: BTreeMap<String, Spread>,
    /// Ratios to the reference; `null` for the reference itself.
    pub to_reference: Option<VariantRatios>,
    /// The wall time over that of the copy in the same round.
    pub to_copy: Option<Ratio>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    pub variant: String,
    pub metric: String,
    pub median: f64,
    /// Variants that are not shown to be worse.
    pub no_difference_to: Vec<String>,
}

/// The conclusion that the runs support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A variant is shown to be slower than each other one by at most the margin.
    Use,
    /// Only one variant ran without a failure.
    Only,
    /// The runs do not show it of any variant.
    NotDecided,
}

/// The variant to use, and the reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    pub decision: Decision,
    /// Further rounds that would probably decide; `null` if it is decided or more than 100 are needed.
    pub more_rounds: Option<u32>,
    /// The fastest, import and scan together.
    pub by_total: Pick,
    pub by_memory: Option<Pick>,
    pub by_reads: Option<Pick>,
    /// The variant to use; `null` if it is not decided.
    pub default: Option<String>,
    pub reason: String,
    /// The advantages of other variants; `null` if it is not decided.
    pub trade_off: Option<String>,
    /// Failed runs and different databases.
    pub caveats: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchFigures {
    /// The variant that others are compared with.
    pub reference: String,
    /// The share by which a variant may be slower than another one and still be recommended.
    pub margin: f64,
    /// Seconds of the copy.
    pub copy: Option<Spread>,
    /// In the order of the command line.
    pub variants: Vec<VariantFigures>,
    /// `null` if no variant has a run that counts.
    pub recommendation: Option<Recommendation>,
}

impl BenchFigures {
    pub fn of(&self, variant: &str) -> Option<&VariantFigures> {
        self.variants.iter().find(|figures| figures.variant == variant)
    }

    /// Returns the metrics that at least one variant has.
    pub fn measured(&self) -> impl Iterator<Item = &'static Metric> {
        METRICS.iter().filter(|metric| self.variants.iter().any(|it| it.metrics.contains_key(metric.key)))
    }
}

impl VariantFigures {
    pub fn median(&self, metric: &str) -> Option<f64> {
        self.metrics.get(metric).map(|spread| spread.median)
    }
}
