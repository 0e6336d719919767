//! What a finished import has left answers for its own source only; a source that goes on behind its end is noticed.

use std::path::Path;

use super::changed_sources::{UNFINISHED, own_copy, own_copy_of, replace_and_put_times_back, with_another_block};
use crate::common::crash::*;
use crate::common::run::Place;

const FINISHED: &str = "the source is not the one that the finished import has read";

/// A finished import of which something is left answers `bytes` with a refusal, and its own source with its report.
#[track_caller]
fn answers_for_its_own_source_only(case: &Case, point: &str, bytes: &[u8]) {
    let what = format!("{point} of {} from a {:?}", case.snapshot.name, case.from);
    for is_own in [false, true] {
        replace_and_put_times_back(&case.snapshot.file, &case.snapshot.bytes);
        case.put_old();
        let died = case.dying_at(point).run();
        assert_eq!(died.code, Some(137), "{what}: {died:?}");
        if is_own {
            // A copy is the same.
            replace_and_put_times_back(&case.snapshot.file, &case.snapshot.bytes);
            case.finishes();
            continue;
        }
        if case.from == From::File {
            replace_and_put_times_back(&case.snapshot.file, bytes);
        }
        let ended = ended(case.start_with(bytes));
        assert_eq!(ended.code, Some(4), "{what}: {ended:?}");
        ended.says(&[FINISHED, "hint: ", "--into-existing"]);
        assert!(!case.partial().exists(), "{what}: leftovers of a finished import stay");
        case.holds_everything();
    }
    case.again();
}

#[test]
fn a_finished_import_that_is_not_swept_answers_for_its_own_source_only() {
    let place = Place::in_memory();
    let more = crate::common::car::section(&crate::common::car::block(b"one more"));
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        for from in [From::File, From::Pipe] {
            let (mut case, _) = own_copy(&place, way);
            (case.from, case.args[3]) = (from, "512MiB".into());
            let bytes = &case.snapshot.bytes;
            answers_for_its_own_source_only(&case, "renamed", &with_another_block(bytes));
            let case = case.into_existing(older());
            answers_for_its_own_source_only(&case, "complete", &with_another_block(&case.snapshot.bytes));
            if from == From::Pipe {
                answers_for_its_own_source_only(&case, "complete", &[&case.snapshot.bytes[..], &more].concat());
            }
        }
    }
    let mut other = log().bytes.clone();
    // In a signature, which nothing in a log depends on.
    let signature = other.len() / 2;
    other[signature] ^= 1;
    for (way, from) in [Way::Ranges, Way::Batches].into_iter().flat_map(|way| [(way, From::File), (way, From::Pipe)]) {
        let case = Case { from, ..own_copy_of(log(), &place, way).0 };
        answers_for_its_own_source_only(&case, "renamed", &other);
    }
}

#[test]
fn a_longer_log_is_not_answered_for_by_what_was_taken_of_a_cut_one() {
    let place = Place::in_memory();
    let whole = &log().bytes;
    for way in [Way::Ranges, Way::Batches] {
        let case = Case::new(&place.path(""), log(), way, From::Pipe).arg(&["--tail", "trim"]);
        // Before that an import through memtables starts over.
        let points: &[&str] = if way == Way::Ranges { &["ingested", "complete", "renamed"] } else { &["renamed"] };
        for point in points {
            let died = ended(case.dying_at(point).start_with(&whole[..whole.len() * 2 / 3]));
            assert_eq!(died.code, Some(137), "{way:?}, {point}: {died:?}");
            let ended = ended(case.start_with(whole));
            assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
            ended.says(&[if *point == "renamed" { FINISHED } else { UNFINISHED }, "hint: "]);
            case.again();
        }
    }
}

#[test]
fn what_a_longer_pipe_brings_behind_the_end_is_refused_or_imported() {
    let place = Place::in_memory();
    let more = crate::common::car::section(&crate::common::car::block(b"one more"));
    let longer = [&plain().bytes[..], &more].concat();
    for (way, points) in [
        (Way::Spill, &["read-done", "built", "ingested", "complete"][..]),
        (Way::Memory, &["held", "built", "ingested", "complete"]),
        (Way::Memtables, &["read-done", "compacted", "complete"]),
    ] {
        for point in points {
            let case = Case::new(&place.path(""), plain(), way, From::Pipe);
            case.dies_at(point);
            let ended = ended(case.start_with(&longer));
            if way == Way::Memtables {
                // It starts over.
                assert_eq!(ended.code, Some(0), "{way:?}, {point}: {ended:?}");
                assert_eq!(ended.number("/blocks/read"), plain().read + 1, "{way:?}, {point}");
                assert_eq!(crate::common::model::records(&case.db).len() as u64, plain().records + 1, "{point}");
            } else {
                assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
                ended.says(&[UNFINISHED, "--restart"]);
                case.finishes();
            }
            case.again();
        }
    }
}

#[test]
fn a_file_on_standard_input_is_compared_like_a_pipe() {
    let place = Place::in_memory();
    let from = |case: &Case, path: &Path| {
        ended(case.command().stdin(std::fs::File::open(path).expect("opened")).spawn().expect("it starts"))
    };
    for (way, point) in [
        (Way::Spill, "read:3"),
        (Way::Spill, "read-done"),
        (Way::Memory, "ingested"),
        (Way::Memory, "renamed"),
        // Threads finish ranges in any order: only here the changed one is surely among those that are compared.
        (Way::Ranges, "ranges"),
        (Way::Ranges, "renamed"),
    ] {
        let snapshot = if way == Way::Ranges { log() } else { plain() };
        let (case, path) = own_copy_of(snapshot, &place, way);
        let case = Case { from: From::Pipe, ..case };
        let died = from(&case.dying_at(point), &path);
        assert_eq!(died.code, Some(137), "{way:?}, {point}: {died:?}");
        let mut other = snapshot.bytes.clone();
        if way == Way::Ranges {
            other[100_000] ^= 1;
        } else {
            other = with_another_block(&other);
        }
        let ended = from(&case, &place.file("other.car", &other));
        assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
        ended.says(&[if point == "renamed" { FINISHED } else { UNFINISHED }]);
        if point != "renamed" {
            case.has_finished(&from(&case, &path));
        }
        case.again();
    }
}
