//! Pseudo-random numbers. The same seed gives the same snapshot in every version of bedload and on every machine, so
//! this is not a crate, whose sequence may change.

/// SplitMix64 (Steele, Lea, Flood 2014): a counter and a bijection.
#[derive(Debug, Clone)]
pub(crate) struct Noise(u64);

/// Sum of the shares in a table of knots.
pub(crate) const MILLION: u64 = 1_000_000;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Noise {
    /// The sequence number `stream` of `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed.wrapping_add(GOLDEN) ^ mix(stream.wrapping_add(GOLDEN))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `limit`, which is not 0. The distribution is even for limits far below 2^32.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from a table of knots, `(parts per million, upper bound)`: that share of the numbers is not larger.
    /// Between two knots the distribution is even. Integers only, so that every machine draws the same.
    pub(crate) fn draw(&mut self, knots: &[(u64, u64)]) -> u64 {
        let share = self.below(MILLION);
        let mut lower = (0, 0);
        for &(upto, bound) in knots {
            if share < upto {
                let (from, smallest) = lower;
                return smallest + 1 + (share - from) * (bound - smallest) / (upto - from);
            }
            lower = (upto, bound);
        }
        lower.1
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        let mut words = out.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next().to_le_bytes();
        rest.iter_mut().zip(last).for_each(|(byte, random)| *byte = random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut noise = Noise::new(0, 0);
        let first: Vec<u64> = (0..3).map(|_| noise.next()).collect();
        let mut again = Noise::new(0, 0);
        let mut bytes = [0; 20];
        again.fill(&mut bytes);
        assert_eq!(bytes[..8], first[0].to_le_bytes());
        assert_eq!(bytes[16..], first[2].to_le_bytes()[..4]);
        assert_eq!(mix(GOLDEN), 0xe220_a839_7b1d_cdaf, "the published first output of SplitMix64 for seed 0");
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut noise = Noise::new(1, 2);
        let drawn: Vec<u64> = (0..1000).map(|_| noise.below(10)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&9)));
    }
}
