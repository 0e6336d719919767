//! Help, wrong command lines, completions, and what `make install` puts where.

use std::path::Path;

use crate::common::database::bedload;
use crate::common::run::bedload as program;

/// The most lines of `-h`, and of `--help`, which for `import` has more; and columns.
const SCREEN: usize = 55;
const LONG: usize = 64;
const COLUMNS: usize = 100;

const COMMANDS: [&str; 22] = [
    "",
    "import",
    "inspect",
    "verify",
    "walk",
    "get",
    "stat",
    "export",
    "bundle",
    "seed",
    "clean",
    "generate",
    "presets",
    "presets list",
    "presets show",
    "presets explain",
    "presets diff",
    "bench",
    "doctor",
    "help",
    "completions",
    "man",
];

#[test]
fn help_is_short_and_has_an_example() {
    let mut all = String::new();
    for command in COMMANDS {
        let help = |flag: &str| {
            let output = program().args(command.split_whitespace()).arg(flag).output().expect("run");
            assert!(output.status.success(), "{command}");
            String::from_utf8(output.stdout).expect("text")
        };
        let (text, short) = (help("--help"), help("-h"));
        let lines = [&short, &text].map(|help| help.lines().count());
        assert!(lines[0] <= SCREEN && (lines[1] <= LONG || command == "import"), "{command}: {lines:?} lines");
        let all_options = options(&text);
        assert!(options(&short).iter().all(|option| all_options.contains(option)), "{command}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{command}: a line is too long");
        let example = text.lines().rev().find_map(|line| line.strip_prefix("Example: bedload ")).unwrap_or_default();
        assert!(example.starts_with(command) || command.is_empty() || command == "presets", "{command}: {example}");
        all.push_str(&format!("$ bedload {command} --help\n{text}\n"));
        if command == "import" {
            all.push_str(&format!("$ bedload {command} -h\n{short}\n"));
        }
    }
    // `INSTA_UPDATE=always cargo test --release --test cli command_line` writes it anew.
    insta::assert_snapshot!(all);
}

/// The options that a help lists.
fn options(help: &str) -> Vec<&str> {
    help.split_whitespace().filter(|word| word.starts_with("--")).collect()
}

#[test]
fn import_help_is_short_or_grouped() {
    let help = |flag: &str| {
        let output = program().args(["import", flag]).output().expect("run");
        String::from_utf8(output.stdout).expect("text")
    };
    let is_option = |line: &&str| line.starts_with("      --") || (line.starts_with("  -") && line.contains(", --"));
    let (short, long) = (help("-h"), help("--help"));
    let listed: Vec<&str> = short.lines().skip_while(|line| *line != "Where:").filter(is_option).collect();
    assert!(listed.len() <= 15, "{}: {short}", listed.len());
    // One line each: whatever is neither a heading nor an option is the text at the end.
    let body = short.lines().skip_while(|line| *line != "Where:").take_while(|line| !line.starts_with('`'));
    assert!(body.clone().all(|line| line.is_empty() || line.ends_with(':') || is_option(&line)), "{short}");
    for heading in ["Where", "Memory", "RocksDB", "CARs", "Block logs", "Network", "Bundles and shards", "Output"] {
        assert_eq!(long.lines().filter(|line| *line == format!("{heading}:")).count(), 1, "{heading}: {long}");
    }
    let page = tempfile::tempdir().expect("a directory");
    bedload().arg("man").arg(page.path()).assert().success();
    let page = std::fs::read_to_string(page.path().join("bedload-import.1")).expect("a page").replace('\\', "");
    for named_by_errors in ["concatenated", "max-block-size", "null-padding", "tail", "unknown-operations"] {
        let option = format!("--{named_by_errors}");
        assert!(!long.contains(&format!("{option} ")) && page.contains(&option), "{option}");
    }
    for listed in ["--work-dir", "--shard", "--endpoint", "--metrics", "--dictionaries", "--indexes"] {
        assert!(long.contains(listed) && !short.contains(listed) && page.contains(listed), "{listed}");
    }
}

#[test]
fn every_command_has_a_help_snapshot() {
    let output = program().arg("--help").output().expect("run");
    let text = String::from_utf8(output.stdout).expect("text");
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed.filter(|line| !line.starts_with("    ")) {
        let name = line.split_whitespace().next().expect("a name");
        assert!(COMMANDS.contains(&name), "{name} has no golden help");
    }
}

#[test]
fn usage_error_has_error_and_hint() {
    let output = program().args(["import", "a.car", "--db", "d", "--memry", "1G", "--json"]).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let (error, hint) = ("unexpected argument '--memry' found", "a similar argument exists: '--memory'");
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("error: {error}\nhint: {hint}\n"));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let expected = serde_json::json!({ "schema": "bedload-error-1", "error": error, "hint": hint, "exit": 2 });
    assert_eq!(document, expected);
}

#[test]
fn help_command_equals_the_help_flag() {
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
    let dir = tempfile::tempdir().expect("a directory");
    for (command, option, begun, expected) in [
        ("import", "--preset", "ingest-c", "ingest-compat"),
        ("import", "--set", "node.table.block_siz", "node.table.block_size="),
        ("seed", "--preset", "ingest-c", "ingest-compat"),
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
        // It is longer than an argument may be.
        let file = dir.path().join("completions");
        std::fs::write(&file, format!("{script}\n{words}")).expect("room");
        let output = crate::common::run::hermetic("bash").arg(&file).output();
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
    // Completions are only suggestions: a file is accepted as well.
    bedload().args(["presets", "show", "/nowhere/mine.toml"]).assert().code(1);
}

#[test]
fn missing_arguments_print_help_and_fail() {
    let output = program().output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: bedload"));
}

#[test]
fn make_install_installs_every_file() {
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
    let unit = text("lib/systemd/system/bedload-import@.service");
    assert!(unit.contains(&format!("ExecStart={}/bin/bedload import ", dir.path().display())), "{unit}");
    assert!(text("lib/sysusers.d/bedload.conf").starts_with("u bedload "));
    assert!(text("share/doc/bedload/examples/import.env").contains("SOURCE="));
    bedload().arg("--version").assert().success();
}
