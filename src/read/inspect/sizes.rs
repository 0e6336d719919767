//! Blocks by size.

use crate::report::SizeClass;

/// Size classes: one per power of two.
const CLASSES: usize = 65;

/// Number and bytes of blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SizeSum {
    pub blocks: u64,
    pub bytes: u64,
}

impl SizeSum {
    pub fn add(&mut self, bytes: u64) {
        self.blocks += 1;
        self.bytes += bytes;
    }

    pub fn merge(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// Blocks of each size class.
pub(super) struct Sizes([SizeSum; CLASSES]);

impl Default for Sizes {
    fn default() -> Self {
        Self([SizeSum::default(); CLASSES])
    }
}

impl Sizes {
    pub fn add(&mut self, size: u64) {
        if let Some(class) = self.0.get_mut(u64::BITS as usize - size.leading_zeros() as usize) {
            class.add(size);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| own.merge(other));
    }

    /// Returns the classes that have blocks.
    pub fn classes(&self) -> Vec<SizeClass> {
        let class = |(bits, sum): (u32, &SizeSum)| SizeClass {
            up_to: if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) },
            blocks: sum.blocks,
            bytes: sum.bytes,
        };
        (0..).zip(&self.0).filter(|(_, sum)| sum.blocks > 0).map(class).collect()
    }
}
