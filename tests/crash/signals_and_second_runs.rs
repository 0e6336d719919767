//! Signals that stop an import, and a second import into the same place.

use std::time::Duration;

use crate::common::crash::*;
use crate::common::run::Place;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_second_import_into_the_same_place_is_refused_while_the_first_lives() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::Pipe);
    let (mut first, stdin) = case.start_stalled(&plain().bytes[..3 << 20]);
    wait_for(|| case.partial().join("journal").exists());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    case.is_refused(&["another import is working on it", &format!("process {} on {host}", first.id())]);
    case.clone().arg(&["--restart"]).is_refused(&["another import is working on it"]);
    first.kill().expect("killed");
    drop(stdin);
    assert_eq!(ended(first).signal, Some(9));
    // Its lock is still there, and no process holds it.
    assert!(case.partial().join("lock").exists());
    case.finishes();
}

#[track_caller]
fn wait_for(what: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !what() {
        assert!(started.elapsed() < Duration::from_secs(20), "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tell(child: &std::process::Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it lives");
}

#[test]
fn the_first_signal_stops_within_two_seconds_and_the_same_command_goes_on() {
    let place = Place::in_memory();
    for (way, from, signal) in [
        (Way::Spill, From::Pipe, Signal::INT),
        (Way::Spill, From::File, Signal::TERM),
        (Way::Memory, From::Pipe, Signal::TERM),
        (Way::Memory, From::File, Signal::INT),
        (Way::Memtables, From::File, Signal::INT),
        (Way::Memtables, From::Pipe, Signal::INT),
        (Way::Ranges, From::Pipe, Signal::INT),
        (Way::Ranges, From::File, Signal::TERM),
        (Way::Batches, From::File, Signal::INT),
        (Way::Batches, From::Pipe, Signal::TERM),
    ] {
        let snapshot = if matches!(way, Way::Ranges | Way::Batches) { log() } else { plain() };
        let case = Case::new(&place.path(""), snapshot, way, from);
        // A pipe that brings nothing more is the longest wait there is.
        let (child, stdin) = match from {
            From::Pipe => {
                let (child, stdin) = case.start_stalled(&snapshot.bytes[..3 << 20]);
                (child, Some(stdin))
            }
            From::File | From::Stdin => (case.start(), None),
        };
        wait_for(|| case.partial().join("journal").exists() || case.db.exists());
        tell(&child, signal);
        let ended = ended(child);
        drop(stdin);
        assert!(ended.took < Duration::from_millis(2500), "{way:?} {from:?}: {:?}", ended.took);
        if ended.code == Some(0) && from == From::File {
            // It was done before it heard.
            case.has_finished(&ended);
        } else {
            assert_eq!(ended.code, Some(130), "{way:?} {from:?}: {ended:?}");
            let before = ["start", "routed", "hashed", "held", "opened"];
            let is_durable = !matches!(way, Way::Memtables | Way::Batches)
                && case.journal().iter().any(|line| !before.iter().any(|name| line["entry"] == *name));
            let hint = match is_durable {
                true => "hint: run the same command again: it resumes ",
                false => "hint: nothing is durable yet: the same command starts from the beginning\n",
            };
            assert!(is_durable || way != Way::Spill || from != From::Pipe, "a checkpoint is missing");
            ended.says(&["error: interrupted\n", hint]);
            case.nothing_under_the_name("a signal");
            case.finishes();
        }
        case.again();
    }
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::Pipe);
    let (child, stdin) = case.start_stalled(&plain().bytes[..3 << 20]);
    wait_for(|| case.partial().join("journal").exists());
    tell(&child, Signal::INT);
    // Two signals at the same time are one.
    std::thread::sleep(Duration::from_millis(300));
    tell(&child, Signal::INT);
    let ended = ended(child);
    drop(stdin);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.took < Duration::from_secs(1), "{:?}", ended.took);
    case.finishes();
}

#[test]
fn a_killed_generate_leaves_no_file() {
    let place = Place::in_memory();
    let out = place.path("out.car");
    let mut command = crate::common::run::bedload();
    command.arg("generate").arg(&out).args(["--size", "2GiB", "--progress", "off"]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("a child").is_none(), "it has ended");
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert_eq!(list(&place.path("")), [] as [std::path::PathBuf; 0], "a file is left");
}

/// Waits until a process handles a signal: it is up to its work then.
fn wait_until_handled(child: &std::process::Child, signal: Signal) {
    let status = format!("/proc/{}/status", child.id());
    wait_for(|| {
        let status = std::fs::read_to_string(&status).expect("it lives");
        let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a field");
        let handled = u64::from_str_radix(handled.trim(), 16).expect("hex digits");
        handled & 1 << (signal.as_raw() - 1) != 0
    });
}

/// Starts a command that takes long, sends it a signal once it works, and returns its code and what it said.
fn stopped_by(mut command: std::process::Command, signal: Signal) -> (Option<i32>, String) {
    use std::io::Read;
    let mut child = command
        .args(["--progress", "off"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_until_handled(&child, signal);
    assert!(child.try_wait().expect("a child").is_none(), "it has ended");
    tell(&child, signal);
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    (child.wait().expect("it ends").code(), said)
}

#[test]
fn every_signal_that_ends_a_program_stops_generate_and_leaves_nothing() {
    let place = Place::in_memory();
    let out = place.path("out.car");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mut command = crate::common::run::bedload();
        // In memory: what a signal does not stop must end before the memory does.
        command.arg("generate").arg(&out).args(["--size", "4GiB"]);
        let (code, said) = stopped_by(command, signal);
        let expected = "error: interrupted\nhint: no file was written under that name; run it again\n";
        assert_eq!((code, said.contains(expected)), (Some(130), true), "{signal:?}: {said}");
        assert_eq!(list(&place.path("")), [] as [std::path::PathBuf; 0], "{signal:?}: a file is left");
    }
}

#[test]
fn a_hangup_does_not_end_what_nohup_has_started() {
    let mut command = crate::common::run::hermetic("nohup");
    command.arg(crate::common::run::BEDLOAD).args(["generate", "--size", "100GiB", "-"]);
    let mut child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().expect("runs");
    wait_until_handled(&child, Signal::INT);
    tell(&child, Signal::HUP);
    std::thread::sleep(Duration::from_secs(1));
    let lives = child.try_wait().expect("a child").is_none();
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert!(lives, "it ended");
}
