//! Output in a terminal: no line wraps, and the progress bar is removed. Output elsewhere has no bar.

use crate::cli::{command, ends, output, run, with_database, with_snapshot};
use crate::common::car::{block, rooted};
use crate::common::run::{BEDLOAD, Place};
use crate::common::terminal::{self, Session};

/// Runs the program in a folder, in a terminal. The arguments are those of `line`.
fn show(place: &Place, line: &str, columns: usize, environment: &[(&str, &str)]) -> Option<Session> {
    let line = format!("cd {} && {BEDLOAD} {line}", place.path("").display());
    terminal::run(&line, columns, environment, None)
}

/// An import from a pipe that rests in the middle for long enough to show a bar.
fn slow_import(place: &Place, rest: &str) -> String {
    let begin = format!("cd {} && (head -c 3000000 snapshot.car; sleep {rest}; ", place.path("").display());
    format!("{begin} tail -c +3000001 snapshot.car) | {BEDLOAD} import - --db db --memory 64M")
}

fn assert_clean(session: &Session, what: &str) {
    let text = session.screen.text();
    assert_eq!(session.screen.wrapped, Vec::<String>::new(), "{what}\n{text}");
    assert_eq!(session.screen.bars(), Vec::<&String>::new(), "{what}\n{text}");
    assert!(!session.raw.contains("\x1b[2J") && !session.raw.contains("\x1b[H"), "{what} clears the whole screen");
}

#[test]
fn import_removes_its_progress_bar() {
    for columns in [80, 200, 50] {
        let place = with_snapshot("8M");
        let Some(session) = terminal::run(&slow_import(&place, "1"), columns, &[], None) else { return };
        let text = session.screen.text();
        assert_eq!(session.code, Some(0), "{text}");
        let drawn = session.raw.matches("blocks/s").count() + session.raw.matches("MiB/s").count();
        assert!(drawn > 2, "there is a bar while it lasts: {:?}", session.raw);
        assert_clean(&session, &format!("an import at {columns} columns"));
        let lines = session.screen.lines.iter().filter(|line| !line.starts_with(' '));
        // A phase that took next to no time has no line.
        let brief = ["ingest", "compact", "commit"];
        let names = lines.filter_map(|line| line.split_whitespace().next()).filter(|name| !brief.contains(name));
        let names: Vec<&str> = names.collect();
        let phases = ["plan", "read", "build"];
        let summary = [
            "database", "source", "preset", "blocks", "payload", "digest", "checked", "time", "head", "levels", "cost",
            "complete", "check", "read",
        ];
        assert_eq!(names, [&phases[..], &summary[..]].concat(), "{text}");
    }
}

#[test]
fn every_command_fits_the_terminal_width() {
    let place = with_database("3M");
    for line in [
        "verify --db db",
        "verify --db db --against snapshot.car",
        "walk --db db",
        "stat --db db --digest",
        "export --db db out.car",
        "inspect snapshot.car --full",
        "generate made.car --size 4M",
        "doctor --dir . snapshot.car",
        "bench snapshot.car --presets ingest,memtable --vary verify=none,full --runs 1 --lookups 0 --out bench",
        "import snapshot.car --db planned --dry-run",
        "import snapshot.car --db spilled --threads 1 --plan spill --memory 64M",
        "import snapshot.car --db memtable --threads 1 --preset memtable",
        "presets list",
        "presets explain ingest",
        "presets diff ingest memtable",
    ] {
        let Some(session) = show(&place, line, 80, &[]) else { return };
        assert_eq!(session.code, Some(0), "{line}: {}", session.screen.text());
        assert_clean(&session, line);
    }
}

#[test]
fn ctrl_c_leaves_a_clean_terminal() {
    let place = with_snapshot("8M");
    let typed = Some(("blocks/s", &b"\x03"[..]));
    let Some(session) = terminal::run(&slow_import(&place, "100"), 80, &[], typed) else { return };
    let text = session.screen.text();
    assert_eq!(session.code, Some(130), "{text}");
    assert_clean(&session, "an import that is stopped");
    let lines: Vec<&str> = session.screen.lines.iter().map(|line| line.trim_start_matches("^C")).collect();
    let count = |expected: &str| lines.iter().filter(|line| **line == expected).count();
    assert_eq!(count("error: interrupted"), 1, "{text}");
    // Work that ends at once may end before it is said that it does.
    assert!(count("stopping; press Ctrl-C again to stop at once") <= 1, "{text}");
    assert_eq!(count("hint: no checkpoint yet: the same command starts from the beginning"), 1, "{text}");
}

#[test]
fn escape_sequences_need_a_terminal_and_consent() {
    let place = with_snapshot("8M");
    let piped = |more: &str| run(&place, &format!("stat --db /nowhere {more}")).stderr;
    assert!(!piped("").contains('\x1b'));
    assert!(piped("--color always").contains("\x1b[1;31merror:\x1b[0m"));
    let ended = output(command(&place, "import snapshot.car --db piped").env("COLUMNS", "40"));
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stderr.contains(['\x1b', '\r']) && !ended.stdout.contains(['\x1b', '\r']), "{ended:?}");
    let plan = ended.stderr.lines().find(|line| line.starts_with("plan ")).expect("a plan");
    assert!(plan.len() > 80, "a line for programs is not broken: {plan}");
    assert!(ended.stdout.lines().all(|line| !line.starts_with(' ')), "{ended:?}");
    for (environment, more, is_colored) in [
        (&[][..], "", true),
        (&[("NO_COLOR", "")], "", true),
        (&[("NO_COLOR", "1")], "", false),
        (&[("TERM", "dumb")], "", false),
        (&[], "--color never", false),
    ] {
        let line = format!("import snapshot.car --db db --memory 1K {more}");
        let Some(session) = show(&place, &line, 80, environment) else { return };
        let raw = &session.raw;
        let colors = [raw.contains("\x1b[1;31merror:"), raw.contains("error: ") && !raw.contains("\x1b[")];
        assert_eq!(colors, [is_colored, !is_colored], "{environment:?} {more}: {raw:?}");
    }
    // A dumb terminal has no bar either.
    let dumb = show(&place, "import snapshot.car --db db", 80, &[("TERM", "dumb")]).expect("a terminal");
    assert!(dumb.code == Some(0) && !dumb.raw.contains('\x1b'), "{:?}", dumb.raw);
}

/// A block may have escape sequences, which a terminal obeys.
#[test]
fn raw_blocks_do_not_reach_a_terminal() {
    let hostile = block(b"\x1b]0;title\x07\x1b[2J");
    let root = cid::Cid::try_from(&hostile.0[..]).expect("a CID");
    let place = Place::in_memory();
    place.file("x.car", &rooted(&[hostile]));
    ends(&place, "import x.car --db db --quiet", 0, "");
    for option in ["--raw", "--as raw"] {
        let Some(session) = show(&place, &format!("get {option} db {root}"), 100, &[]) else { return };
        assert_eq!(session.code, Some(2), "{}", session.raw);
        assert!(session.raw.contains("the bytes of a block cannot go to a terminal"), "{}", session.raw);
        assert!(!session.raw.contains("\x1b]0;") && !session.raw.contains("\x1b[2J"), "{:?}", session.raw);
    }
    assert_eq!(run(&place, &format!("get --raw db {root}")).stdout, "\x1b]0;title\x07\x1b[2J");
}
