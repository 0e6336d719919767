//! Destinations of results and reports: files, pipes and full disks, also after a failure.

use serde_json::Value;

use crate::cli::{Ended, command, ends, output, run, with_database, with_snapshot};
use crate::common::database::json;
use crate::common::run::Place;

/// Runs the program with `/dev/full` as its standard output, and expects exit code 1.
#[track_caller]
fn onto_a_full_disk(place: &Place, line: &str) -> String {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let ended = output(command(place, line).stdout(full));
    assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
    ended.stderr
}

#[test]
fn unwritable_report_says_the_work_is_complete() {
    let place = with_snapshot("1MiB");
    let completes = |line: &str, done: &str| {
        let said = onto_a_full_disk(&place, &format!("{line} --progress off"));
        let begin = format!("error: {done}; only the report could not be written: ");
        assert!(said.starts_with(&begin) && said.contains("No space left on device"), "{line}: {said}");
        assert_eq!(said.lines().count(), 2, "{line}: {said}");
        assert!(!said.contains("run it again"), "{line}: {said}");
    };
    for more in ["text", "json --json", "file --report /dev/full --quiet", "memtable --preset memtable"] {
        let db = more.split(' ').next().expect("a name");
        completes(&format!("import snapshot.car --db {more}"), &format!("the database {db} is complete"));
        assert!(!place.path(&format!("{db}.partial")).exists());
        ends(&place, &format!("verify --quiet --db {db}"), 0, "");
    }
    for more in ["a.car", "b.car --json", "c.car --report /dev/full --quiet"] {
        let file = more.split(' ').next().expect("a name");
        completes(&format!("export --db text {more}"), &format!("the snapshot {file} is complete"));
        assert!(place.path(file).metadata().expect("a file").len() > 1 << 19);
    }
    completes("generate d.car --size 1MiB", "d.car is complete");
    completes("generate d.log --size 1MiB --profile steem", "d.log is complete");
    ends(&place, "import d.car --db d", 0, "");
    let bench = "bench snapshot.car --presets ingest --runs 1 --warmup 0 --lookups 0 --no-scan --quiet";
    completes(bench, "all runs are done and kept in bedload-bench");
    assert!(place.path("bedload-bench/results.json").exists());
}

#[test]
fn report_is_written_after_a_failure() {
    let place = with_snapshot("1MiB");
    place.file("bad.car", b"nothing of the kind");
    let file = || std::fs::read_to_string(place.path("report.json")).expect("a report");
    let is = |text: &str, schema: &str| {
        let document: Value = serde_json::from_str(text).expect("one document");
        assert!(document["schema"].as_str().is_some_and(|found| found.starts_with(schema)), "{schema}: {text}");
    };
    for (number, more) in ["--report -", "--report - --json"].into_iter().enumerate() {
        for (line, code, schema) in [
            (format!("import snapshot.car --db db{number}"), 0, "bedload-import-"),
            ("import snapshot.car --db dry --dry-run".into(), 0, "bedload-plan-"),
            ("import bad.car --db bad".into(), 3, "bedload-error-1"),
            (format!("import snapshot.car --db db{number}"), 4, "bedload-error-1"),
        ] {
            is(&ends(&place, &format!("{line} {more}"), code, "").stdout, schema);
        }
    }
    assert_eq!(ends(&place, "import bad.car --db bad --report report.json", 3, "").stdout, "");
    is(&file(), "bedload-error-1");
    ends(&place, "import snapshot.car --db dry --report report.json --dry-run", 0, "");
    is(&file(), "bedload-plan-");
    for more in ["--max-block-size 8GiB", "--set node.cf.num_levels=99"] {
        place.file("report.json", b"{\"schema\": \"bedload-import-4\"}");
        ends(&place, &format!("import snapshot.car --db db --report report.json {more}"), 2, "");
        is(&file(), "bedload-error-1");
        assert!(file().contains("\"exit\": 2"), "{more}: {}", file());
    }
    let text = ends(&place, "import snapshot.car --db db --report report.json", 0, "").stdout;
    is(&file(), "bedload-import-");
    assert!(text.starts_with("database "), "{text}");
}

#[test]
fn report_to_a_pipe_needs_a_reader() {
    let place = with_snapshot("1MiB");
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    let import = |db: &str, report: &str| -> Ended {
        run(&place, &format!("import snapshot.car --quiet --db {db} --report {report}"))
    };
    let ended = import("db", "pipe");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(
        ended.stderr,
        "error: the report cannot go to pipe: no program reads from it\n\
         hint: start its reader first, or give --report a file, or `-`\n"
    );
    assert!(!place.path("db").exists());
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).expect("read"));
    // The reader may not have come to opening it.
    let code = (0..500).map(|_| import("db", "pipe").code).find(|code| *code != Some(2));
    assert_eq!(code, Some(Some(0)));
    let report: Value = serde_json::from_str(&reader.join().expect("read")).expect("one document");
    assert_eq!(report["db"], "db");
    let piped = import("other", "/dev/stdout");
    assert_eq!(piped.code, Some(0));
    assert!(piped.stdout.starts_with("{\n  \"schema\": \"bedload-import-"), "{piped:?}");
}

#[test]
fn full_standard_output_fails_every_command() {
    let place = with_database("1MiB");
    let report = json(&["stat"], &place.path("db"), &[], 0);
    let root = report["import"]["source"]["roots"][0].as_str().expect("a root");
    let get = format!("get {root} --db db");
    let get_json = format!("{get} --json");
    for line in [
        "verify --db db",
        "stat --db db",
        &get,
        "walk --db db",
        "inspect snapshot.car",
        "inspect --list snapshot.car",
        "export db -",
        "generate - --size 1MiB",
        "generate - --size 1MiB --profile steem",
        &get_json,
        "presets",
        "--help",
        "import --help",
        "--version",
    ] {
        let said = onto_a_full_disk(&place, line);
        for words in
            ["error: cannot write the output stream: No space left on device", "hint: check the file or device"]
        {
            assert!(said.contains(words), "{line}: {said}");
        }
    }
}
