//! How fast blocks of a log go by: the rate of now, that of the last whole 100,000 blocks, and a curve of those before.

use std::collections::VecDeque;

use super::speed::grouped;

/// The most stretches that are remembered for the curve.
const CURVE: usize = 16;

/// The rates of the last stretches of a log.
#[derive(Debug, Default)]
pub struct Stretches(VecDeque<f64>);

impl Stretches {
    /// Takes the rate of the last whole stretch, as each sample has it.
    pub fn add(&mut self, rate: Option<f64>) {
        let Some(rate) = rate else { return self.0.clear() };
        if self.0.back() != Some(&rate) {
            self.0.push_back(rate);
        }
        if self.0.len() > CURVE {
            self.0.pop_front();
        }
    }

    /// `212 k blocks/s, last 100,000 at 208 k`; `None` before the first stretch.
    pub fn describe(&self, now: f64) -> Option<String> {
        let last = self.0.back()?;
        Some(format!("{} blocks/s, last 100,000 at {}", short(now), short(*last)))
    }

    /// The last stretches as a curve, where there are some.
    pub fn curve(&self) -> Option<String> {
        let rates: Vec<f64> = self.0.iter().copied().collect();
        (rates.len() > 1).then(|| sparkline(&rates, CURVE))
    }
}

/// A rate in at most six characters: `9,999`, `212 k`, `1.2 M`.
fn short(rate: f64) -> String {
    let rate = rate.max(0.0);
    match rate {
        0.0..9_999.5 => grouped(rate.round() as u64),
        9_999.5..999_500.0 => format!("{:.0} k", rate / 1e3),
        _ => format!("{:.1} M", rate / 1e6),
    }
}

/// Rates as a line of at most `columns` bars.
pub fn sparkline(rates: &[f64], columns: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let group = rates.len().div_ceil(columns.max(1)).max(1);
    let bar = |rates: &[f64]| {
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        BARS.get(((mean / most * 8.0).ceil() as usize).clamp(1, 8) - 1).copied().unwrap_or(' ')
    };
    rates.chunks(group).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short_whatever_they_are() {
        for (rate, text) in [
            (0.0, "0"),
            (9_999.4, "9,999"),
            (9_999.6, "10 k"),
            (212_345.0, "212 k"),
            (999_499.0, "999 k"),
            (999_501.0, "1.0 M"),
            (12_340_000.0, "12.3 M"),
        ] {
            assert_eq!(short(rate), text);
        }
    }

    #[test]
    fn the_last_stretch_stands_beside_the_rate_of_now() {
        let mut stretches = Stretches::default();
        assert_eq!((stretches.describe(1.0), stretches.curve()), (None, None));
        for rate in [100_000.0, 100_000.0, 200_000.0, 50_000.0] {
            stretches.add(Some(rate));
        }
        assert_eq!(stretches.describe(212_000.0).as_deref(), Some("212 k blocks/s, last 100,000 at 50 k"));
        assert_eq!(stretches.curve().as_deref(), Some("▄█▂"));
        stretches.add(None);
        assert_eq!((stretches.describe(1.0), stretches.curve()), (None, None));
    }

    #[test]
    fn the_curve_keeps_to_its_width() {
        let mut stretches = Stretches::default();
        (1..200).for_each(|rate| stretches.add(Some(f64::from(rate) * 1e3)));
        assert_eq!(stretches.curve().expect("a curve").chars().count(), CURVE);
        assert_eq!(sparkline(&[1.0; 500], 60).chars().count(), 56);
    }
}
