//! The README's own commands, one after another in an empty folder.

use crate::common::run::{BEDLOAD, hermetic};

/// Commands that are not run, and why.
const LEFT_OUT: [(&str, &str); 2] = [
    ("make install", "it builds the program and writes into the user's home"),
    ("bedload bench", "it imports with every preset for minutes"),
];

/// The commands of the README's consoles that begin with `bedload` or are left out, without their comments.
fn commands(readme: &str) -> Vec<String> {
    let consoles = readme.split("```console\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = consoles.flat_map(str::lines).map(|line| line.trim_start_matches("$ "));
    let ours = lines.filter(|line| line.starts_with("bedload ") || line.starts_with("make install"));
    ours.map(|line| line.split(" # ").next().unwrap_or(line).trim().to_owned()).collect()
}

#[test]
fn readme_commands_run_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let commands = commands(include_str!("../../README.md"));
    assert!(commands.len() > 20, "{commands:#?}");
    for (prefix, _) in LEFT_OUT {
        assert!(commands.iter().any(|command| command.starts_with(prefix)), "{prefix} is not in the README any more");
    }
    for command in commands.iter().filter(|command| LEFT_OUT.iter().all(|(prefix, _)| !command.starts_with(prefix))) {
        // Small sizes: what is held is that the commands fit together.
        let small = command.replace("256MiB", "2MiB").replace("4GiB", "2MiB");
        let line = small.replacen("bedload", BEDLOAD, 1);
        let output = hermetic("bash").args(["-c", &line]).current_dir(dir.path()).output().expect("run");
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{command}\n{stdout}\n{stderr}");
        assert!(!stdout.is_empty(), "{command} says nothing");
    }
    let left = |name: &str| dir.path().join(name).exists();
    assert!(left("back.forest.car.zst") && left("blocks/BEDLOAD.json") && left("back.log"));
    let (log, back) = (dir.path().join("block_log"), dir.path().join("back.log"));
    assert!(std::fs::read(log).expect("read") == std::fs::read(back).expect("read"), "not the same log");
}
