use crate::blocks::chain::{
    BlockTransactions, ChainProblem, Family, Id, TransactionOptions, check_transactions, header,
};

const ALL: TransactionOptions = TransactionOptions { ids: true, merkle: true, skip_unknown: false };

fn check_with(
    family: Family,
    version: u32,
    block: &[u8],
    options: TransactionOptions,
) -> Result<BlockTransactions, ChainProblem> {
    check_transactions(family, version, block, &header(family, version, block)?, &options)
}

fn check(family: Family, version: u32, block: &[u8]) -> Result<BlockTransactions, ChainProblem> {
    check_with(family, version, block, ALL)
}

/// A Steem block with these transactions, whose header says `root`.
fn steem(transactions: &[&[u8]], root: [u8; 20]) -> Vec<u8> {
    let mut block = vec![0; 24];
    block.extend(b"\x07witness");
    block.extend(root);
    block.push(0);
    block.extend([1; 65]);
    block.push(transactions.len() as u8);
    block.extend(transactions.concat());
    block
}

/// A transaction with these operations, not signed.
fn transaction(operations: &[&[u8]]) -> Vec<u8> {
    [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, operations.len() as u8], &operations.concat()[..], &[0, 0]].concat()
}

/// `author` votes for a comment of its own.
const VOTE: &[u8] = b"\x00\x06author\x06author\x04link\x10\x27";
/// An operation that no chain has.
const UNKNOWN: &[u8] = b"\xc8\x01anything at all";

#[test]
fn flipped_merkle_root_reports_both_roots() {
    let block = steem(&[], [0; 20]);
    assert_eq!(check(Family::Steem, 0, &block), Ok(BlockTransactions::default()));
    let message = check(Family::Steem, 0, &steem(&[], [1; 20])).expect_err("another root");
    assert_eq!(
        message.to_string(),
        format!(
            "the transactions of block 1 do not match its header: their merkle root is {}, the header's {}",
            "00".repeat(20),
            "01".repeat(20)
        )
    );
    assert_eq!(
        check_with(Family::Steem, 0, &steem(&[], [1; 20]), TransactionOptions { merkle: false, ..ALL }),
        Ok(BlockTransactions::default())
    );
}

#[test]
fn ids_and_roots_match_plain_digests() {
    use sha2::{Digest, Sha256};
    let transactions = [transaction(&[VOTE]), transaction(&[VOTE, VOTE]), transaction(&[])];
    let signed: Vec<Vec<u8>> = (1u8..4)
        .zip(&transactions)
        .map(|(count, unsigned)| {
            let body = &unsigned[..unsigned.len() - 1];
            [body, &[count], &vec![count; 65 * usize::from(count)]].concat()
        })
        .collect();
    let sha = |bytes: &[u8]| <[u8; 32]>::from(Sha256::digest(bytes));
    let leaves: Vec<[u8; 32]> = signed.iter().map(|bytes| sha(bytes)).collect();
    let root = sha(&[sha(&[leaves[0], leaves[1]].concat()), leaves[2]].concat());
    let root = ripemd::Ripemd160::digest(root).into();
    let found = check(Family::Steem, 0, &steem(&signed.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>(), root));
    let ids = transactions.map(|bytes| Id::from_slice(&sha(&bytes[..bytes.len() - 1])[..20]).expect("an id")).to_vec();
    assert_eq!(found, Ok(BlockTransactions { ids, unknown_operations: 0 }));
}

#[test]
fn unknown_operation_is_rejected_or_counted() {
    let known = transaction(&[VOTE]);
    let block = steem(&[&known, &transaction(&[VOTE, UNKNOWN, VOTE]), &known], [9; 20]);
    let problem = check(Family::Hive, 0, &block).expect_err("an unknown operation");
    let offset = 118 + 1 + known.len() + 11 + VOTE.len();
    assert_eq!(problem, ChainProblem::UnknownOperation { block: 1, tag: 200, offset });
    let text = format!("block 1 has an operation of the unknown type 200, at byte {offset} of the block");
    assert_eq!(problem.to_string(), text);
    assert!(problem.hint().contains("--unknown-operations skip"), "{}", problem.hint());

    let found =
        check_with(Family::Hive, 0, &block, TransactionOptions { skip_unknown: true, ..ALL }).expect("passed over");
    assert_eq!((found.ids.len(), found.unknown_operations), (1, 1), "the root is not compared");
}

#[test]
fn steem_and_hive_reject_each_others_operations() {
    let conversion = transaction(&[b"\x30\x05owner\0\0\0\0\0\0\0\0\0\0\0\0\x03TESTS\0\0"]);
    let block = steem(&[&conversion], [0; 20]);
    let without_root = TransactionOptions { merkle: false, ..ALL };
    assert_eq!(check_with(Family::Hive, 0, &block, without_root).expect("known").ids.len(), 1);
    let problem = check_with(Family::Steem, 0, &block, without_root);
    assert!(matches!(problem, Err(ChainProblem::UnknownOperation { tag: 48, .. })), "{problem:?}");
}

#[test]
fn invalid_header_is_reported_with_offset() {
    let mut block = [0; 200];
    block[24] = 33;
    let message = |block: &[u8]| header(Family::Steem, 0, block).expect_err("no header").to_string();
    assert_eq!(message(&block), "the witness's name at byte 24 of the block: 33 exceeds the limit of 32");
    block[24..27].copy_from_slice(b"\x02a\n");
    assert_eq!(message(&block), "byte 24 of the block: the witness is not a name of printable characters");
    block[24..27].copy_from_slice(b"\x02aa");
    block[47] = 17;
    assert_eq!(message(&block), "the header extensions at byte 47 of the block: 17 exceeds the limit of 16");
    block[47..49].copy_from_slice(b"\x01\x03");
    assert_eq!(message(&block), "byte 48 of the block: found 3, expected a header extension of type 0 to 2");
    block[47] = 0;
    block[..4].copy_from_slice(&[0xff; 4]);
    assert_eq!(message(&block), "the parent has the number 4294967295, so the block cannot have one");
}
