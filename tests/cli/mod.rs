//! The command line: help, terminals, pipes, presets.

mod clean;
mod command_line;
mod damaged_texts;
mod escaped_text;
mod help;
mod import_arguments;
mod monitoring;
mod paths;
mod presets;
mod readme;
mod refused_readers;
mod reports;
mod signals;
mod sources_and_databases;
mod terminal_output;

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::common::database::{generate, import};
use crate::common::run::{Place, bedload};
use serde_json::Value;

/// A folder with a generated `snapshot.car`.
fn with_snapshot(size: &str) -> Place {
    let place = Place::in_memory();
    generate(&place.path(""), size);
    place
}

/// A folder with a generated `snapshot.car` and its database `db`.
fn with_database(size: &str) -> Place {
    let place = with_snapshot(size);
    import(&place.path(""), &place.path("snapshot.car"), &[]);
    place
}

/// The program in a folder. The arguments are the words of `line`.
fn command(place: &Place, line: &str) -> Command {
    let mut command = bedload();
    command.current_dir(place.path("")).args(line.split_whitespace());
    command
}

/// A program that has ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not one JSON document, {error}: {self:?}"))
    }

    /// The last line of `hint:`.
    #[track_caller]
    fn hint(&self) -> &str {
        self.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_else(|| panic!("no hint: {self:?}"))
    }
}

/// Runs a command to its end.
#[track_caller]
fn output(command: &mut Command) -> Ended {
    let output = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs the program in a folder with the arguments of `line`.
#[track_caller]
fn run(place: &Place, line: &str) -> Ended {
    output(&mut command(place, line))
}

/// Runs the program, and expects an exit code and words on standard error.
#[track_caller]
fn ends(place: &Place, line: &str, code: i32, words: &str) -> Ended {
    let ended = run(place, line);
    assert_eq!(ended.code, Some(code), "{line}: {ended:?}");
    assert!(ended.stderr.contains(words), "{line}: `{words}` is not in {ended:?}");
    ended
}

/// Runs a line of bash, in which `bedload` is the program.
#[track_caller]
fn shell(dir: &Path, line: &str) -> Ended {
    let bin = Path::new(crate::common::run::BEDLOAD).parent().expect("a directory").display();
    let line = format!("set -o pipefail; PATH={bin}:$PATH; {line}");
    output(crate::common::run::hermetic("bash").args(["-c", &line]).current_dir(dir))
}

/// Starts a command on a pipe that brings `bytes` and then nothing.
fn stalled(command: &mut Command, bytes: &[u8]) -> (Child, ChildStdin) {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(bytes).expect("it reads");
    (child, pipe)
}

/// The names in a folder, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
