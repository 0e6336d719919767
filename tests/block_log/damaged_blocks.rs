//! Blocks that are damaged are refused, and never half read.

use bedload::testing::blocks::chain::Family;
use bedload::testing::generate::log::{LogSpec, write};
use proptest::prelude::*;

#[path = "../../fuzz/chain.rs"]
mod model;

use model::chain;

/// A small block of each kind.
fn blocks() -> Vec<(u8, Vec<u8>)> {
    let logs = [
        (0, LogSpec::new(Family::Steem, 60 << 10), 0),
        (2, LogSpec::new(Family::Antelope, 60 << 10), 0),
        (3, LogSpec::new(Family::Antelope, 60 << 10).version(4).expect("a version"), 5),
    ];
    let mut blocks = Vec::new();
    for (kind, spec, front) in logs {
        let (mut log, mut entries) = (Vec::new(), Vec::new());
        let each = |entry: &_| {
            entries.push(*entry);
            Ok(())
        };
        write(&spec, &mut log, each).expect("write to memory");
        let smallest = entries.iter().filter(|entry| entry.len > 800).min_by_key(|entry| entry.len).expect("one");
        let start = smallest.word as usize;
        let block = log[start + front..start + smallest.len as usize].to_vec();
        blocks.push((kind, block));
    }
    blocks.push((1, blocks[0].1.clone()));
    blocks
}

#[test]
fn sound_blocks_agree_with_themselves() {
    blocks().into_iter().for_each(|(kind, block)| chain(kind, &block));
}

proptest! {
    #[test]
    fn damaged_blocks_are_reported_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        static BLOCKS: std::sync::LazyLock<Vec<(u8, Vec<u8>)>> = std::sync::LazyLock::new(blocks);
        for (kind, block) in BLOCKS.iter() {
            let mut block = block.clone();
            for (at, byte) in &changes {
                let at = at.index(block.len());
                block[at] = *byte;
            }
            chain(*kind, &block);
            block.truncate(cut.index(block.len()));
            chain(*kind, &block);
        }
    }
}
