//! Blocks of Steem's main network, which Hive shares, whose transactions do not have the merkle root of the header.
//! Nodes accept them: `shared_db_merkle.hpp` of <https://github.com/steemit/steem>.

use crate::blocks::chain::Id;

/// Block numbers, and the roots of the stored transactions.
const KNOWN: [(u32, &str); 8] = [
    (3_705_111, "0a8f0fd5450c3706ec8b8cbad795cd0b3679bf35"),
    (3_705_120, "2027edb72b671f7011c8cc4c7a8b59c39b305093"),
    (3_713_940, "bf8a1d516927c506ebdbb7b38bef2e992435435f"),
    (3_714_132, "e8b77773d268b72c8d650337b8cce360bbe64779"),
    (3_714_567, "45af59a8c2d7d4a606151ef5dae03d2dfe13fbdd"),
    (3_714_588, "e64275443bdc82f104ac936486d367af8f6d1584"),
    (4_138_790, "f65a3a788a2ef52406d8ba5705d7288be228403f"),
    (5_435_426, "0b32538b2d22bd3146d54b6e3cb5ae8b9780e8a5"),
];

/// True if the block has this root although its header differs.
pub(super) fn is_known(block: u32, root: Id) -> bool {
    KNOWN.iter().any(|(number, known)| *number == block && known.parse() == Ok(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_roots_match_block_and_root() {
        for (block, root) in KNOWN {
            let root: Id = root.parse().expect("a root");
            assert!(is_known(block, root));
            assert!(!is_known(block + 1, root));
            assert!(!is_known(block, Id::from([0; 20])));
        }
    }
}
