//! How long the runs of a comparison or a search take, from those that are over: what progress says is left.

use std::time::Duration;

use crate::report::bench::COPY;

/// The durations of runs.
#[derive(Debug, Default)]
pub(super) struct Pace(Vec<Known>);

#[derive(Debug)]
struct Known {
    variant: String,
    bytes: u64,
    seconds: f64,
}

impl Pace {
    /// Notes how long the last run of a variant took, on a snapshot or sample of so many bytes.
    pub fn note(&mut self, variant: &str, bytes: u64, time: Duration) {
        self.0.retain(|it| (it.variant.as_str(), it.bytes) != (variant, bytes));
        self.0.push(Known { variant: variant.to_owned(), bytes, seconds: time.as_secs_f64() });
    }

    /// How long a run will probably take: as the last of its variant, or else as others on as many bytes do in the mean, or
    /// on others in proportion. A copy says nothing about imports. `None` before anything is known.
    pub fn expected(&self, variant: &str, bytes: u64) -> Option<Duration> {
        let own = self.0.iter().find(|it| (it.variant.as_str(), it.bytes) == (variant, bytes));
        let imports = || self.0.iter().filter(|it| it.variant != COPY || variant == COPY);
        let seconds = own.map(|it| it.seconds).or_else(|| {
            let nearest = imports().map(|it| it.bytes).min_by_key(|known| known.abs_diff(bytes))?;
            let there: Vec<f64> = imports().filter(|it| it.bytes == nearest).map(|it| it.seconds).collect();
            let mean = there.iter().sum::<f64>() / there.len() as f64;
            // What is smaller has its fixed costs all the same.
            Some(mean * (bytes as f64 / nearest.max(1) as f64).max(1.0))
        })?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The sum over several runs; `None` where one is unknown.
    pub fn sum<'a>(&self, runs: impl IntoIterator<Item = (&'a str, u64)>) -> Option<Duration> {
        runs.into_iter().map(|(variant, bytes)| self.expected(variant, bytes)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn a_run_takes_as_long_as_the_last_one_of_its_kind() {
        let mut pace = Pace::default();
        assert_eq!((pace.expected("a", 10), pace.sum([("a", 10)])), (None, None));
        pace.note(COPY, 10, Duration::from_secs(1));
        assert_eq!(pace.expected("a", 10), None, "a copy is no import");
        pace.note("a", 10, Duration::from_secs(4));
        pace.note("a", 10, Duration::from_secs(6));
        pace.note("b", 10, Duration::from_secs(8));
        assert_eq!((pace.expected("a", 10), pace.expected("c", 10)), (secs(6), secs(7)));
        assert_eq!(
            (pace.expected("a", 40), pace.expected("a", 5)),
            (secs(28), secs(7)),
            "by size, and no less than fixed"
        );
        assert_eq!(pace.sum([("a", 10), (COPY, 10), ("c", 10)]), secs(14));
    }
}
