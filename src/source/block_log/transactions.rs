//! Finds the transactions of a block, for import and verification.

use crate::blocks::chain::{self, BlockTransactions, ChainProblem, Family, Header, SteemBatch, TransactionOptions};

/// Finds the transactions of a block, and checks them as its options require.
pub(crate) struct TransactionLookup {
    pub options: TransactionOptions,
    pub family: Family,
    /// Of an Antelope log; 0 for others.
    pub version: u32,
}

impl TransactionLookup {
    fn check(&self, family: Family, block: &[u8], header: &Header) -> Result<BlockTransactions, ChainProblem> {
        chain::check_transactions(family, self.version, block, header, &self.options)
    }

    /// Adds a block to a batch that is checked as a whole. False if it must be checked with [`of_block`](Self::of_block),
    /// as those must that the batch finds wrong.
    pub fn add_to<T>(&self, batch: &mut SteemBatch<T>, block: &[u8], header: &Header, packed: bool, known: T) -> bool {
        let (family, _) = self.families(packed);
        self.options.merkle && family != Family::Antelope && batch.add(family, block, header, known)
    }

    /// Returns the likely layout of a block, and the other possible one.
    fn families(&self, packed: bool) -> (Family, Option<Family>) {
        match self.family {
            Family::Antelope => (Family::Antelope, None),
            Family::Steem if !packed => (Family::Steem, Some(Family::Hive)),
            Family::Steem | Family::Hive => (Family::Hive, Some(Family::Steem)),
        }
    }

    /// Returns the transactions of a block. A log does not name its chain, so if Steem's layout has unknown operations,
    /// Hive's is tried, and the reverse.
    pub fn of_block(&self, block: &[u8], header: &Header, packed: bool) -> Result<BlockTransactions, ChainProblem> {
        let (family, other) = self.families(packed);
        let first = self.check(family, block, header);
        let Some(other) = other.filter(|_| first.as_ref().map_or(true, |found| found.unknown_operations > 0)) else {
            return first;
        };
        match self.check(other, block, header) {
            Ok(second) if second.unknown_operations == 0 => Ok(second),
            _ => first,
        }
    }
}
