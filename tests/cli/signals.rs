//! A signal stops every long command with exit code 130 and a hint on how to resume.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cli::{command, with_database};
use crate::common::crash::send;

/// Input or output that keeps a command running until the signal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Long {
    /// Standard input brings the beginning of a snapshot, and then nothing.
    Snapshot,
    /// Standard input brings one key, and then nothing.
    Key,
    /// Nobody reads standard output.
    Output,
    /// There is much to do.
    Work,
}

#[test]
fn signal_stops_every_command_with_a_hint() {
    let place = with_database("96MiB");
    let whole = std::fs::read(place.path("snapshot.car")).expect("read");
    let beginning = &whole[..64 << 10];
    let again = "again";
    for (line, long, hint) in [
        ("import - --db new", Long::Snapshot, "no checkpoint yet: the same command starts"),
        ("import - --bundle there", Long::Snapshot, "no checkpoint yet: the same command starts"),
        ("inspect - --full", Long::Snapshot, again),
        ("get db -", Long::Key, "run it again"),
        ("export db - --all", Long::Output, ""),
        ("generate - --size 10GiB", Long::Output, "run it again"),
        ("inspect snapshot.car --list", Long::Output, again),
        ("verify db --threads 1", Long::Work, "run it again"),
        ("walk db --threads 1", Long::Work, again),
        ("stat db --digest --threads 1", Long::Work, again),
        ("bundle db --to place", Long::Work, again),
        ("export db new.car --all --threads 1", Long::Work, ""),
        ("doctor snapshot.car --dir .", Long::Work, "run the same command again"),
        ("bench snapshot.car --presets ingest --runs 30", Long::Work, "to resume"),
    ] {
        let mut command = command(&place, line);
        command.args(["--progress", if long == Long::Work { "json" } else { "off" }]);
        let bytes = match long {
            Long::Snapshot => beginning,
            Long::Key => b"bafkqaaa\n",
            Long::Output | Long::Work => &[][..],
        };
        let input = if !bytes.is_empty() { Stdio::piped() } else { Stdio::null() };
        let output = if long == Long::Output { Stdio::piped() } else { Stdio::null() };
        let mut child = command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut pipe = child.stdin.take();
        if let Some(pipe) = &mut pipe {
            pipe.write_all(bytes).expect("it reads");
        }
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        match long {
            Long::Work => drop(errors.read_line(&mut said).expect("text")),
            _ => std::thread::sleep(Duration::from_millis(250)),
        }
        assert!(child.try_wait().expect("a child").is_none(), "{line}: it has ended");
        send(&child, rustix::process::Signal::TERM);
        let signalled = Instant::now();
        errors.read_to_string(&mut said).expect("text");
        let code = child.wait().expect("it ends").code();
        let took = signalled.elapsed();
        assert_eq!(code, Some(130), "{line}: {said}");
        assert!(took < Duration::from_secs(4), "{line}: {took:?}");
        let last: Vec<&str> = said.lines().rev().take(2).collect();
        assert_eq!(last[1], "error: interrupted", "{line}: {said}");
        assert!(last[0].starts_with("hint: ") && last[0].contains(hint), "{line}: {}", last[0]);
        drop(pipe);
    }
}
