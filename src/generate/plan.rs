//! The shape of one chunk: the number and sizes of its blocks, and which are repeated.
//!
//! A chunk is a tree of about 1 MiB of blocks. Its plan follows from the spec and the chunk's number, so any thread can
//! make any chunk, and a chunk can repeat a block of an earlier one by making it again.

use unsigned_varint::encode;

use super::Spec;
use super::block;
use super::cbor::CID_LEN;
use super::random::Noise;

/// Target size of a chunk, in bytes of CAR.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;
pub(super) const FANOUT: usize = 16;

/// One chunk in this many has a large raw block, as the code of an actor is.
const LARGE_EVERY: u64 = 64;
/// Chunks with less room than this have none.
const LARGE_NEEDS: u64 = 768 << 10;
const LARGE_MIN: u64 = 128 << 10;
const LARGE_MAX: u64 = 640 << 10;
/// One leaf in this many is raw.
const RAW_EVERY: usize = 509;

/// The largest leaf, unless a budget needs a larger one. The large raw block does not count.
const LEAF_MAX: usize = 1 << 16;

/// Repeats may exceed a budget by this part of it.
const SLACK: u64 = 32;

/// Kinds of streams of random numbers.
const SIZES: u64 = 1 << 62;
const REPEATS: u64 = 2 << 62;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChunkPlan {
    pub(super) chunk: u64,
    pub(super) leaves: Vec<usize>,
    /// Sizes of the inner blocks, level by level, each level front to back. The last is the chunk's root.
    pub(super) nodes: Vec<usize>,
    /// Leaves of this chunk or another one that are written once more.
    pub(super) repeats: Vec<Leaf>,
    large: bool,
}

/// A block without links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) chunk: u64,
    pub(super) number: usize,
    pub(super) size: usize,
    pub(super) raw: bool,
}

/// Bytes of a section of a CAR with a block of this size: length, CID, block.
pub(super) fn section_len(block: usize) -> u64 {
    let inner = (CID_LEN + block) as u64;
    inner + encode::u64(inner, &mut encode::u64_buffer()).len() as u64
}

impl ChunkPlan {
    /// The shape of chunk number `chunk` that fills `budget` bytes. `budget_of` returns the budget of any chunk.
    pub(super) fn new(spec: &Spec, chunk: u64, budget_of: impl Fn(u64) -> u64) -> Self {
        let budget = budget_of(chunk);
        let mut plan = Self::without_repeats(spec, chunk, budget);
        plan.draw_repeats(spec, budget_of);
        plan.fit(spec, budget);
        plan
    }

    pub(super) fn leaf(&self, number: usize) -> Leaf {
        let raw = number % RAW_EVERY == RAW_EVERY - 1 || self.large && number + 1 == self.leaves.len();
        Leaf { chunk: self.chunk, number, size: self.leaves[number], raw }
    }

    /// Number of leaves that may be repeated: the first half. [`Self::fit`] resizes the others only, so that repeated
    /// sizes do not depend on the chunk's own repeats.
    fn repeatable(&self) -> usize {
        self.leaves.len().div_ceil(2)
    }

    fn without_repeats(spec: &Spec, chunk: u64, budget: u64) -> Self {
        let room = budget * (100 - u64::from(spec.duplicates)) / 100;
        let mut noise = Noise::new(spec.seed, SIZES | chunk);
        let large = (chunk.is_multiple_of(LARGE_EVERY) && room >= LARGE_NEEDS)
            .then(|| (LARGE_MIN + noise.below(LARGE_MAX - LARGE_MIN)) as usize);

        // Resized leaves are never repeated. Two leaves and their root are the least with one to resize.
        let least: u64 = if spec.duplicates > 0 { 3 } else { 1 };
        let mut sum = large.map_or(0, section_len);
        let mut sizes = Vec::new();
        while sizes.is_empty() || sum + section_len(block::SMALLEST) <= room {
            // The length has at most three bytes: the block has less than 2^21.
            let rest = room.saturating_sub(sum + CID_LEN as u64 + 3);
            let rest = rest / least.saturating_sub(sizes.len() as u64).max(1);
            let size = spec.profile.draw(&mut noise).min(rest).max(block::SMALLEST as u64) as usize;
            sum += section_len(size);
            sizes.push(size);
        }

        let blocks = sizes.len() + usize::from(large.is_some());
        let leaf_count = (1..=blocks).rev().find(|&leaves| leaves + inner(leaves) <= blocks).unwrap_or(1);
        let mut nodes = Vec::with_capacity(inner(leaf_count));
        let mut leaves = Vec::with_capacity(leaf_count);
        for size in sizes {
            let becomes_node = nodes.len() < inner(leaf_count) && size >= block::smallest_with(FANOUT);
            if becomes_node { nodes.push(size) } else { leaves.push(size) }
        }
        while nodes.len() < inner(leaf_count) {
            nodes.extend(leaves.pop());
        }
        leaves.truncate(leaf_count - usize::from(large.is_some()));
        leaves.extend(large);

        let mut node = nodes.iter_mut();
        for (parents, children) in levels(leaf_count).skip(1).zip(levels(leaf_count)) {
            for (parent, size) in (0..parents).zip(&mut node) {
                *size = (*size).max(block::smallest_with(FANOUT.min(children - parent * FANOUT)));
            }
        }
        Self { chunk, leaves, nodes, repeats: Vec::new(), large: large.is_some() }
    }

    /// Half of the repeats are from the chunk itself, half from one earlier chunk.
    fn draw_repeats(&mut self, spec: &Spec, budget_of: impl Fn(u64) -> u64) {
        let percent = u64::from(spec.duplicates);
        let mut noise = Noise::new(spec.seed, REPEATS | self.chunk);
        let distinct = (self.leaves.len() + self.nodes.len()) as u64;
        // The remainder is rounded by chance, so that tiny chunks get their share too.
        let count = (distinct * percent + noise.below(100 - percent)) / (100 - percent);
        if count == 0 {
            return;
        }
        let far = (self.chunk > 0).then(|| {
            let chunk = noise.below(self.chunk);
            Self::without_repeats(spec, chunk, budget_of(chunk))
        });
        let budget = budget_of(self.chunk);
        let resizable = self.leaves[self.repeatable()..].iter().filter(|&&size| size <= LEAF_MAX);
        let shrinks: usize = resizable.map(|&size| size.saturating_sub(block::SMALLEST)).sum();
        let slack = (budget / SLACK).min(shrinks as u64);
        let mut sum = self.bytes();
        let mut repeats = Vec::new();
        for n in 0..count {
            let from = far.as_ref().filter(|_| n % 2 == 1).unwrap_or(self);
            let leaf = from.leaf(noise.below(from.repeatable() as u64) as usize);
            // The excess must be small enough for the other leaves to shrink by it.
            if sum + section_len(leaf.size) <= budget + slack {
                sum += section_len(leaf.size);
                repeats.push(leaf);
            }
        }
        self.repeats = repeats;
    }

    fn bytes(&self) -> u64 {
        let repeats = self.repeats.iter().map(|repeat| repeat.size);
        self.leaves.iter().chain(&self.nodes).copied().chain(repeats).map(section_len).sum()
    }

    /// Resizes leaves until the chunk about fills its budget. First those of 1 to 2 KiB, within these bounds, which
    /// does not change the distribution of sizes. Then others. At last, in a small chunk with small repeats, one leaf
    /// gets all missing bytes.
    fn fit(&mut self, spec: &Spec, budget: u64) {
        let mut missing = budget as i64 - self.bytes() as i64;
        // Later chunks may repeat leaves of this one.
        let first = if spec.duplicates == 0 { 0 } else { self.repeatable() };
        for (smallest, largest) in [(1025, 2048), (block::SMALLEST, LEAF_MAX), (block::SMALLEST, budget as usize)] {
            for size in self.leaves.iter_mut().skip(first).filter(|size| (smallest..=largest).contains(*size)) {
                let before = section_len(*size) as i64;
                *size = (*size as i64 + missing).clamp(smallest as i64, largest as i64) as usize;
                missing -= section_len(*size) as i64 - before;
                if missing == 0 {
                    return;
                }
            }
        }
    }
}

/// Blocks of each level of a tree over this many leaves, from the leaves to the root.
pub(super) fn levels(leaves: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(leaves), |&level| (level > 1).then(|| level.div_ceil(FANOUT)))
}

/// Inner blocks of a tree over this many leaves.
fn inner(leaves: usize) -> usize {
    levels(leaves).skip(1).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Profile, Spec};
    use super::*;

    fn spec(profile: Profile, seed: u64, duplicates: u8) -> Spec {
        Spec::new(profile, 0).seed(seed).duplicates(duplicates).expect("a percentage up to 90")
    }

    fn fills(spec: &Spec, chunk: u64, budget: u64) -> Result<(), String> {
        let plan = ChunkPlan::new(spec, chunk, |_| budget);
        let fills = plan.bytes().abs_diff(budget) * 100 <= budget;
        fills.then_some(()).ok_or_else(|| format!("{} of {budget}: {plan:?}", plan.bytes()))
    }

    #[test]
    fn awkward_chunks_fill_their_budget() {
        for (profile, seed, duplicates, chunk, budget) in [
            // Of four leaves the two that are never repeated had grown to the most, and 20 KiB were missing.
            (Profile::Mainnet, 10_424_431_402_482_941_521, 86, 33, 189_371),
            (Profile::Small, 10_424_431_402_482_941_521, 86, 33, 189_371),
            (Profile::Mainnet, 166_984, 90, 166_984 % 200, 188_344),
            // The large leaf left none to resize.
            (Profile::Mainnet, 145_574, 65, 145_574 % 200, 113_353),
            (Profile::Mainnet, 143_678, 80, 143_678 % 200, 40_347),
            // Repeats fit only after leaves shrink.
            (Profile::Small, 147_054, 89, 147_054 % 200, 52_003),
            (Profile::Mainnet, 161_341, 89, 161_341 % 200, 21_643),
        ] {
            assert_eq!(fills(&spec(profile, seed, duplicates), chunk, budget), Ok(()), "{seed}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_plan_fills_its_budget(
            budget in 20_000u64..2 * CHUNK_BYTES, seed: u64, chunk in 0u64..200, duplicates in 0u8..=90,
            profile in proptest::sample::select(Profile::ALL.to_vec()),
        ) {
            let spec = spec(profile, seed, duplicates);
            prop_assert_eq!(fills(&spec, chunk, budget), Ok(()));
            let plan = ChunkPlan::new(&spec, chunk, |_| budget);
            prop_assert_eq!(plan.nodes.len(), inner(plan.leaves.len()));
            prop_assert_eq!(plan, ChunkPlan::new(&spec, chunk, |_| budget));
        }

        #[test]
        fn repeated_leaf_keeps_its_size(seed: u64, chunk in 1u64..200, percent in 1u8..=90) {
            let spec = spec(Profile::Mainnet, seed, percent);
            let budget_of = |chunk: u64| 100_000 + chunk * 997;
            for repeat in ChunkPlan::new(&spec, chunk, budget_of).repeats {
                prop_assert_eq!(ChunkPlan::new(&spec, repeat.chunk, budget_of).leaves[repeat.number], repeat.size);
            }
        }
    }

    #[test]
    fn a_tree_ends_in_one_root() {
        assert_eq!(levels(1).collect::<Vec<_>>(), [1]);
        assert_eq!(levels(17).collect::<Vec<_>>(), [17, 2, 1]);
        assert_eq!(inner(17), 3);
    }
}
