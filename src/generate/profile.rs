//! Block sizes of networks.
//!
//! Sizes follow a table of knots, `(parts per million of the blocks, bytes)`, see [`Noise::draw`].

use super::random::{MILLION, Noise};

/// The network whose block sizes are imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Filecoin's main network, by a census of 188,550 blocks of a live node (ChainSafe/forest#2202): mean 1,015 B, 5.7
    /// % up to 256 B, 36 % up to 1 KiB, 99.86 % up to 2 KiB, none above 64 KiB. There are also large raw blocks, like
    /// the code of actors.
    Mainnet,
    /// Filecoin's calibration network. No census is published. A young chain has emptier trees with more small blocks:
    /// mean about 835 B, a quarter up to 256 B, 62 % up to 1 KiB, 99 % up to 2 KiB. The mean is between the network's
    /// genesis state (hundreds of bytes) and 1 KB, the mean of a later snapshot (ChainSafe/forest#5662).
    Calibnet,
    /// A state of small blocks, as of a test network of Forest: mean about 440 B, a third up to 128 B, 71 % up to 512
    /// B, none above 2 KiB but the large raw ones. A GiB has 2.2 million blocks.
    Small,
}

const MAINNET: &[(u64, u64)] = &[
    (0, 40),
    (57_000, 256),
    (360_000, 1024),
    (650_000, 1138),
    (850_000, 1290),
    (960_000, 1610),
    (998_600, 2048),
    (999_300, 8192),
    (999_800, 32_768),
    (MILLION, 65_536),
];

const CALIBNET: &[(u64, u64)] = &[
    (0, 24),
    (80_000, 64),
    (250_000, 256),
    (620_000, 1024),
    (800_000, 1250),
    (930_000, 1600),
    (990_000, 2048),
    (999_300, 8192),
    (999_800, 32_768),
    (MILLION, 65_536),
];

const SMALL: &[(u64, u64)] = &[
    (0, 24),
    (95_000, 64),
    (320_000, 128),
    (570_000, 256),
    (713_000, 512),
    (800_000, 1024),
    (960_000, 1300),
    (998_600, 1610),
    (MILLION, 2048),
];

impl Profile {
    /// All profiles, largest first.
    pub const ALL: [Self; 3] = [Self::Mainnet, Self::Calibnet, Self::Small];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mainnet => "mainnet",
            Self::Calibnet => "calibnet",
            Self::Small => "small",
        }
    }

    /// Draws the size of one block, in bytes.
    pub(super) fn draw(self, noise: &mut Noise) -> u64 {
        let knots = match self {
            Self::Mainnet => MAINNET,
            Self::Calibnet => CALIBNET,
            Self::Small => SMALL,
        };
        noise.draw(knots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(profile: Profile) -> (f64, impl Fn(u64) -> f64, u64) {
        let mut noise = Noise::new(7, 7);
        let sizes: Vec<u64> = (0..500_000).map(|_| profile.draw(&mut noise)).collect();
        let count = sizes.len() as f64;
        let mean = sizes.iter().sum::<u64>() as f64 / count;
        let largest = sizes.iter().copied().max().unwrap_or(0);
        (mean, move |upto| sizes.iter().filter(|&&size| size <= upto).count() as f64 / count, largest)
    }

    #[test]
    fn mainnet_sizes_follow_the_census() {
        let (mean, upto, largest) = census(Profile::Mainnet);
        assert!((1000.0..1030.0).contains(&mean), "mean {mean}");
        assert!((upto(256) - 0.057).abs() < 0.002, "<= 256 B: {}", upto(256));
        assert!((upto(1024) - 0.36).abs() < 0.004, "<= 1 KiB: {}", upto(1024));
        assert!((upto(2048) - 0.9986).abs() < 0.0004, "<= 2 KiB: {}", upto(2048));
        assert!((32_768..=65_536).contains(&largest), "largest {largest}");
    }

    #[test]
    fn calibnet_sizes_match_the_documentation() {
        let (mean, upto, largest) = census(Profile::Calibnet);
        assert!((820.0..850.0).contains(&mean), "mean {mean}");
        assert!((upto(256) - 0.25).abs() < 0.005, "<= 256 B: {}", upto(256));
        assert!((upto(1024) - 0.62).abs() < 0.005, "<= 1 KiB: {}", upto(1024));
        assert!((upto(2048) - 0.99).abs() < 0.002, "<= 2 KiB: {}", upto(2048));
        assert!((32_768..=65_536).contains(&largest), "largest {largest}");
    }

    #[test]
    fn small_sizes_are_what_the_documentation_says() {
        let (mean, upto, largest) = census(Profile::Small);
        assert!((430.0..445.0).contains(&mean), "mean {mean}");
        assert!((upto(128) - 0.32).abs() < 0.005, "<= 128 B: {}", upto(128));
        assert!((upto(512) - 0.713).abs() < 0.005, "<= 512 B: {}", upto(512));
        assert!((1024..=2048).contains(&largest), "largest {largest}");
    }
}
