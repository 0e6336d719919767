use crate::chain::tests::logs;
use crate::chain::{Family, TransactionOptions, check_transactions, header};

use super::super::*;

fn generate(spec: &LogSpec) -> (Vec<u8>, Vec<LogEntry>, LogSummary) {
    let (mut log, mut entries) = (Vec::new(), Vec::new());
    let summary = write(spec, &mut log, |entry| {
        entries.push(*entry);
        Ok(())
    });
    (log, entries, summary.expect("write to memory"))
}

/// Every block's number, link, transactions and merkle root.
fn judge(spec: &LogSpec, dictionary: Option<&[u8]>) {
    let (log, entries, summary) = generate(spec);
    let blocks = logs::blocks(spec.family, spec.version, &log, dictionary);
    assert_eq!((blocks.len(), entries.len()), (summary.blocks as usize, summary.blocks as usize));
    let options = TransactionOptions { ids: true, merkle: true, skip_unknown: false };
    let mut previous = None;
    let mut transactions = 0;
    for (block, entry) in blocks.iter().zip(&entries) {
        let header = header(spec.family, spec.version, block).expect("a header");
        assert_eq!((header.number, header.id), (entry.number, entry.id));
        assert!(previous.is_none_or(|previous| previous == header.previous));
        let found = check_transactions(spec.family, spec.version, block, &header, &options);
        transactions += found.unwrap_or_else(|problem| panic!("block {}: {problem}", entry.number)).ids.len();
        previous = Some(header.id);
    }
    assert_eq!((summary.head, summary.transactions), (previous.expect("a block"), transactions as u64));
    assert_eq!((summary.bytes, summary.first), (log.len() as u64, spec.first_block));
}

#[test]
fn blocks_are_linked_and_their_transactions_right() {
    for family in [Family::Steem, Family::Hive, Family::Antelope] {
        for size in [1, 5000, 4 << 20] {
            judge(&LogSpec::new(family, size).seed(size), None);
        }
    }
}

#[test]
fn measures() {
    for family in [Family::Steem, Family::Hive, Family::Antelope] {
        let spec = LogSpec::new(family, 64 << 20);
        let (log, _, summary) = generate(&spec);
        let mut packed = 0;
        let mut raw = 0;
        for piece in log.chunks(64 << 10) {
            raw += piece.len();
            packed += zstd::bulk::compress(piece, 3).unwrap().len();
        }
        eprintln!(
            "{family}: mean block {} mean tx {} ratio {:.3} stored/raw {:.3}",
            summary.raw_bytes / summary.blocks,
            summary.raw_bytes / summary.transactions,
            packed as f64 / raw as f64,
            summary.bytes as f64 / summary.raw_bytes as f64,
        );
    }
}
