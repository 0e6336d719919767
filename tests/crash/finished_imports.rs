//! The leftovers of a finished import are used for its own source only; a source that continues after its end is noticed.

use super::changed_sources::{UNFINISHED, own_copy_of, replace_and_put_times_back, with_another_block};
use crate::common::car::{block, section};
use crate::common::crash::*;

const FINISHED: &str = "the source is not the one that the finished import has read";

/// A finished import of which something is left refuses `bytes`, and reports on its own source.
#[track_caller]
fn accepts_its_own_source_only(case: &Case, point: &str, bytes: &[u8]) {
    let what = format!("{point} of {} from a {:?}", case.snapshot.name, case.from);
    for is_own in if case.from == From::File { &[false, true][..] } else { &[false] } {
        let is_own = *is_own;
        let file = &case.snapshot.file;
        replace_and_put_times_back(file, &case.snapshot.bytes);
        case.put_old();
        let died = case.dying_at(point).run();
        assert_eq!(died.code, Some(137), "{what}: {died:?}");
        // A copy is the same. Tests of kills resume a pipe.
        let now = if is_own || case.from == From::Pipe { &case.snapshot.bytes[..] } else { bytes };
        replace_and_put_times_back(file, now);
        if is_own {
            case.finishes();
        } else {
            case.run_with(bytes).failed(4, &what, &[FINISHED, "hint: ", "--into-existing"]);
            assert!(!case.partial().exists(), "{what}: leftovers of a finished import stay");
            case.holds_everything();
        }
    }
    case.again();
}

fn longer() -> Vec<u8> {
    [&plain().bytes[..], &section(&block(b"one more"))].concat()
}

#[test]
fn leftovers_are_used_for_their_source_only() {
    for (number, way) in [Way::Memory, Way::Spill, Way::Memtables, Way::Ranges, Way::Batches].into_iter().enumerate() {
        let snapshot = if matches!(way, Way::Ranges | Way::Batches) { log() } else { plain() };
        let other = with_another_block(snapshot);
        for &from in in_turn(&[From::File, From::Pipe], number) {
            let mut case = Case { from, ..own_copy_of(snapshot, way) };
            if snapshot.name == log().name {
                accepts_its_own_source_only(&case, "renamed", &other);
                continue;
            }
            case.args[3] = "512MiB".into();
            accepts_its_own_source_only(&case, "renamed", &other);
            let case = case.into_existing(older());
            accepts_its_own_source_only(&case, "complete", &other);
            if from == From::Pipe {
                accepts_its_own_source_only(&case, "complete", &longer());
            }
        }
    }
}

#[test]
fn resume_rejects_a_longer_log() {
    let whole = &log().bytes;
    for (way, points) in [
        (Way::Ranges, &["ingested", "complete", "renamed"][..]),
        // Before that an import through memtables starts over.
        (Way::Batches, &["renamed"]),
    ] {
        let case = Case::of(log(), way, From::Pipe).arg(&["--tail", "trim"]);
        for &point in points {
            let what = format!("{way:?}, {point}");
            let died = case.dying_at(point).run_with(&whole[..whole.len() * 2 / 3]);
            assert_eq!(died.code, Some(137), "{what}: {died:?}");
            let words = if point == "renamed" { FINISHED } else { UNFINISHED };
            case.run_with(whole).failed(4, &what, &[words, "hint: "]);
            case.again();
        }
    }
}

#[test]
fn longer_pipe_is_refused_or_imported() {
    for (way, points) in [
        (Way::Spill, &["read-done", "built", "ingested", "complete"][..]),
        (Way::Memory, &["held", "built", "ingested", "complete"]),
        (Way::Memtables, &["compacted"]),
    ] {
        let case = Case::of(plain(), way, From::Pipe);
        for point in points {
            case.dies_at(point);
            let (what, ended) = (format!("{way:?}, {point}"), case.run_with(&longer()));
            if way == Way::Memtables {
                // It starts over.
                assert_eq!(ended.code, Some(0), "{what}: {ended:?}");
                assert_eq!(ended.number("/blocks/read"), plain().read + 1, "{what}");
                assert_eq!(crate::common::model::records(&case.db).len() as u64, plain().records + 1, "{what}");
                case.again();
            } else {
                ended.failed(4, &what, &[UNFINISHED, "--restart"]);
            }
        }
        case.finishes();
    }
}

#[test]
fn standard_input_is_compared_like_a_pipe() {
    for (snapshot, way, points) in [
        (plain(), Way::Spill, ["read:3", "read-done"]),
        (plain(), Way::Memory, ["ingested", "renamed"]),
        // Threads finish ranges in any order: only here the changed one is surely among those that are compared.
        (log(), Way::Ranges, ["ranges", "renamed"]),
    ] {
        let case = Case { from: From::Stdin, ..own_copy_of(snapshot, way) };
        let bytes = with_another_block(snapshot);
        let other = Snapshot { bytes, ..snapshot.clone() }.copied_to(case.path("other.car"));
        for point in points {
            case.dies_at(point);
            let words = if point == "renamed" { FINISHED } else { UNFINISHED };
            Case { snapshot: other, ..case.clone() }.run().failed(4, &format!("{way:?}, {point}"), &[words]);
        }
        if way == Way::Spill {
            case.finishes();
        }
    }
}
