//! Help, completions, and what `make install` puts where.

use crate::cli::{ends, run, shell};
use crate::common::run::{BEDLOAD, Place, hermetic};

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
        let (text, short) = (help(command, "--help"), help(command, "-h"));
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
    let text = help("", "--help");
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed.filter(|line| !line.starts_with("    ")) {
        assert!(COMMANDS.contains(&line.split_whitespace().next().expect("a name")), "no help of {line} was read");
    }
    // `INSTA_UPDATE=always cargo test --release --test all cli::help` writes it anew.
    insta::assert_snapshot!(all);
}

/// The help of a command.
#[track_caller]
fn help(command: &str, flag: &str) -> String {
    ends(&Place::in_memory(), &format!("{command} {flag}"), 0, "").stdout
}

/// The options that a help lists.
fn options(help: &str) -> Vec<&str> {
    help.split_whitespace().filter(|word| word.starts_with("--")).collect()
}

#[test]
fn import_help_is_short_or_grouped() {
    let is_option = |line: &&str| line.starts_with("      --") || (line.starts_with("  -") && line.contains(", --"));
    let (short, long) = (help("import", "-h"), help("import", "--help"));
    let listed: Vec<&str> = short.lines().skip_while(|line| *line != "Target:").filter(is_option).collect();
    assert!(listed.len() <= 15, "{}: {short}", listed.len());
    // One line each: whatever is neither a heading nor an option is the text at the end.
    let body = short.lines().skip_while(|line| *line != "Target:").take_while(|line| !line.starts_with("The man page"));
    assert!(body.clone().all(|line| line.is_empty() || line.ends_with(':') || is_option(&line)), "{short}");
    for heading in ["Target", "Memory", "RocksDB", "CARs", "Block logs", "Network", "Bundles and shards", "Output"] {
        assert_eq!(long.lines().filter(|line| *line == format!("{heading}:")).count(), 1, "{heading}: {long}");
    }
    let place = Place::in_memory();
    ends(&place, "man .", 0, "");
    let page = std::fs::read_to_string(place.path("bedload-import.1")).expect("a page").replace('\\', "");
    for named_by_errors in ["concatenated", "max-block-size", "null-padding", "tail", "unknown-operations"] {
        let option = format!("--{named_by_errors}");
        assert!(!long.contains(&format!("{option} ")) && page.contains(&option), "{option}");
    }
    for listed in ["--work-dir", "--shard", "--endpoint", "--metrics", "--dictionaries", "--indexes"] {
        assert!(long.contains(listed) && !short.contains(listed) && page.contains(listed), "{listed}");
    }
}

#[test]
fn help_command_equals_the_help_flag() {
    for command in COMMANDS.iter().filter(|command| !command.is_empty()) {
        assert_eq!(help("help", command), help(command, "--help"), "{command}");
    }
    for (words, hint) in [
        ("imprt", "did you mean import?"),
        ("im", "did you mean import?"),
        ("in", "did you mean inspect?"),
        ("ge", "did you mean get or generate?"),
        ("presets expl", "did you mean explain?"),
        ("presets frobnicate", "bedload presets --help lists the commands"),
        ("frobnicate", "bedload --help lists the commands"),
    ] {
        let said = ends(&Place::in_memory(), &format!("help {words}"), 2, "").stderr;
        let unknown = words.split(' ').next_back().expect("a word");
        assert_eq!(said, format!("error: there is no command `{unknown}`\nhint: {hint}\n"));
    }
}

#[test]
fn bash_completes_values_of_options() {
    let place = Place::in_memory();
    let script = run(&place, "completions bash").stdout;
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
        place.file("completions", format!("{script}\n{words}").as_bytes());
        let offered = shell(&place.path(""), "bash completions").stdout;
        let offered: Vec<&str> = offered.lines().collect();
        assert!(offered.contains(&expected), "{command} {option} {begun}: {offered:?}");
        assert!(offered.iter().all(|word| word.starts_with(begun)), "{command} {option} {begun}: {offered:?}");
    }
}

#[test]
fn completions_offer_presets_and_options() {
    let place = Place::in_memory();
    for shell in ["bash", "zsh", "fish"] {
        let text = run(&place, &format!("completions {shell}")).stdout;
        let options = ["node.table.block_size=", "load.cf.write_buffer_size=", "load.write.batch_bytes="];
        for word in ["memtable", "ingest-compat"].into_iter().chain(options) {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    // Completions are only suggestions: a file is accepted as well.
    ends(&place, "presets show /nowhere/mine.toml", 3, "");
}

#[test]
fn make_install_installs_every_file() {
    let place = Place::in_memory();
    let prefix = place.path("usr");
    let mut make = hermetic("make");
    make.current_dir(env!("CARGO_MANIFEST_DIR")).args(["install-files", &format!("PREFIX={}", prefix.display())]);
    let made = super::output(make.arg(format!("BEDLOAD={BEDLOAD}")).env_remove("MAKEFLAGS"));
    assert_eq!(made.code, Some(0), "{made:?}");
    let text = |path: &str| {
        let bytes = std::fs::read(prefix.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let version = super::output(hermetic(prefix.join("bin/bedload")).arg("--version"));
    assert!(version.stdout.starts_with("bedload "));
    assert!(text("share/bash-completion/completions/bedload").contains("complete -F _bedload"));
    assert!(text("share/zsh/site-functions/_bedload").starts_with("#compdef bedload"));
    assert!(text("share/fish/vendor_completions.d/bedload.fish").contains("complete -c bedload"));
    assert!(text("share/man/man1/bedload.1").contains(".TH"));
    for command in COMMANDS.iter().filter(|command| !command.is_empty()) {
        let page = format!("share/man/man1/bedload-{}.1", command.replace(' ', "-"));
        let page = text(&page);
        for section in ["SYNOPSIS", "EXIT STATUS", "FILES", "EXAMPLES"] {
            let headings = [format!(".SH {section}\n"), format!(".SH \"{section}\"\n")];
            let found = headings.iter().map(|heading| page.matches(heading).count()).sum::<usize>();
            assert_eq!(found, 1, "{section}\n{page}");
        }
        assert!(!page.contains("EXTRA") && page.contains(&format!("bedload {command}").replace('-', "\\-")), "{page}");
    }
    let unit = text("lib/systemd/system/bedload-import@.service");
    assert!(unit.contains(&format!("ExecStart={}/bin/bedload import ", prefix.display())), "{unit}");
    assert!(text("lib/sysusers.d/bedload.conf").starts_with("u bedload "));
    assert!(text("share/doc/bedload/examples/import.env").contains("SOURCE="));
}
