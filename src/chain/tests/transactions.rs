use super::logs;
use crate::chain::{ChainProblem, Family, TransactionOptions, Transactions, check_transactions, header};

const ALL: TransactionOptions = TransactionOptions { ids: true, merkle: true, skip_unknown: false };

fn check(family: Family, version: u32, block: &[u8]) -> Result<Transactions, ChainProblem> {
    check_transactions(family, version, block, &header(family, version, block)?, &ALL)
}

#[test]
fn the_merkle_root_of_every_real_block_is_right() {
    let Some(logs) = logs::real() else { return };
    for (name, family, version, blocks) in logs {
        let mut transactions = 0;
        for block in &blocks {
            let found = check(family, version, block).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            assert_eq!(found.unknown_operations, 0);
            transactions += found.ids.len();
        }
        eprintln!("{name}: {transactions} transactions");
    }
}
