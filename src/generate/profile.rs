//! Block sizes of networks.
//!
//! Sizes follow a table of knots, `(parts per million of the blocks, bytes)`, see [`Noise::draw`].

use super::random::{MILLION, Noise};

/// The network whose block sizes are imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Filecoin's main network, by a census of 188,550 blocks of a live node (ChainSafe/forest#2202): mean 1,015 B, 5.7
    /// % up to 256 B, 36 % up to 1 KiB, 99.86 % up to 2 KiB, none above 64 KiB. There are also large raw blocks, like
    /// the code of actors.
    Mainnet,
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
    pub const ALL: [Self; 2] = [Self::Mainnet, Self::Small];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mainnet => "mainnet",
            Self::Small => "small",
        }
    }

    pub(super) fn draw(self, noise: &mut Noise) -> u64 {
        noise.draw(match self {
            Self::Mainnet => MAINNET,
            Self::Small => SMALL,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_documentation() {
        for (profile, means, shares, largest) in [
            (
                Profile::Mainnet,
                1000.0..1030.0,
                [(256, 0.057, 0.002), (1024, 0.36, 0.004), (2048, 0.9986, 0.0004)],
                32_768..=65_536,
            ),
            (Profile::Small, 430.0..445.0, [(128, 0.32, 0.005), (512, 0.713, 0.005), (2048, 1.0, 0.0)], 1024..=2048),
        ] {
            let mut noise = Noise::new(7, 7);
            let sizes: Vec<u64> = (0..500_000).map(|_| profile.draw(&mut noise)).collect();
            let count = sizes.len() as f64;
            let mean = sizes.iter().sum::<u64>() as f64 / count;
            assert!(means.contains(&mean), "{profile:?}: mean {mean}");
            assert!(largest.contains(sizes.iter().max().expect("a size")), "{profile:?}");
            for (size, share, tolerance) in shares {
                let found = sizes.iter().filter(|&&found| found <= size).count() as f64 / count;
                assert!((found - share).abs() <= tolerance, "{profile:?}, <= {size} B: {found}");
            }
        }
    }
}
