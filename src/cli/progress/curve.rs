//! The rates of a log's blocks: the current one, that of the last 100,000 blocks, and a curve of the intervals before.

use std::collections::VecDeque;

use crate::cli::render::numbers::{short, sparkline};

/// The most intervals of the curve.
const CURVE: usize = 16;

/// The rates of the last intervals of 100,000 blocks of a log.
#[derive(Debug, Default)]
pub struct IntervalRates(VecDeque<f64>);

impl IntervalRates {
    /// Adds the rate of the last whole interval, as each sample has it.
    pub fn add(&mut self, rate: Option<f64>) {
        let Some(rate) = rate else { return self.0.clear() };
        if self.0.back() != Some(&rate) {
            self.0.push_back(rate);
        }
        if self.0.len() > CURVE {
            self.0.pop_front();
        }
    }

    /// `212 k blocks/s, last 100,000 at 208 k`; `None` before the first interval.
    pub fn describe(&self, now: f64) -> Option<String> {
        let last = self.0.back()?;
        Some(format!("{} blocks/s, last 100,000 at {}", short(now), short(*last)))
    }

    /// The last intervals as a curve, where there are some.
    pub fn curve(&self) -> Option<String> {
        let rates: Vec<f64> = self.0.iter().copied().collect();
        (rates.len() > 1).then(|| sparkline(&rates, CURVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_interval_follows_the_current_rate() {
        let mut rates = IntervalRates::default();
        assert_eq!((rates.describe(1.0), rates.curve()), (None, None));
        for rate in [100_000.0, 100_000.0, 200_000.0, 50_000.0] {
            rates.add(Some(rate));
        }
        assert_eq!(rates.describe(212_000.0).as_deref(), Some("212 k blocks/s, last 100,000 at 50 k"));
        assert_eq!(rates.curve().as_deref(), Some("▄█▂"));
        rates.add(None);
        assert_eq!((rates.describe(1.0), rates.curve()), (None, None));
    }

    #[test]
    fn the_curve_keeps_to_its_width() {
        let mut rates = IntervalRates::default();
        (1..200).for_each(|rate| rates.add(Some(f64::from(rate) * 1e3)));
        assert_eq!(rates.curve().expect("a curve").chars().count(), CURVE);
    }
}
