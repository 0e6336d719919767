//! What people meet first: help, wrong command lines, pipes, colours, and what `make install` puts where.

use std::path::Path;
use std::process::Command;

use crate::common::database::{bedload, generate, import};

/// Lines of one screen, and columns.
const SCREEN: usize = 55;
const COLUMNS: usize = 100;

const COMMANDS: [&str; 20] = [
    "",
    "import",
    "inspect",
    "verify",
    "walk",
    "get",
    "stat",
    "export",
    "generate",
    "presets",
    "presets list",
    "presets show",
    "presets explain",
    "presets diff",
    "bench",
    "tune",
    "doctor",
    "help",
    "completions",
    "man",
];

fn program() -> Command {
    crate::common::run::bedload()
}

#[test]
fn every_help_is_one_screen_with_an_example() {
    let mut all = String::new();
    for command in COMMANDS {
        let help = |flag: &str| {
            let output = program().args(command.split_whitespace()).arg(flag).output().expect("run");
            assert!(output.status.success(), "{command}");
            String::from_utf8(output.stdout).expect("text")
        };
        let text = help("--help");
        assert_eq!(text, help("-h"), "{command}");
        assert!(text.lines().count() <= SCREEN, "{command}: {} lines", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{command}: a line is too long");
        let example = text.lines().rev().find_map(|line| line.strip_prefix("Example: bedload ")).unwrap_or_default();
        assert!(example.starts_with(command) || command.is_empty() || command == "presets", "{command}: {example}");
        all.push_str(&format!("$ bedload {command} --help\n{text}\n"));
    }
    // `INSTA_UPDATE=always cargo test --release --test cli command_line` writes it anew.
    insta::assert_snapshot!(all);
}

#[test]
fn every_command_is_known_here() {
    let output = program().arg("--help").output().expect("run");
    let text = String::from_utf8(output.stdout).expect("text");
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed.filter(|line| !line.starts_with("    ")) {
        let name = line.split_whitespace().next().expect("a name");
        assert!(COMMANDS.contains(&name), "{name} has no golden help");
    }
}

#[test]
fn a_wrong_command_line_is_reported_in_two_lines_and_as_json() {
    let output = program().args(["import", "a.car", "--db", "d", "--memry", "1G", "--json"]).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let (error, hint) = ("unexpected argument '--memry' found", "a similar argument exists: '--memory'");
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("error: {error}\nhint: {hint}\n"));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let expected = serde_json::json!({ "schema": "bedload-error-1", "error": error, "hint": hint, "exit": 2 });
    assert_eq!(document, expected);
}

#[test]
fn help_of_a_command_is_the_same_by_either_way() {
    for command in COMMANDS.iter().filter(|command| !command.is_empty()) {
        let by_flag = program().args(command.split(' ')).arg("--help").output().expect("run");
        let by_name = program().arg("help").args(command.split(' ')).output().expect("run");
        assert_eq!(String::from_utf8_lossy(&by_name.stdout), String::from_utf8_lossy(&by_flag.stdout), "{command}");
        assert_eq!(by_name.status.code(), Some(0));
    }
    for (words, hint) in [
        (&["imprt"][..], "did you mean import?"),
        (&["im"], "did you mean import?"),
        (&["in"], "did you mean inspect?"),
        (&["ge"], "did you mean get or generate?"),
        (&["presets", "expl"], "did you mean explain?"),
        (&["presets", "frobnicate"], "bedload presets --help lists the commands"),
        (&["frobnicate"], "bedload --help lists the commands"),
    ] {
        let output = program().arg("help").args(words).output().expect("run");
        assert_eq!(output.status.code(), Some(2));
        let said = format!("error: there is no command `{}`\nhint: {hint}\n", words[words.len() - 1]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    }
}

#[test]
fn bash_completes_values_of_options() {
    let completions = program().args(["completions", "bash"]).output().expect("run").stdout;
    let script = String::from_utf8(completions).expect("text");
    for (command, option, begun, expected) in [
        ("import", "--preset", "ingest-c", "ingest-compat"),
        ("import", "--set", "node.table.block_siz", "node.table.block_size="),
        ("doctor", "--preset", "ingest-c", "ingest-compat"),
        ("doctor", "--set", "load.write.batch_b", "load.write.batch_bytes="),
        ("bench", "--presets", "ingest-c", "ingest-compat"),
        ("bench", "--reference", "ingest-c", "ingest-compat"),
        ("bench", "--vary", "node.table.block_siz", "node.table.block_size="),
        ("bench", "--vary", "mem", "memory="),
        ("bench", "--set", "thr", "threads="),
    ] {
        let words = format!(
            "COMP_WORDS=(bedload {command} {option} {begun}); COMP_CWORD=3; _bedload bedload '{begun}' {option}; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let output = crate::common::run::hermetic("bash").args(["-c", &format!("{script}\n{words}")]).output();
        let offered = String::from_utf8(output.expect("bash").stdout).expect("text");
        let offered: Vec<&str> = offered.lines().collect();
        assert!(offered.contains(&expected), "{command} {option} {begun}: {offered:?}");
        assert!(offered.iter().all(|word| word.starts_with(begun)), "{command} {option} {begun}: {offered:?}");
    }
}

#[test]
fn completions_offer_presets_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let output = program().args(["completions", shell]).output().expect("run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for word in [
            "memtable",
            "ingest-compat",
            "node.table.block_size=",
            "load.cf.write_buffer_size=",
            "load.write.batch_bytes=",
        ] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    // What is offered is no list that is enforced: a file is taken as well.
    bedload().args(["presets", "show", "/nowhere/mine.toml"]).assert().code(1);
}

#[test]
fn a_database_is_named_by_its_place_or_by_an_option_and_quiet_hides_no_result() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let db = import(dir.path(), &car, &[]);
    let db = db.to_str().expect("text");
    let run = |args: &[&str]| {
        let output = program().args(args).args(["--progress", "off"]).output().expect("run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for command in ["verify", "walk", "stat"] {
        for args in [&[command, db][..], &[command, "--db", db], &[command, db, "--quiet"]] {
            let (code, stdout, stderr) = run(args);
            assert_eq!((code, stdout.contains(db), stderr.as_str()), (Some(0), true, ""), "{args:?}");
        }
        let (code, _, stderr) = run(&[command]);
        assert!(code == Some(2) && stderr.contains("were not provided: <DB>"), "{stderr}");
        let (code, _, stderr) = run(&[command, db, "--db", db]);
        assert!(code == Some(2) && stderr.contains("cannot be used with '--db <DIR>'"), "{stderr}");
    }
    let out = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    for args in [&["export", db, &out("a.car")][..], &["export", "--db", db, &out("b.car"), "-q"]] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.contains("digest"), stderr.as_str()), (Some(0), true, ""), "{args:?}");
    }
    let (code, _, stderr) = run(&["export", &out("c.car")]);
    assert!(
        code == Some(2) && stderr.starts_with("error: a file to write is needed\nhint: write `bedload export DB FILE`"),
        "{stderr}"
    );
    let (code, stdout, _) = run(&["generate", &out("d.car"), "--size", "100K", "-q"]);
    assert_eq!((code, stdout.contains("blocks")), (Some(0), true), "{stdout}");
    let (code, stdout, _) = run(&["get", db, "--epoch", "0"]);
    assert!(code == Some(0) && stdout.contains("\"Height\":0"), "{stdout}");
    for args in [&["get"][..], &["get", db], &["get", "--db", db]] {
        let (code, _, stderr) = run(args);
        let said = "error: a database and what to look for in it are needed\nhint: write `bedload get DB KEY`, as in \
                    `bedload get chain 1000`\n";
        assert_eq!((code, stderr.as_str()), (Some(2), said), "{args:?}");
    }
}

#[test]
fn without_arguments_the_help_comes_and_no_success() {
    let output = program().output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: bedload"));
}

/// What a shell prints, and how the pipe's first command ended.
fn piped(line: &str) -> (String, String, Option<i32>) {
    let line = line.replace("bedload", crate::common::run::BEDLOAD);
    let output = crate::common::run::hermetic("bash").args(["-o", "pipefail", "-c", &line]).output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn a_reader_who_has_seen_enough_ends_it_quietly() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "3MiB");
    let db = import(dir.path(), &car, &[]);
    let (car, db) = (car.display(), db.display());
    for (line, lines) in [
        ("bedload presets list | head -1".to_owned(), 1),
        ("bedload presets explain ingest | head -2".to_owned(), 2),
        (format!("bedload inspect --list {car} | head -3"), 3),
        (format!("bedload stat --db {db} | head -1"), 1),
        (format!("bedload stat --json --db {db} | head -1"), 1),
        ("bedload completions bash | head -1".to_owned(), 1),
        ("bedload man | head -1".to_owned(), 1),
        (format!("bedload export --progress off -q --db {db} - | head -c 1 | tr -c x y; echo"), 1),
        ("bedload generate --size 3MiB - | head -c 1 | tr -c x y; echo".to_owned(), 1),
    ] {
        let (stdout, stderr, code) = piped(&line);
        assert_eq!((stdout.lines().count(), stderr.as_str(), code), (lines, "", Some(0)), "{line}");
    }
}

#[test]
fn quiet_hides_narration_and_never_results() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |args: &[&str]| {
        let output = program().args(args).current_dir(dir.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).expect("text"), String::from_utf8(output.stderr).expect("text"))
    };
    for (args, result) in [
        (&["generate", "a.car", "--size", "1MiB"][..], "a.car: "),
        (&["generate", "b.car", "--size", "1MiB", "--json"], "\"schema\": \"bedload-generate-1\""),
        (&["generate", "log", "--size", "1MiB", "--profile", "steem"], "log: "),
        (&["import", "a.car", "--db", "db"], "digest"),
        (&["verify", "--db", "db"], "digest"),
        (&["walk", "--db", "db"], "reachable"),
        (&["export", "--db", "db", "c.car"], "c.car"),
    ] {
        let (stdout, stderr) = run(&[args, &["--quiet"]].concat());
        assert!(stdout.contains(result), "{args:?}: {stdout}");
        assert_eq!(stderr, "", "{args:?}");
    }
    // The end of a snapshot is missing: a warning, and no narration.
    let mut blocks = crate::common::car::sections(&std::fs::read(dir.path().join("a.car")).expect("a file"));
    let (absent, _) = blocks.remove(0);
    let lacks = crate::common::car::car(&[absent], &blocks);
    std::fs::write(dir.path().join("lacks.car"), lacks).expect("written");
    for (db, more) in [("q", &["-q"][..]), ("off", &["--progress", "off"])] {
        let (_, stderr) = run(&[&["import", "lacks.car", "--check-links", "--db", db][..], more].concat());
        assert!(stderr.lines().all(|line| line.starts_with("warning: ")), "{stderr}");
        assert!(stderr.contains("1 of 1 roots") && stderr.contains(" that they link to"), "{stderr}");
    }
    let (_, stderr) = run(&["generate", "d.car", "--size", "1MiB", "--quiet", "--progress", "lines"]);
    assert!(stderr.starts_with("generate ") && stderr.contains(" blocks, 1.0 MiB"), "{stderr}");
    let (_, stderr) = run(&["doctor", "d.car", "--quiet", "--progress", "json"]);
    for phase in ["measure", "sample"] {
        assert!(stderr.contains(&format!("\"phase\":\"{phase}\"")), "{stderr}");
    }
}

/// Runs a command whose standard output is `/dev/full`: exit code and standard error.
fn onto_a_full_disk(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = program().args(["--progress", "off"]).args(args).current_dir(dir).stdout(full).output().expect("run");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn a_report_that_cannot_be_written_says_that_the_work_is_done() {
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
fn a_report_is_on_standard_output_or_in_a_file_also_that_of_a_failure() {
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
fn a_report_goes_to_a_pipe_that_is_read_and_never_waits_for_a_reader() {
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
fn options_that_exclude_each_other_are_in_the_report_as_well() {
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
fn a_folder_that_is_not_there_is_named_by_what_would_write_into_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = ["generate", "gone/a.car", "--size", "1MiB"];
    let output = program().args(made).current_dir(dir.path()).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "error: create gone/a.car: No such file or directory (os error 2)\n\
         hint: there is no folder gone: make it, or check the path\n"
    );
}

#[test]
fn a_folder_that_may_not_be_written_to_is_named_by_what_would_write_into_it() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o555)).expect("ours");
    // The superuser may write everywhere but to some file systems of the kernel.
    let refuses = |folder: &&Path| {
        let made = std::fs::File::create_new(folder.join("bedload-test"));
        made.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let Some(folder) = [dir.path(), Path::new("/sys")].into_iter().find(refuses) else {
        crate::common::skipped("this user may write to every folder");
        return;
    };
    let file = folder.join("a.car");
    let output = program().arg("generate").arg(&file).args(["--size", "1MiB"]).output().expect("run");
    let (file, folder) = (file.display(), folder.display());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "error: create {file}: Permission denied (os error 13)\n\
             hint: this user may not write to {folder} (ls -ld {folder}): choose another place, or run it as its owner\n"
        )
    );
}

#[test]
fn a_plan_says_what_may_be_spilled_and_the_record_when_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "4MiB");
    let packed = dir.path().join("packed.car.zst");
    std::fs::write(&packed, crate::common::car::zstd(&std::fs::read(&car).expect("a file"))).expect("written");
    let run = |args: &[&str]| {
        let output = program().args(args).current_dir(dir.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        (text(&output.stdout), text(&output.stderr))
    };
    let (plan, _) = run(&["import", "packed.car.zst", "--db", "dry", "--dry-run"]);
    assert!(
        plan.starts_with("sort in memory if all fits, else spill to partitions and sort each in memory: "),
        "{plan}"
    );
    let (plan, _) = run(&["import", "snapshot.car", "--db", "dry", "--dry-run", "--threads", "1"]);
    assert!(plan.starts_with("sort in memory: 1 thread, "), "{plan}");
    let insists = ["import", "packed.car.zst", "--plan", "memory", "--memory"];
    let (_, stderr) = run(&[&insists[..], &["16MiB", "--db", "small"]].concat());
    assert!(
        stderr.contains("warning: the blocks do not fit the ") && stderr.contains("in spite of --plan memory"),
        "{stderr}"
    );
    assert_eq!(stderr.matches("warning: ").count(), 1, "{stderr}");
    // Without it this is stderr as it happens, and in the summary.
    let auto = ["import", "packed.car.zst", "--memory", "16MiB", "--db"];
    let (text, stderr) = run(&[&auto[..], &["auto"]].concat());
    assert!(stderr.contains("\nspill    the blocks do not fit the ") && !stderr.contains("warning: "), "{stderr}");
    assert!(text.contains("\nspilled   the blocks went through files: "), "{text}");
    let (text, stderr) = run(&[&auto[..], &["quiet", "-q"]].concat());
    assert!(stderr.is_empty() && text.contains("\nspilled   "), "{stderr}{text}");
    let (text, stderr) = run(&[&auto[..], &["planned", "--plan", "spill"]].concat());
    assert!(!stderr.contains("\nspill ") && !text.contains("\nspilled "), "{stderr}{text}");
    let (_, stderr) = run(&[&insists[..], &["1GiB", "--db", "large"]].concat());
    assert!(!stderr.contains("warning: "), "{stderr}");
    let (text, _) = run(&["stat", "--db", "large"]);
    let row =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    let year = humantime::parse_rfc3339(row("imported  ")).expect("a time");
    assert!(year.elapsed().expect("not in the future").as_secs() < 3600, "{text}");
    assert!(row("head      ").starts_with("filecoin, epoch "), "{text}");
}

#[test]
fn tables_fit_a_usual_terminal_wherever_they_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |args: &[&str]| {
        let output = program().args(args).current_dir(dir.path()).output().expect("run");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["generate", "log", "--profile", "steem", "--size", "1MiB", "-q"]);
    run(&["import", "log", "--db", "chain", "--index", "transactions", "-q"]);
    for args in [&["presets", "list"][..], &["presets", "diff", "ingest", "memtable"], &["stat", "chain"]] {
        let text = run(args);
        let widest = text.lines().max_by_key(|line| line.chars().count()).expect("a table");
        assert!(widest.chars().count() <= 80, "{args:?}: {widest}");
    }
    // Of a structure the fields that differ, under the names that can be set.
    let text = run(&["stat", "chain"]);
    assert!(text.contains("cf.compression_opts.level = 3 (default 32767)\n") && !text.contains('{'), "{text}");
}

#[test]
fn a_dry_run_prints_its_plan_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let output = program().args(["import", "--db", "db", "--dry-run"]).arg(&car).current_dir(dir.path()).output();
    let output = output.expect("run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("sort in memory: ").count(), 1, "{text}");
}

#[test]
fn a_source_that_is_something_else_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let db = import(dir.path(), &car, &[]);
    let sst = crate::common::database::ssts(&db).remove(0);
    let mut tar = vec![b'a'; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    let index: Vec<u8> = (0..500u64).flat_map(|block| (block * 300).to_le_bytes()).collect();
    let packed = crate::common::car::zstd(&tar);
    for (name, bytes, what, hint) in [
        ("a.zip", &b"PK\x03\x04 and the rest of it"[..], "it is a zip archive", "unzip -p"),
        ("a.tar", &tar, "it is a tar archive", "tar -xOf"),
        ("a.tar.zst", &packed, "it is a tar archive", "tar -xOf"),
        ("a.bz2", b"BZh91AY&SY", "it is bzip2 data", "bzip2 -dc FILE | bedload import -"),
        ("a.sst", &std::fs::read(sst).expect("a table"), "it is a table of RocksDB", "bedload stat --db"),
        ("block_log.index", &index, "it is the index of a block log", "give the log itself"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        for piped in [false, true] {
            let mut command = bedload();
            match piped {
                false => command.arg("import").arg(&path),
                true => command.args(["import", "-"]).write_stdin(bytes),
            };
            let output = command.args(["--db", "/nowhere/db"]).output().expect("run");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(3), "{name}: {said}");
            assert!(said.contains(&format!("this is not a CAR: {what}\n")) && said.contains(hint), "{name}: {said}");
        }
    }
    let url = program().args(["import", "https://snapshots.example/a.car.zst", "--db", "/nowhere/db"]).output();
    let said = String::from_utf8(url.expect("run").stderr).expect("text");
    assert!(said.contains("it is a URL, and there is no such file") && said.contains("| bedload import -"), "{said}");
}

#[test]
fn no_file_of_a_database_is_ever_written_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let db = import(dir.path(), &car, &[]);
    let table = crate::common::database::ssts(&db).remove(0);
    let (link, dangling) = (dir.path().join("link.car"), dir.path().join("dangling.car"));
    std::os::unix::fs::symlink(&table, &link).expect("a link");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &dangling).expect("a link");
    let in_it = "would be a file of the RocksDB database";
    for (file, what) in [
        (&db.join("CURRENT"), in_it),
        (&db.join("BEDLOAD.json"), in_it),
        (&db.join("new.car"), in_it),
        (&link, in_it),
        (&dangling, "it is a link to a file that is not there"),
    ] {
        for command in ["export", "generate"] {
            let mut program = program();
            program.arg(command);
            match command {
                "export" => program.arg(&db).arg(file),
                _ => program.arg(file).args(["--size", "1MiB"]),
            };
            let output = program.args(["--force", "--format", "car"]).output().expect("run");
            let said = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(4), "{command} {file:?}: {said}");
            assert!(said.contains(what) && said.contains("hint: "), "{command} {file:?}: {said}");
        }
    }
    bedload().args(["verify", "--quiet"]).arg(&db).assert().success();
    let list = dir.path().join("list");
    std::fs::write(&list, "bafkqaaa\n").expect("written");
    let mut program = program();
    program.arg("export").arg(&db).arg(dir.path().join("out.car")).arg("--cids").arg(&list).arg("--report").arg(&list);
    let output = program.output().expect("run");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the report would replace the list "), "{said}");
    assert_eq!(std::fs::read(&list).expect("it stays"), b"bafkqaaa\n");
}

#[test]
fn values_that_would_end_rocksdb_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    for (set, words) in [
        (["--set", "node.db.table_cache_numshardbits=40"], "it must be 0 to 19"),
        (["--set", "node.cf.num_levels=-1"], "it must be 1 to 64"),
        (["--set", "node.db.max_file_opening_threads=2147483647"], "it must be 1 to 1024"),
        (["--column-family", ""], "a column family has a name"),
    ] {
        let db = dir.path().join("db");
        let output = program().arg("import").arg(&car).arg("--db").arg(&db).args(set).output().expect("run");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{set:?}: {said}");
        assert!(said.contains(words), "{set:?}: {said}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1, "{set:?}: nothing is begun");
    }
}

#[test]
fn a_closed_pipe_is_no_failure_of_an_import() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    for (db, more) in [("text", None), ("json", Some("--json"))] {
        let db = dir.path().join(db);
        let mut command = program();
        command.arg("import").arg(&car).arg("--db").arg(&db).args(["--progress", "off"]).args(more);
        let mut child =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("run");
        drop(child.stdout.take());
        let done = child.wait_with_output().expect("ours");
        assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
        bedload().args(["verify", "--quiet", "--db"]).arg(&db).assert().success();
    }
}

#[test]
fn nothing_is_coloured_without_a_terminal_or_against_the_users_will() {
    let failing = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = program();
        command.args(["stat", "--db", "/nowhere"]).args(args).envs(env.iter().copied());
        String::from_utf8(command.output().expect("run").stderr).expect("text")
    };
    assert!(!failing(&[], &[]).contains('\x1b'));
    assert!(failing(&["--color", "always"], &[]).contains("\x1b[1;31merror:\x1b[0m"));
    // A terminal of its own, from util-linux; without it there is nothing to look at.
    let on_terminal = |env: &str| {
        let line = format!("{env} {} stat --db /nowhere", crate::common::run::BEDLOAD);
        let output = crate::common::run::hermetic("script").args(["-qec", &line, "/dev/null"]).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(coloured) = on_terminal("NO_COLOR= TERM=xterm") else {
        crate::common::skipped("there is no `script` (util-linux) to make a terminal");
        return;
    };
    assert!(coloured.contains("\x1b[1;31merror:"), "{coloured:?}");
    for env in ["NO_COLOR=1 TERM=xterm", "NO_COLOR= TERM=dumb"] {
        let plain = on_terminal(env).expect("it ran before");
        assert!(plain.contains("error: ") && !plain.contains('\x1b'), "{env}: {plain:?}");
    }
}

#[test]
fn make_install_puts_program_completions_and_man_pages_in_their_places() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = crate::common::run::hermetic("make")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["install-files", &format!("PREFIX={}", dir.path().display())])
        .arg(format!("BEDLOAD={}", crate::common::run::BEDLOAD))
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |path: &str| {
        let bytes = std::fs::read(dir.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let version =
        crate::common::run::hermetic(dir.path().join("bin/bedload")).arg("--version").output().expect("it runs");
    assert!(version.stdout.starts_with(b"bedload "));
    assert!(text("share/bash-completion/completions/bedload").contains("complete -F _bedload"));
    assert!(text("share/zsh/site-functions/_bedload").starts_with("#compdef bedload"));
    assert!(text("share/fish/vendor_completions.d/bedload.fish").contains("complete -c bedload"));
    assert!(text("share/man/man1/bedload.1").contains(".TH"));
    for command in COMMANDS.iter().filter(|command| !command.is_empty()) {
        let page = format!("share/man/man1/bedload-{}.1", command.replace(' ', "-"));
        let page = text(&page);
        for section in ["SYNOPSIS", "EXIT STATUS", "FILES", "EXAMPLES"] {
            assert_eq!(
                page.matches(&format!(".SH {section}\n")).count()
                    + page.matches(&format!(".SH \"{section}\"\n")).count(),
                1,
                "{section}\n{page}"
            );
        }
        assert!(!page.contains("EXTRA") && page.contains(&format!("bedload {command}").replace('-', "\\-")), "{page}");
    }
    assert!(Path::new(&dir.path().join("share")).is_dir());
    bedload().arg("--version").assert().success();
}

#[test]
fn a_full_standard_output_is_named_and_no_success_of_any_command() {
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
        for words in ["error: write standard output: No space left on device", "hint: look at the file or device"] {
            assert!(said.contains(words), "{command:?}: {said}");
        }
    }
}

#[test]
fn what_is_no_text_is_a_wrong_command_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "1MiB");
    let preset = dir.path().join("preset.toml");
    std::fs::write(&preset, b"\xff\xfe").expect("written");
    let db = dir.path().join("other");
    let refused = bedload().arg("import").arg(&car).arg("--db").arg(&db).arg("--preset").arg(&preset).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("is no preset: invalid utf-8") && said.contains("hint: a preset is a text file"), "{said}");
    let db = import(dir.path(), &car, &[]);
    let refused = bedload().args(["get", "-", "--db"]).arg(&db).write_stdin(&b"\xff\n"[..]).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("standard input is no text in UTF-8\nhint: give one key a line"), "{said}");
}

#[test]
fn a_dash_is_standard_input_whatever_the_folder_holds() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("-")).expect("made");
    let command = |args: &[&str]| {
        let mut command = crate::common::run::program();
        let output =
            command.args(args).current_dir(dir.path()).write_stdin("PK\x03\x04 and the rest").output().expect("run");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    for args in [&["import", "-", "--db", "db"][..], &["inspect", "-"]] {
        let (code, stderr) = command(args);
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("it is a zip archive"), "{stderr}");
    }
}
