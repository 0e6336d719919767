//! Forecasts the durations of runs from those of finished runs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::report::bench::COPY;

/// The duration of the last run of each variant.
#[derive(Debug, Default)]
pub(super) struct RunPace(BTreeMap<String, Duration>);

impl RunPace {
    pub fn note(&mut self, variant: &str, time: Duration) {
        self.0.insert(variant.to_owned(), time);
    }

    /// Returns the duration of the last run of the variant, or the mean of the imports. `None` if neither is known.
    pub fn expected(&self, variant: &str) -> Option<Duration> {
        let imports: Vec<Duration> =
            self.0.iter().filter(|(name, _)| *name != COPY && variant != COPY).map(|(_, time)| *time).collect();
        let mean = || imports.iter().sum::<Duration>().checked_div(imports.len() as u32);
        self.0.get(variant).copied().or_else(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_runs_take_the_mean_of_imports() {
        let seconds = Duration::from_secs;
        let mut pace = RunPace::default();
        assert_eq!(pace.expected("a"), None);
        pace.note(COPY, seconds(1));
        assert_eq!(pace.expected("a"), None, "a copy is no import");
        for (variant, time) in [("a", 4), ("a", 6), ("b", 8)] {
            pace.note(variant, seconds(time));
        }
        let expected = ["a", "c", COPY].map(|variant| pace.expected(variant));
        assert_eq!(expected, [6, 7, 1].map(|time| Some(seconds(time))));
    }
}
