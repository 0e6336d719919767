//! Output in a terminal: no line wraps, and the progress bar is removed. Output elsewhere has no bar.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::database::{generate, import};
use crate::common::terminal::{Session, quoted, run};

fn program() -> String {
    quoted(Path::new(crate::common::run::BEDLOAD))
}

/// A snapshot through a pipe, with a pause in the middle that is long enough for a bar.
fn slowly(car: &Path, rest: &str) -> String {
    let car = quoted(car);
    format!("(head -c 3000000 {car}; sleep {rest}; tail -c +3000001 {car})")
}

fn assert_clean(session: &Session, what: &str) {
    let text = session.screen.text();
    assert_eq!(session.screen.wrapped, Vec::<String>::new(), "{what}\n{text}");
    assert_eq!(session.screen.bars(), Vec::<&String>::new(), "{what}\n{text}");
    assert!(!session.raw.contains("\x1b[2J") && !session.raw.contains("\x1b[H"), "{what} clears the whole screen");
}

fn snapshot() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let car = generate(dir.path(), "8M");
    (dir, car)
}

#[test]
fn import_removes_its_progress_bar() {
    for columns in [80, 200, 50] {
        let (dir, car) = snapshot();
        let db = quoted(&dir.path().join("db"));
        let command = format!("{} | {} import - --db {db} --memory 64M", slowly(&car, "1"), program());
        let Some(session) = run(&command, columns, &[], None) else { return };
        let text = session.screen.text();
        assert_eq!(session.code, Some(0), "{text}");
        let drawn = session.raw.matches("blocks/s").count() + session.raw.matches("MiB/s").count();
        assert!(drawn > 2, "there is a bar while it lasts: {:?}", session.raw);
        assert_clean(&session, &format!("an import at {columns} columns"));
        let names: Vec<&str> = session
            .screen
            .lines
            .iter()
            .filter(|line| !line.starts_with(' '))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        // A phase that took next to no time has no line.
        let brief = ["ingest", "compact", "commit"];
        let names: Vec<&str> = names.into_iter().filter(|name| !brief.contains(name)).collect();
        let phases = ["plan", "read", "build"];
        let summary = [
            "database", "source", "preset", "blocks", "payload", "digest", "checked", "time", "head", "levels", "cost",
            "complete", "check", "read",
        ];
        assert_eq!(names, [&phases[..], &summary[..]].concat(), "{text}");
    }
}

#[test]
fn bar_of_known_length_is_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let car = generate(dir.path(), "192M");
    for (number, more) in ["--plan spill --memory 64M", "--preset memtable"].iter().enumerate() {
        let db = quoted(&dir.path().join(number.to_string()));
        let command = format!("{} import {} --db {db} --threads 1 {more}", program(), quoted(&car));
        let Some(session) = run(&command, 80, &[], None) else { return };
        assert_eq!(session.code, Some(0), "{}", session.screen.text());
        assert_clean(&session, more);
    }
}

#[test]
fn every_command_fits_the_terminal_width() {
    let (dir, car) = snapshot();
    let db = quoted(&import(dir.path(), &car, &[]));
    let (car, program) = (quoted(&car), program());
    let out = quoted(&dir.path().join("out.car"));
    let (made, here) = (quoted(&dir.path().join("made.car")), quoted(dir.path()));
    for command in [
        format!("verify --db {db}"),
        format!("verify --db {db} --against {car}"),
        format!("walk --db {db}"),
        format!("stat --db {db} --digest"),
        format!("export --db {db} {out}"),
        format!("inspect {car} --full"),
        format!("generate {made} --size 4M"),
        format!("doctor --dir {here} {car}"),
        format!(
            "bench {car} --presets ingest,memtable --vary verify=none,full --runs 1 --lookups 0 --out {here}/bench"
        ),
        format!("import {car} --db {here}/planned --dry-run"),
        "presets list".to_owned(),
        "presets explain ingest".to_owned(),
        "presets diff ingest memtable".to_owned(),
    ] {
        let Some(session) = run(&format!("{program} {command}"), 80, &[], None) else { return };
        assert_eq!(session.code, Some(0), "{command}: {}", session.screen.text());
        assert_clean(&session, &command);
    }
}

#[test]
fn ctrl_c_leaves_a_clean_terminal() {
    let (dir, car) = snapshot();
    let db = quoted(&dir.path().join("db"));
    let command = format!("{} | {} import - --db {db} --memory 64M", slowly(&car, "100"), program());
    let Some(session) = run(&command, 80, &[], Some(("blocks/s", b"\x03"))) else { return };
    let text = session.screen.text();
    assert_eq!(session.code, Some(130), "{text}");
    assert_clean(&session, "an import that is stopped");
    let lines: Vec<&str> = session.screen.lines.iter().map(|line| line.trim_start_matches("^C")).collect();
    let count = |expected: &str| lines.iter().filter(|line| **line == expected).count();
    assert_eq!(count("error: interrupted"), 1, "{text}");
    // Work that ends at once may end before it is said that it does.
    assert!(count("stopping; press Ctrl-C again to stop at once") <= 1, "{text}");
    assert_eq!(count("hint: nothing is durable yet: the same command starts from the beginning"), 1, "{text}");
}

#[test]
fn colors_obey_environment_and_option() {
    let (dir, car) = snapshot();
    let run = |number: u32, environment: &[(&str, &str)], more: &str| {
        let db = quoted(&dir.path().join(number.to_string()));
        run(&format!("{} import {} --db {db} {more}", program(), quoted(&car)), 80, environment, None)
    };
    // A file that is there is an error, whose word has a colour; then a bar.
    let colored = |session: &Session| session.raw.contains("\x1b[1;31merror:") || session.raw.contains("\x1b[36m");
    let Some(plain) = run(1, &[("NO_COLOR", "1")], "--memory 1K") else { return };
    assert!(plain.raw.contains("error: ") && !plain.raw.contains("\x1b["), "{:?}", plain.raw);
    let dumb = run(2, &[("TERM", "dumb")], "").expect("a terminal");
    assert!(dumb.code == Some(0) && !dumb.raw.contains('\x1b'), "{:?}", dumb.raw);
    let shown = run(3, &[], "--memory 1K").expect("a terminal");
    assert!(colored(&shown), "{:?}", shown.raw);
    let never = run(4, &[], "--memory 1K --color never").expect("a terminal");
    assert!(!colored(&never), "{:?}", never.raw);
}

#[test]
fn piped_output_has_no_escape_sequences() {
    let (dir, car) = snapshot();
    let output = crate::common::run::bedload()
        .arg("import")
        .arg(&car)
        .arg("--db")
        .arg(dir.path().join("db"))
        .env("COLUMNS", "40")
        .output()
        .expect("run");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !stderr.contains(['\x1b', '\r']) && !stdout.contains(['\x1b', '\r']));
    let plan = stderr.lines().find(|line| line.starts_with("plan ")).expect("a plan");
    assert!(plan.len() > 80, "a line for programs is not broken: {plan}");
    assert!(stdout.lines().all(|line| !line.starts_with(' ')), "{stdout}");
}

#[test]
fn closed_reader_does_not_fail_an_import() {
    let (dir, car) = snapshot();
    for (number, tail) in ["| true", "2>&1 | true"].iter().enumerate() {
        let db = dir.path().join(number.to_string());
        let line = format!("{} import {} --db {} {tail}", program(), quoted(&car), quoted(&db));
        let output = crate::common::run::hermetic("bash")
            .args(["-c", &format!("set -o pipefail; {line}")])
            .stdin(Stdio::null())
            .output()
            .expect("run");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line}: {stderr}");
        assert!(!stderr.contains("error") && !stderr.contains("panicked"), "{stderr}");
        assert!(db.join("BEDLOAD.json").exists(), "the import went on to its end");
    }
}
