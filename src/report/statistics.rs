//! Statistics of few runs: medians, spreads, outliers by a robust rule, and ratios with an interval.
//!
//! Rounds are few and machines drift. So a ratio is taken within each round, where both sides saw the same machine; its interval is
//! Student's t over the logarithms of the ratios (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, 2013). One side is
//! no worse than the other if the whole interval is below a limit that was fixed before (non-inferiority; Schuirmann 1987).

use serde::{Deserialize, Serialize};

/// A value is an outlier when it is further from the median than so many scaled median deviations (Iglewicz and
/// Hoaglin 1993).
const FAR: f64 = 3.5;

/// Makes the median deviation of normal noise its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Fewer values have no outliers: two against one is no majority.
const ENOUGH: usize = 4;

/// Quantiles of Student's t for 97.5 %, by degrees of freedom from 1: both ends together leave 5 % out.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The quantile of the normal distribution that Student's t converges to.
const Z_975: f64 = 1.960;

/// The fewest pairs whose spread says something about others.
pub const LEAST_PAIRS: usize = 3;

/// Most further pairs that are proposed.
pub const MOST_MORE_PAIRS: usize = 100;

/// The median and the spread of several values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// The median distance from the median.
    pub mad: f64,
    /// The values, in the order of the rounds.
    pub samples: Vec<f64>,
    /// The rounds of the outliers; see [`outliers`].
    pub outlier_rounds: Vec<u32>,
}

/// The position of an interval relative to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of the interval is below one.
    Lower,
    /// All of the interval is above one.
    Higher,
    /// The interval contains one: no difference is shown.
    NoDifference,
    /// A single pair has no interval.
    Unknown,
}

/// The ratio of one variant to another, from pairs of runs of the same round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The geometric mean of the rounds' ratios.
    pub ratio: f64,
    /// The ends of the 95 % confidence interval; `null` with a single pair.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Rounds in which both ran.
    pub pairs: usize,
    pub verdict: Verdict,
}

/// The middle value, or the mean of the two middle ones; `None` of nothing. `quantile` of a half would be the lower of the two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(lower + (upper - lower) / 2.0)
}

/// The median distance from the median; `None` of nothing.
pub fn mad(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

/// The indices of the outliers. Fewer than four values have none; neither have values of which more than half are equal.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let (Some(middle), Some(mad)) = (median(values), mad(values)) else { return Vec::new() };
    if values.len() < ENOUGH || mad == 0.0 {
        return Vec::new();
    }
    let far = |&(_, value): &(usize, &f64)| (value - middle).abs() > FAR * MAD_TO_SIGMA * mad;
    values.iter().enumerate().filter(far).map(|(index, _)| index).collect()
}

/// The middle and the spread of `values`, each with its round; `None` of nothing.
pub fn spread(values: &[(u32, f64)]) -> Option<Spread> {
    let samples: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    Some(Spread {
        median: median(&samples)?,
        min: samples.iter().copied().fold(f64::INFINITY, f64::min),
        max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        mad: mad(&samples)?,
        outlier_rounds: outliers(&samples).into_iter().filter_map(|index| values.get(index).map(|it| it.0)).collect(),
        samples,
    })
}

/// The quantile of Student's t; beyond the table by its expansion (Abramowitz and Stegun 26.7.5), within 0.1 %.
pub fn t_975(degrees: usize) -> f64 {
    let known = degrees.checked_sub(1).and_then(|index| T_975.get(index)).copied();
    known.unwrap_or_else(|| Z_975 + (Z_975.powi(3) + Z_975) / (4.0 * degrees.max(1) as f64))
}

/// True if the whole interval is below `limit` and there are enough pairs.
pub fn is_below(ratio: &Ratio, limit: f64) -> bool {
    ratio.pairs >= LEAST_PAIRS && ratio.high.is_some_and(|high| high < limit)
}

/// Returns the number of further pairs that show that a ratio is below `limit`, if mean and spread stay the same. `None` if the mean
/// is not below, or if [`MOST_MORE_PAIRS`] are too few.
pub fn more_pairs(ratio: &Ratio, limit: f64) -> Option<usize> {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        // A single pair has no spread that could tell.
        return Some(LEAST_PAIRS.saturating_sub(ratio.pairs));
    };
    let half = (high / low).ln() / 2.0;
    let deviation = half * (ratio.pairs as f64).sqrt() / t_975(ratio.pairs - 1);
    let distance = limit.ln() - ratio.ratio.ln();
    let first = ratio.pairs.max(LEAST_PAIRS);
    let fits = |pairs: &usize| t_975(pairs - 1) * deviation / (*pairs as f64).sqrt() <= distance;
    (first..=ratio.pairs + MOST_MORE_PAIRS).find(fits).map(|pairs| pairs - ratio.pairs)
}

/// The ratio of pairs (this, other), with its interval; `None` where no pair has two positive values.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> = pairs
        .iter()
        .filter(|(this, other)| *this > 0.0 && *other > 0.0)
        .map(|(this, other)| (this / other).ln())
        .collect();
    if logs.is_empty() {
        return None;
    }
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    if logs.len() == 1 {
        return Some(Ratio { ratio: mean.exp(), low: None, high: None, pairs: 1, verdict: Verdict::Unknown });
    }
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = t_975(logs.len() - 1) * (variance / count).sqrt();
    let (low, high) = ((mean - half).exp(), (mean + half).exp());
    let verdict = match () {
        () if high < 1.0 => Verdict::Lower,
        () if low > 1.0 => Verdict::Higher,
        () => Verdict::NoDifference,
    };
    Some(Ratio { ratio: mean.exp(), low: Some(low), high: Some(high), pairs: logs.len(), verdict })
}

/// The value that `share` of the sorted values do not exceed, by the nearest rank; `None` of nothing.
pub fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1.0)
    }

    #[test]
    fn medians_and_deviations_match_textbooks() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        // The usual example: deviations 1, 1, 0, 0, 2, 4, 7 have the median 1.
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    }

    #[test]
    fn only_far_runs_are_outliers() {
        assert_eq!(outliers(&[5.0, 5.1, 4.9, 5.2, 9.0]), [4]);
        assert_eq!(outliers(&[5.0, 5.1, 4.9, 5.2, 5.4]), Vec::<usize>::new());
        assert_eq!(outliers(&[5.0, 5.1, 50.0]), Vec::<usize>::new(), "three runs are too few to tell");
        assert_eq!(outliers(&[5.0, 5.0, 5.0, 5.0, 5.1]), Vec::<usize>::new(), "no spread, no rule");
        let spread = spread(&[(3, 5.0), (4, 5.1), (5, 4.9), (6, 5.2), (7, 9.0)]).expect("five values");
        assert_eq!((spread.median, spread.min, spread.max), (5.1, 4.9, 9.0));
        assert_eq!(spread.outlier_rounds, [7]);
    }

    #[test]
    fn interval_is_students() {
        // Logarithms 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, standard error 0.057735, times 4.303 is 0.24843.
        let pairs: Vec<_> = [0.1_f64, 0.2, 0.3].iter().map(|log| (log.exp() * 7.0, 7.0)).collect();
        let found = ratio(&pairs).expect("three pairs");
        assert!(near(found.ratio, 0.2_f64.exp()));
        assert!(near(found.low.expect("an interval"), (0.2 - 0.248_43_f64).exp()), "{found:?}");
        assert!(near(found.high.expect("an interval"), (0.2 + 0.248_43_f64).exp()), "{found:?}");
        assert_eq!((found.pairs, found.verdict), (3, Verdict::NoDifference));
    }

    #[test]
    fn difference_needs_agreeing_rounds() {
        let verdict = |pairs: &[(f64, f64)]| ratio(pairs).map(|ratio| ratio.verdict);
        assert_eq!(verdict(&[(2.0, 1.0), (4.1, 2.0), (1.0, 0.5)]), Some(Verdict::Higher));
        assert_eq!(verdict(&[(1.0, 2.0), (2.0, 4.1), (0.5, 1.0)]), Some(Verdict::Lower));
        assert_eq!(verdict(&[(2.0, 1.0), (1.0, 2.0), (3.0, 1.0)]), Some(Verdict::NoDifference));
        assert_eq!(verdict(&[(2.0, 1.0)]), Some(Verdict::Unknown), "one pair says nothing");
        assert_eq!(verdict(&[]), None);
        assert_eq!(verdict(&[(0.0, 1.0), (1.0, 0.0)]), None, "nothing over nothing is no ratio");
        // Equal to the last bit: an interval without width that holds one.
        assert_eq!(verdict(&[(2.0, 2.0), (3.0, 3.0)]), Some(Verdict::NoDifference));
    }

    #[test]
    fn below_a_limit_needs_enough_pairs() {
        let of = |logs: &[f64]| ratio(&logs.iter().map(|log| (log.exp(), 1.0)).collect::<Vec<_>>()).expect("pairs");
        assert!(is_below(&of(&[0.01, 0.0, -0.01]), 1.05), "an interval of 0.975 to 1.025");
        assert!(!is_below(&of(&[0.0, 0.0]), 1.05), "two pairs show nothing");
        assert!(!is_below(&of(&[0.1, 0.0, -0.1]), 1.05), "equal in the mean is not enough");
        assert!(!is_below(&of(&[0.06, 0.06, 0.06]), 1.05), "worse than the limit");
    }

    #[test]
    fn more_pairs_follow_from_the_spread() {
        let of = |logs: &[f64]| ratio(&logs.iter().map(|log| (log.exp(), 1.0)).collect::<Vec<_>>()).expect("pairs");
        // Deviation 0.1, limit ln 1.05 = 0.04879: t * 0.1 / sqrt(n) <= 0.04879 first holds for 19 pairs, with t =
        // 2.101.
        assert_eq!(more_pairs(&of(&[0.1, 0.0, -0.1]), 1.05), Some(16));
        // The interval of the complaint, 0.10 to 30.28, and the mean 0.55: deviation 0.318 around 1 / 1.74.
        let ratio = Ratio {
            ratio: 1.0 / 1.74,
            low: Some(1.0 / 30.28),
            high: Some(10.0),
            pairs: 2,
            verdict: Verdict::NoDifference,
        };
        assert_eq!(more_pairs(&ratio, 1.05), Some(2));
        assert_eq!(more_pairs(&of(&[0.0]), 1.05), Some(2), "three at least");
        assert_eq!(more_pairs(&of(&[0.01, 0.0, -0.01]), 1.05), Some(0));
        assert_eq!(more_pairs(&of(&[0.06, 0.07, 0.08]), 1.05), None, "worse than the limit in the mean");
        assert_eq!(more_pairs(&of(&[1.0, 0.0, -1.0]), 1.05), None, "too uneven");
    }

    #[test]
    fn quantile_continues_after_the_table() {
        // Tables have 2.040 for 31 and 2.000 for 60 degrees of freedom.
        assert!((t_975(31) - 2.040).abs() < 0.004 && (t_975(60) - 2.000).abs() < 0.002);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let values: Vec<u64> = (1..=1000).collect();
        assert_eq!(quantile(&values, 0.5), Some(500));
        assert_eq!(quantile(&values, 0.99), Some(990));
        assert_eq!(quantile(&values, 0.999), Some(999));
        assert_eq!(quantile(&values, 1.0), Some(1000));
        assert_eq!(quantile(&[7], 0.999), Some(7));
        assert_eq!(quantile(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn median_halves_the_values(values in prop::collection::vec(-1e6_f64..1e6, 1..50)) {
            let middle = median(&values).expect("some");
            prop_assert!(values.iter().filter(|&&value| value <= middle).count() * 2 >= values.len());
            prop_assert!(values.iter().filter(|&&value| value >= middle).count() * 2 >= values.len());
        }

        #[test]
        fn outliers_ignore_unit_and_order(values in prop::collection::vec(0.1_f64..1e3, 1..40)) {
            let found = outliers(&values);
            prop_assert!(found.len() * 2 <= values.len());
            let scaled: Vec<f64> = values.iter().map(|value| value * 1024.0).collect();
            prop_assert_eq!(&outliers(&scaled), &found);
            let reversed: Vec<f64> = values.iter().rev().copied().collect();
            let mut mirrored: Vec<usize> = outliers(&reversed).iter().map(|index| values.len() - 1 - index).collect();
            mirrored.sort_unstable();
            prop_assert_eq!(mirrored, found);
        }

        #[test]
        fn ratio_lies_in_its_interval(
            pairs in prop::collection::vec((0.1_f64..1e3, 0.1_f64..1e3), 2..30)
        ) {
            let this = ratio(&pairs).expect("pairs");
            let turned: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let other = ratio(&turned).expect("pairs");
            prop_assert!(this.low.expect("low") <= this.ratio && this.ratio <= this.high.expect("high"));
            prop_assert!(near(this.ratio * other.ratio, 1.0));
            prop_assert!(near(this.low.expect("low") * other.high.expect("high"), 1.0));
            let turned = match this.verdict {
                Verdict::Lower => Verdict::Higher,
                Verdict::Higher => Verdict::Lower,
                same => same,
            };
            prop_assert_eq!(other.verdict, turned);
        }

        #[test]
        fn quantile_is_a_value_and_grows(mut values in prop::collection::vec(any::<u64>(), 1..100)) {
            values.sort_unstable();
            let found: Vec<u64> = [0.0, 0.5, 0.9, 0.99, 1.0].iter().filter_map(|&it| quantile(&values, it)).collect();
            prop_assert!(found.is_sorted());
            prop_assert!(found.iter().all(|value| values.contains(value)));
        }
    }
}
