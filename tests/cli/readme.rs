//! The README's own commands, one after another in an empty folder.

use crate::cli::shell;
use crate::common::run::Place;

/// Commands that are not run, and why.
const LEFT_OUT: [(&str, &str); 1] = [("make install", "it builds the program and writes into the user's home")];

/// Added to each `bench`, which would run for minutes.
const SHORT: &str = " --runs 1 --budget 1s";

/// The commands of the README's consoles that begin with `bedload` or are left out, without their comments.
fn commands(readme: &str) -> Vec<String> {
    let consoles = readme.split("```console\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = consoles.flat_map(str::lines).map(|line| line.trim_start_matches("$ "));
    let ours = lines.filter(|line| line.starts_with("bedload ") || line.starts_with("make install"));
    ours.map(|line| line.split(" # ").next().unwrap_or(line).trim().to_owned()).collect()
}

#[test]
fn readme_commands_run_in_order() {
    let place = Place::in_memory();
    let commands = commands(include_str!("../../README.md"));
    assert!(commands.len() > 20, "{commands:#?}");
    for (prefix, _) in LEFT_OUT {
        assert!(commands.iter().any(|command| command.starts_with(prefix)), "{prefix} is not in the README any more");
    }
    for command in commands.iter().filter(|command| LEFT_OUT.iter().all(|(prefix, _)| !command.starts_with(prefix))) {
        // Small sizes: the test shows that the commands fit together.
        let short = if command.starts_with("bedload bench") { SHORT } else { "" };
        let ended = shell(&place.path(""), &(command.replace("256MiB", "2MiB") + short));
        assert_eq!(ended.code, Some(0), "{command}: {ended:?}");
        assert!(!ended.stdout.is_empty(), "{command} says nothing");
    }
    for made in ["back.forest.car.zst", "blocks/BEDLOAD.json"] {
        assert!(place.path(made).exists(), "{made}");
    }
    let read = |name: &str| std::fs::read(place.path(name)).expect("a log");
    assert!(read("block_log") == read("back.log"), "not the same log");
}
