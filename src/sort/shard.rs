//! Shards: equal ranges of the digest, for imports on several machines.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most shards of a source.
pub(crate) const MAX_SHARDS: u32 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shard {
    /// Counted from 0.
    pub number: u32,
    pub of: u32,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Default for Shard {
    /// The whole range.
    fn default() -> Self {
        Self { number: 0, of: 1 }
    }
}

impl Shard {
    /// Returns shard `number` of `of`, if it exists.
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (number < of && of <= MAX_SHARDS).then_some(Self { number, of })
    }

    pub fn is_all(&self) -> bool {
        self.of == 1
    }

    /// Returns the number of digest bits that distinguish this many shards.
    pub fn bits(self) -> u32 {
        self.of.next_power_of_two().ilog2()
    }

    /// Returns the least first eight bytes of a digest at `place`, a share of 2^64, in the range of the shard.
    pub fn prefix_at(self, place: u64) -> u64 {
        let prefix = ((u128::from(self.number) << 64) | u128::from(place)).div_ceil(u128::from(self.of.max(1)));
        u64::try_from(prefix).unwrap_or(u64::MAX)
    }

    /// Returns the number of the shard of a digest, and the position of the digest in its range as a share of 2^64.
    pub fn place(self, prefix: u64) -> (u32, u64) {
        let place = u128::from(prefix) * u128::from(self.of);
        ((place >> 64) as u32, place as u64)
    }
}
