//! Merkle trees over the digests of a block's transactions.
//!
//! ```text
//! even:    Steem, Hive, and Antelope since Savanna     legacy: EOSIO and Antelope before
//!
//!          .------h------.                                     .------h------.
//!       .--h--.          |                                  .--h--.       .--h--.
//!      .h.   .h.         |                                 .h.   .h.     .h.    |
//!      a b   c d         e                                 a b   c d     e e    (again)
//!
//! h(x, y) = sha256(x, y)                               h(x, y) = sha256(x with bit 7 of byte 0 off, y with it on)
//! a last one without a neighbour goes up as it is      a last one without a neighbour is its own neighbour
//! ```

use sha2::{Digest, Sha256};

use crate::hash::lanes::sha256;

/// The digest of a transaction, or of two digests.
pub(crate) type Node = [u8; 32];

/// The root of the even tree; `None` without leaves. Uses the leaves' memory.
pub(crate) fn even(leaves: &mut Vec<Node>) -> Option<Node> {
    reduce(leaves, |left, right| match right {
        Some(right) => Sha256::new().chain_update(left).chain_update(right).finalize().into(),
        None => *left,
    })
}

/// The root of the legacy tree; `None` without leaves. Uses the leaves' memory.
pub(crate) fn legacy(leaves: &mut Vec<Node>) -> Option<Node> {
    reduce(leaves, |left, right| {
        let (mut left, mut right) = (*left, *right.unwrap_or(left));
        left[0] &= 0x7f;
        right[0] |= 0x80;
        Sha256::new().chain_update(left).chain_update(right).finalize().into()
    })
}

/// Reduces consecutive even trees to their roots, each level of all trees at once. `sizes` are their numbers of leaves.
/// A tree without leaves has no root.
pub(crate) fn even_trees(nodes: &mut Vec<Node>, sizes: &mut [usize]) {
    let (mut parents, mut places) = (Vec::new(), Vec::new());
    while sizes.iter().any(|size| *size > 1) {
        let (mut pairs, mut rest) = (Vec::with_capacity(nodes.len() / 2), nodes.as_slice());
        for size in &mut *sizes {
            let (tree, later) = rest.split_at(*size);
            (*size, rest) = (size.div_ceil(2), later);
            for pair in tree.chunks(2) {
                if pair.len() == 2 {
                    places.push(parents.len());
                    pairs.push(pair.as_flattened());
                }
                parents.extend(pair.first());
            }
        }
        sha256::hash(&pairs, |index, sum| parents[places[index]] = *sum);
        std::mem::swap(nodes, &mut parents);
        parents.clear();
        places.clear();
    }
}

fn reduce(nodes: &mut Vec<Node>, parent: impl Fn(&Node, Option<&Node>) -> Node) -> Option<Node> {
    while nodes.len() > 1 {
        let parents = nodes.len().div_ceil(2);
        for at in 0..parents {
            let left = nodes.get(2 * at)?;
            let hash = parent(left, nodes.get(2 * at + 1));
            *nodes.get_mut(at)? = hash;
        }
        nodes.truncate(parents);
    }
    nodes.first().copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(left: Node, right: Node) -> Node {
        Sha256::digest([left, right].concat()).into()
    }

    /// The left part is the largest power of two that leaves something for the right.
    fn even_model(leaves: &[Node]) -> Node {
        match leaves {
            [one] => *one,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                pair(even_model(left), even_model(right))
            }
        }
    }

    /// A full tree of this height; what is missing on the right repeats its left neighbour.
    fn legacy_model(leaves: &[Node], height: u32) -> Node {
        if height == 0 {
            return leaves[0];
        }
        let (left, right) = leaves.split_at(leaves.len().min(1 << (height - 1)));
        let mut left = legacy_model(left, height - 1);
        let mut right = if right.is_empty() { left } else { legacy_model(right, height - 1) };
        left[0] &= 0x7f;
        right[0] |= 0x80;
        pair(left, right)
    }

    #[test]
    fn single_leaf_is_its_merkle_root() {
        assert_eq!((even(&mut vec![]), legacy(&mut vec![])), (None, None));
        let leaf = [0xa5; 32];
        assert_eq!((even(&mut vec![leaf]), legacy(&mut vec![leaf])), (Some(leaf), Some(leaf)));
    }

    proptest! {
        #[test]
        fn merkle_trees_match_a_recursive_model(leaves in prop::collection::vec(any::<Node>(), 1..70)) {
            prop_assert_eq!(even(&mut leaves.clone()), Some(even_model(&leaves)));
            let height = leaves.len().next_power_of_two().trailing_zeros();
            prop_assert_eq!(legacy(&mut leaves.clone()), Some(legacy_model(&leaves, height)));
        }

        #[test]
        fn many_trees_have_the_roots_of_each(mut sizes in prop::collection::vec(0usize..40, 0..50), seed: u64) {
            let mut noise = crate::generate::random::Noise::new(seed, 0);
            let trees: Vec<Vec<Node>> =
                sizes.iter().map(|size| (0..*size).map(|_| [noise.next() as u8; 32]).collect()).collect();
            let roots: Vec<Node> = trees.iter().filter_map(|tree| even(&mut tree.clone())).collect();
            let mut nodes = trees.concat();
            even_trees(&mut nodes, &mut sizes);
            prop_assert_eq!(nodes, roots);
        }
    }
}
