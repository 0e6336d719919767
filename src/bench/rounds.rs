//! The runs that count, by variant and round.

use std::collections::BTreeMap;

use crate::report::bench::{Metric, Ratio, Run};
use crate::report::statistics;

/// The runs that count, by variant and round.
pub(super) struct Rounds<'a>(BTreeMap<(&'a str, u32), &'a Run>);

impl<'a> Rounds<'a> {
    pub fn new(runs: &'a [Run]) -> Self {
        let counted = runs.iter().filter(|run| !run.warmup && run.failure.is_none());
        Self(counted.map(|run| ((run.variant.as_str(), run.round), run)).collect())
    }

    /// A metric's values, each with its round.
    pub fn values(&self, variant: &str, metric: &Metric) -> Vec<(u32, f64)> {
        let own = self.0.iter().filter(|((name, _), _)| *name == variant);
        own.filter_map(|((_, round), run)| Some((*round, metric.of(run)?))).collect()
    }

    /// One variant against another, from the rounds that have both.
    pub fn ratio(&self, metric: &Metric, variant: &str, other: &str) -> Option<Ratio> {
        let others: BTreeMap<u32, f64> = self.values(other, metric).into_iter().collect();
        let pairs: Vec<(f64, f64)> = self
            .values(variant, metric)
            .into_iter()
            .filter_map(|(round, value)| Some((value, *others.get(&round)?)))
            .collect();
        statistics::ratio(&pairs)
    }
}
