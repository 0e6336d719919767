//! Transactions of Steem and Hive blocks.
//!
//! ```text
//! n x ( u16 reference block | u32 its prefix | u32 expiration | n x operation | n x extension | n x signature[65] )
//! operation = tag | fields
//!
//! id   = sha256(transaction without signatures)[0..20]
//! leaf = sha256(transaction)        root = ripemd160(root of the even tree), 20 zeros without transactions
//! ```

use ripemd::Ripemd160;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::field::{FieldContext, FieldType, FieldValue, read};
use super::super::reader::BlockReader;
use super::super::{BlockTransactions, ChainProblem, Family, Header, Id, TransactionOptions, merkle};
use super::header::{ID_LEN, id, signed_header};
use super::known_roots;
use super::operations::OPERATION;
use super::types::{FUTURE, SIGNATURE, TIME, U16, U32};

/// The most transactions of a block, which has at most 2 MiB.
const MAX_TRANSACTIONS: u32 = 1 << 20;
const SMALLEST: usize = 13;
/// A transaction without its signatures.
const UNSIGNED: FieldType = FieldType::Record(&[
    ("ref_block_num", U16),
    ("ref_block_prefix", U32),
    ("expiration", TIME),
    ("operations", FieldType::List(&[OPERATION])),
    ("extensions", FUTURE),
]);
const SIGNATURES: FieldType = FieldType::List(&[SIGNATURE]);

pub(in super::super) fn check(
    family: Family,
    block: &[u8],
    header: &Header,
    options: &TransactionOptions,
) -> Result<BlockTransactions, ChainProblem> {
    let mut found = BlockTransactions::default();
    let mut leaves = Vec::new();
    let walked = walk(family, block, header, |[start, signatures, end], (), ()| {
        let bytes = |range| block.get::<std::ops::Range<usize>>(range).unwrap_or_default();
        let mut hash = Sha256::new();
        if options.ids || options.merkle {
            hash.update(bytes(start..signatures));
        }
        if options.ids {
            found.ids.push(id(&hash.clone().finalize()));
        }
        if options.merkle {
            leaves.push(hash.chain_update(bytes(signatures..end)).finalize().into());
        }
    });
    match walked {
        Err(ChainProblem::UnknownOperation { .. }) if options.skip_unknown => {
            found.unknown_operations += 1;
            return Ok(found);
        }
        walked => walked?,
    }
    if options.merkle {
        compare(block, header, root(&mut leaves))?;
    }
    Ok(found)
}

/// Reads the transactions of a block. `each` receives the offsets of a transaction's start, signatures and end, its fields, and its
/// signatures.
pub(super) fn walk<V: FieldValue>(
    family: Family,
    block: &[u8],
    header: &Header,
    mut each: impl FnMut([usize; 3], V, V),
) -> Result<(), ChainProblem> {
    let mut reader = BlockReader::new(block, header.header_len);
    let context = |inside| FieldContext { family, block: header.number, inside };
    for _ in 0..reader.count("the transactions", MAX_TRANSACTIONS, SMALLEST)? {
        let start = reader.at();
        let fields = read(&mut reader, context("a transaction"), &UNSIGNED)?;
        let middle = reader.at();
        let signatures = read(&mut reader, context("a transaction's signatures"), &SIGNATURES)?;
        each([start, middle, reader.at()], fields, signatures);
    }
    if reader.left() > 0 {
        return Err(ChainProblem::TrailingBytes { offset: reader.at(), extra: reader.left() });
    }
    Ok(())
}

/// Returns the transactions of a block as JSON, by the names that nodes use.
pub(in super::super) fn to_json(family: Family, block: &[u8], header: &Header) -> Result<Value, ChainProblem> {
    let mut transactions = Vec::new();
    walk(family, block, header, |[start, signatures_at, _], fields: Value, signatures: Value| {
        let digest = Sha256::digest(block.get(start..signatures_at).unwrap_or_default());
        let mut transaction = json!({ "id": id(&digest) });
        if let (Some(all), Value::Object(fields)) = (transaction.as_object_mut(), fields) {
            all.extend(fields);
        }
        transaction["signatures"] = signatures;
        transactions.push(transaction);
    })?;
    Ok(transactions.into())
}

pub(super) fn compare(block: &[u8], header: &Header, computed: Id) -> Result<(), ChainProblem> {
    let said = signed_header(&mut BlockReader::new(block, 0))?.merkle_root;
    if computed != said && !known_roots::is_known(header.number, computed) {
        return Err(ChainProblem::Merkle { block: header.number, header: said, computed });
    }
    Ok(())
}

/// The root of the transactions as a header stores it. Uses the leaves' memory.
pub(crate) fn root(leaves: &mut Vec<merkle::Node>) -> Id {
    stored(merkle::even(leaves))
}

pub(super) fn stored(root: Option<merkle::Node>) -> Id {
    let root = root.map(|root| Ripemd160::digest(root).into());
    Id::from(root.unwrap_or([0; ID_LEN]))
}
