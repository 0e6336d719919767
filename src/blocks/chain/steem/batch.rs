//! Blocks whose transactions are hashed together. Those of one block would leave lanes empty.

use super::super::{BlockTransactions, Family, Header, TransactionOptions, merkle};
use super::header::id;
use super::transactions::{compare, stored, walk};
use crate::hash::lanes::sha256;

/// Transactions and bytes of blocks that fill a batch. Both stay in a second-level cache.
const TRANSACTIONS: usize = 512;
const BYTES: usize = 512 << 10;

/// Copies of consecutive blocks, each with the caller's data.
pub(crate) struct SteemBatch<T> {
    bytes: Vec<u8>,
    blocks: Vec<Block<T>>,
    /// Offsets in `bytes` of each transaction's start, signatures and end.
    transactions: Vec<[usize; 3]>,
}

struct Block<T> {
    header: Header,
    known: T,
    end: usize,
    transactions: usize,
}

impl<T> Default for SteemBatch<T> {
    fn default() -> Self {
        Self { bytes: Vec::new(), blocks: Vec::new(), transactions: Vec::new() }
    }
}

impl<T> SteemBatch<T> {
    /// Adds a block. Returns false if its transactions cannot be read, or if it is larger than a batch may be.
    pub(crate) fn add(&mut self, family: Family, block: &[u8], header: &Header, known: T) -> bool {
        if block.len() > BYTES {
            return false;
        }
        let (before, start) = (self.transactions.len(), self.bytes.len());
        let walked = walk(family, block, header, |places, (), ()| self.transactions.push(places.map(|at| start + at)));
        if walked.is_err() {
            self.transactions.truncate(before);
            return false;
        }
        self.bytes.extend_from_slice(block);
        let transactions = self.transactions.len() - before;
        self.blocks.push(Block { header: *header, known, end: self.bytes.len(), transactions });
        true
    }

    /// True if [`check`](Self::check) is due.
    pub(crate) fn is_full(&self) -> bool {
        self.transactions.len() >= TRANSACTIONS || self.bytes.len() >= BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Computes the roots of all blocks, and the ids if `options` require them, and empties the batch. `each` receives each
    /// block in order, until it returns an error. Its last argument is `None` if the header commits to other transactions.
    pub(crate) fn check<E>(
        &mut self,
        options: &TransactionOptions,
        mut each: impl FnMut(&T, &Header, &[u8], Option<BlockTransactions>) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = self.transactions.len();
        let signed = self.transactions.iter().map(|[start, _, end]| &self.bytes[*start..*end]);
        let unsigned = self.transactions.iter().map(|[start, signatures, _]| &self.bytes[*start..*signatures]);
        let messages: Vec<&[u8]> = signed.chain(unsigned.take(if options.ids { count } else { 0 })).collect();
        let mut sums: Vec<merkle::Node> = vec![[0; 32]; messages.len()];
        sha256::hash(&messages, |index, sum| sums[index] = *sum);
        let mut ids = sums.split_off(count).into_iter();
        let mut sizes: Vec<usize> = self.blocks.iter().map(|block| block.transactions).collect();
        merkle::even_trees(&mut sums, &mut sizes);
        let (mut roots, mut start) = (sums.into_iter(), 0);
        for block in &self.blocks {
            let bytes = &self.bytes[start..block.end];
            start = block.end;
            let root = if block.transactions > 0 { roots.next() } else { None };
            let ids = ids.by_ref().take(block.transactions).map(|sum| id(&sum)).collect();
            let is_right = compare(bytes, &block.header, stored(root)).is_ok();
            let found = is_right.then_some(BlockTransactions { ids, unknown_operations: 0 });
            each(&block.known, &block.header, bytes, found)?;
        }
        self.bytes.clear();
        self.blocks.clear();
        self.transactions.clear();
        Ok(())
    }
}
