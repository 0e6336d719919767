//! Resuming an import on a machine with other cores, or with another memory budget.

use crate::common::car::{Block, block, noise, rooted};
use crate::common::crash::*;

/// The import of `snapshot` with only these arguments.
fn case(snapshot: &'static Snapshot, from: From, args: &[&str]) -> Case {
    with(&Case::of(snapshot, Way::Spill, from), args)
}

fn with(case: &Case, args: &[&str]) -> Case {
    Case { args: args.iter().map(Into::into).collect(), ..case.clone() }
}

#[test]
fn resume_with_another_budget_finishes() {
    let small = ["--memory", "16MiB"];
    let large = ["--memory", "1GiB"];
    let points = ["start", "read:2", "read-done", "built"].iter();
    let all = points.flat_map(|point| [(point, small, large), (point, large, small)]);
    for (number, (point, first, second)) in all.enumerate() {
        for &from in in_turn(&[From::File, From::Pipe], number / 2) {
            let spill = [first[0], first[1], "--plan", "spill"];
            let case = case(plain(), from, &spill);
            case.dies_at(point);
            let partitions = case.journal().iter().find_map(|line| line["router"]["bits"].as_u64());
            let ended = with(&case, &second).finishes();
            if let Some(bits) = partitions {
                assert_eq!(ended.number("/plan/sort/partitions/bits"), bits, "{point} {from:?} {first:?}: {ended:?}");
            }
        }
    }
}

#[test]
fn resume_with_other_cores_finishes() {
    let many = Case::plain(Way::Spill);
    let one = many.clone().through(&["taskset", "-c", "0"]);
    for (first, second) in [(&many, &one), (&one, &many)] {
        first.dies_at("read:2");
        second.finishes();
        first.again();
    }
}

#[test]
fn log_resumes_with_another_budget() {
    let small = ["--indexes", "ids,transactions", "--memory", "16MiB"];
    let large = ["--indexes", "ids,transactions", "--memory", "2GiB"];
    for (number, (first, second)) in [(small, large), (large, small)].into_iter().enumerate() {
        for point in in_turn(&["range:2", "built"], number) {
            let case = case(log(), From::File, &first);
            case.dies_at(point);
            let bits = case.journal()[0]["identity"]["partition_bits"].as_u64();
            let ended = with(&case, &second).run();
            assert_eq!(ended.code, Some(0), "{point} {first:?}: {ended:?}");
            assert_eq!(ended.number("/plan/log/transactions/bits"), bits.unwrap_or_default(), "{ended:?}");
        }
    }
}

#[test]
fn resume_names_the_required_memory() {
    // A budget of 64 MiB accepts its large block, one of 16 MiB does not.
    let mut blocks: Vec<Block> = (0..3000).map(|i| block(&noise(i + 400_000, 1000))).collect();
    blocks.insert(100, block(&noise(500_000, 10 << 20)));
    let snapshot = Snapshot::of_blocks("large.car", rooted(&blocks), &blocks).leaked();
    for plan in ["spill", "source"] {
        let first = ["--memory", "64MiB", "--plan", plan];
        let case = case(snapshot, From::File, &first);
        case.dies_at("read-done");
        let small = with(&case, &["--memory", "16MiB"]);
        small.is_refused(&[
            "has a block of 10.0 MiB, too large for a memory budget of 16.0 MiB",
            "--memory 64.0MiB or more",
        ]);
        case.finishes();
    }
}
