//! What many single operations come to.

use std::time::Duration;

use crate::report::Latency;

/// Median and 99th percentile; `None` of nothing.
pub(super) fn latency(mut times: Vec<Duration>) -> Option<Latency> {
    times.sort_unstable();
    let micros = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        Some(times.get(index.min(times.len().checked_sub(1)?))?.as_secs_f64() * 1e6)
    };
    Some(Latency { median_us: micros(0.5)?, p99_us: micros(0.99)?, count: times.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_times_one_is_beyond_the_99th_percentile() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let found = latency(times).expect("some");
        assert_eq!((found.median_us, found.p99_us, found.count), (51_000.0, 100_000.0, 100));
        assert_eq!(latency(Vec::new()), None);
    }
}
