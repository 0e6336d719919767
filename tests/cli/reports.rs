//! Destinations of results and reports: files, pipes and full disks, also after a failure.

use std::path::Path;

use crate::common::database::{bedload, generate, import};
use crate::common::run::bedload as program;

/// Runs a command whose standard output is `/dev/full`: exit code and standard error.
fn onto_a_full_disk(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = program().args(["--progress", "off"]).args(args).current_dir(dir).stdout(full).output().expect("run");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn unwritable_report_says_the_work_is_complete() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "1MiB");
    let completes = |args: &[&str], done: &str| {
        let (code, stderr) = onto_a_full_disk(dir.path(), args);
        assert_eq!(code, Some(1), "{args:?}: {stderr}");
        let said = format!("error: {done}; only the report could not be written: ");
        assert!(stderr.starts_with(&said) && stderr.contains("No space left on device"), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 2, "{args:?}: {stderr}");
        assert!(!stderr.contains("run it again"), "{args:?}: {stderr}");
    };
    let import = |db: &str, more: &[&str]| {
        completes(&[&["import", "snapshot.car", "--db", db], more].concat(), &format!("the database {db} is complete"));
        assert!(!dir.path().join(format!("{db}.partial")).exists());
        bedload().args(["verify", "--quiet", "--db"]).arg(dir.path().join(db)).assert().success();
    };
    import("text", &[]);
    import("json", &["--json"]);
    import("file", &["--report", "/dev/full", "--quiet"]);
    import("memtable", &["--preset", "memtable"]);
    for (file, more) in [("a.car", &[][..]), ("b.car", &["--json"]), ("c.car", &["--report", "/dev/full", "--quiet"])] {
        completes(&[&["export", "--db", "text", file], more].concat(), &format!("the snapshot {file} is complete"));
        assert!(dir.path().join(file).metadata().expect("a file").len() > 1 << 19);
    }
    completes(&["generate", "d.car", "--size", "1MiB"], "d.car is complete");
    completes(&["generate", "d.log", "--size", "1MiB", "--profile", "steem"], "d.log is complete");
    bedload().arg("import").arg(dir.path().join("d.car")).arg("--db").arg(dir.path().join("d")).assert().success();
    let bench = ["bench", "snapshot.car", "--presets", "ingest", "--runs", "1", "--warmup", "0", "--lookups", "0"];
    completes(&[&bench[..], &["--no-scan", "--quiet"]].concat(), "all runs are done and kept in bedload-bench");
    assert!(dir.path().join("bedload-bench/results.json").exists());
}

#[test]
fn report_is_written_after_a_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    std::fs::write(dir.path().join("bad.car"), b"nothing of the kind").expect("written");
    let run = |source: &str, db: &str, more: &[&str], code: i32| {
        let mut command = program();
        command.args(["import", source, "--db", db, "--progress", "off"]).args(more).current_dir(dir.path());
        let output = command.output().expect("run");
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let schema = |text: &str| {
        let document: serde_json::Value = serde_json::from_str(text).expect("one document");
        document["schema"].as_str().expect("a name").to_owned()
    };
    let car = car.to_str().expect("text");
    for (number, more) in [&["--report", "-"][..], &["--report", "-", "--json"]].into_iter().enumerate() {
        assert!(schema(&run(car, &format!("db{number}"), more, 0)).starts_with("bedload-import-"));
        assert!(schema(&run(car, "dry", &[more, &["--dry-run"]].concat(), 0)).starts_with("bedload-plan-"));
        assert_eq!(schema(&run("bad.car", "bad", more, 3)), "bedload-error-1");
        assert_eq!(schema(&run(car, &format!("db{number}"), more, 4)), "bedload-error-1");
    }
    let file = || std::fs::read_to_string(dir.path().join("report.json")).expect("a report");
    assert_eq!(run("bad.car", "bad", &["--report", "report.json"], 3), "");
    assert_eq!(schema(&file()), "bedload-error-1");
    run(car, "dry", &["--report", "report.json", "--dry-run"], 0);
    assert!(schema(&file()).starts_with("bedload-plan-"));
    let text = run(car, "db", &["--report", "report.json"], 0);
    assert!(schema(&file()).starts_with("bedload-import-") && text.starts_with("database "), "{text}");
}

#[test]
fn report_to_a_pipe_needs_a_reader() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "1MiB");
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    let import = |db: &str, report: &str| {
        let mut command = program();
        command.args(["import", "snapshot.car", "--quiet", "--db", db, "--report", report]).current_dir(dir.path());
        command
    };
    let output = import("db", "pipe").output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(
        said,
        "error: the report cannot go to pipe: no program reads from it\n\
         hint: start its reader first, or give --report a file, or `-`\n"
    );
    assert!(!dir.path().join("db").exists());
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).expect("read"));
    let read = || import("db", "pipe").output().expect("run").status.code();
    // The reader may not have come to opening it.
    let code = (0..500).map(|_| read()).find(|code| *code != Some(2));
    assert_eq!(code, Some(Some(0)));
    let report: serde_json::Value = serde_json::from_str(&reader.join().expect("read")).expect("one document");
    assert_eq!(report["db"], "db");
    let piped = import("other", "/dev/stdout").output().expect("run");
    assert_eq!(piped.status.code(), Some(0));
    let text = String::from_utf8(piped.stdout).expect("text");
    assert!(text.starts_with("{\n  \"schema\": \"bedload-import-"), "{text}");
}

#[test]
fn report_records_refused_options() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "1MiB");
    let report = dir.path().join("report.json");
    for more in [["--max-block-size", "8GiB"], ["--set", "node.cf.num_levels=99"]] {
        std::fs::write(&report, "{\"schema\": \"bedload-import-4\"}").expect("an older report");
        let mut command = program();
        command.args(["import", "snapshot.car", "--db", "db", "--report", "report.json"]).args(more);
        let output = command.current_dir(dir.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        let found: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).expect("read")).expect("one");
        assert_eq!((&found["schema"], &found["exit"]), (&"bedload-error-1".into(), &2.into()), "{more:?}: {found}");
    }
}

#[test]
fn full_standard_output_fails_every_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let db = import(dir.path(), &car, &[]);
    let (car, db) = (car.to_str().expect("text"), db.to_str().expect("text"));
    let report = crate::common::database::json(&["stat"], Path::new(db), &[], 0);
    let root = report["import"]["source"]["roots"][0].as_str().expect("a root");
    let commands: [&[&str]; 14] = [
        &["verify", "--db", db],
        &["stat", "--db", db],
        &["get", root, "--db", db],
        &["walk", "--db", db],
        &["inspect", car],
        &["inspect", "--list", car],
        &["export", db, "-"],
        &["generate", "-", "--size", "1MiB"],
        &["generate", "-", "--size", "1MiB", "--profile", "steem"],
        &["get", root, "--json", "--db", db],
        &["presets"],
        &["--help"],
        &["import", "--help"],
        &["--version"],
    ];
    for command in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let output = program().args(command).stdout(full).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        for words in ["error: write standard output: No space left on device", "hint: check the file or device"] {
            assert!(said.contains(words), "{command:?}: {said}");
        }
    }
}
