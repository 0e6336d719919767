//! Blocks of chains, read in several ways that must agree.

use bedload::testing::blocks::chain::{self, ChainProblem, Family, TransactionOptions, check_transactions};

/// Reads `block` as one of Steem (`kind` 0), Hive (1), an Antelope log of version 3 (2) or 4 (3).
/// Panics if results contradict each other.
pub fn chain(kind: u8, block: &[u8]) {
    let kinds = [(Family::Steem, 0), (Family::Hive, 0), (Family::Antelope, 3), (Family::Antelope, 4)];
    let (family, version) = kinds[usize::from(kind % 4)];
    let header = match chain::header(family, version, block) {
        Ok(header) => header,
        Err(problem) => return check_problem(problem, block),
    };
    assert!(header.header_len <= block.len());
    assert_eq!((header.id.number(), header.previous.number() + 1), (header.number, header.number));
    assert_eq!((header.id.as_bytes().len(), header.previous.as_bytes().len()), (family.id_len(), family.id_len()));
    let alone = block.get(..header.header_len).unwrap_or_default();
    assert_eq!(chain::header(family, version, alone), Ok(header), "what follows a header does not matter");
    if let Some((_, cut)) = alone.split_last() {
        let cut = chain::header(family, version, cut);
        assert!(matches!(cut, Err(ChainProblem::Truncated { .. })), "{cut:?}");
    }

    let check = |ids, merkle, skip_unknown| {
        check_transactions(family, version, block, &header, &TransactionOptions { ids, merkle, skip_unknown })
    };
    let (all, ids) = (check(true, true, false), check(true, false, false));
    match (&all, &ids) {
        (Ok(all), Ok(ids)) => assert_eq!(all, ids),
        (Err(ChainProblem::Merkle { header, computed, .. }), Ok(_)) => assert_ne!(header, computed),
        (Err(all), Err(ids)) => assert_eq!(all, ids, "boundaries do not depend on what is computed"),
        (Ok(_), Err(problem)) => panic!("{problem} only without the root"),
        (Err(problem), Ok(_)) => panic!("{problem} only with the root"),
    }
    let skipping = check(true, false, true);
    match ids {
        Err(ChainProblem::UnknownOperation { .. }) => {
            assert_eq!(skipping.as_ref().map(|found| found.unknown_operations), Ok(1));
        }
        ids => assert_eq!(ids, skipping),
    }
    if let Err(problem) = all {
        check_problem(problem, block);
    }
}

fn check_problem(problem: ChainProblem, block: &[u8]) {
    assert!(!problem.hint().is_empty() && !problem.to_string().is_empty());
    if let ChainProblem::Truncated { offset, .. }
    | ChainProblem::VarintTooLong { offset, .. }
    | ChainProblem::TooLong { offset, .. }
    | ChainProblem::Unexpected { offset, .. }
    | ChainProblem::Name { offset, .. }
    | ChainProblem::UnknownOperation { offset, .. }
    | ChainProblem::Zlib { offset, .. }
    | ChainProblem::TrailingBytes { offset, .. } = problem
    {
        assert!(offset <= block.len());
    }
}
