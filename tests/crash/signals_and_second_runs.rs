//! Signals that stop an import, and a second import into the same place.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::crash::*;
use crate::common::run::{BEDLOAD, Place, bedload, hermetic};
use rustix::process::Signal;

#[test]
fn second_import_is_refused_during_the_first() {
    let case = Case::of(plain(), Way::Spill, From::Pipe);
    let (mut first, stdin) = case.start_stalled(&plain().bytes[..3 << 19]);
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

#[test]
fn first_signal_stops_an_import_that_resumes() {
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
        let what = format!("{way:?} {from:?}");
        let snapshot = if matches!(way, Way::Ranges | Way::Batches) { log() } else { plain() };
        let case = Case::of(snapshot, way, from);
        // A pipe that brings nothing more is the longest wait there is.
        let stalled = (from == From::Pipe).then(|| case.start_stalled(&snapshot.bytes[..3 << 19]));
        let (child, stdin) = stalled.map_or_else(|| (case.start(), None), |(child, stdin)| (child, Some(stdin)));
        wait_for(|| case.partial().join("journal").exists() || case.db.exists());
        send(&child, signal);
        let ended = ended(child);
        drop(stdin);
        assert!(ended.took < Duration::from_millis(2500), "{what}: {:?}", ended.took);
        if ended.code == Some(0) && from == From::File {
            // It was done before the signal.
            case.has_finished(&ended);
        } else {
            let before = ["start", "routed", "hashed", "held", "opened"];
            let is_durable = !matches!(way, Way::Memtables | Way::Batches)
                && case.journal().iter().any(|line| !before.iter().any(|name| line["entry"] == *name));
            let hint = match is_durable {
                true => "hint: run the same command again: it resumes ",
                false => "hint: no checkpoint yet: the same command starts from the beginning\n",
            };
            assert!(is_durable || way != Way::Spill || from != From::Pipe, "{what}: a checkpoint is missing");
            ended.failed(130, &what, &["error: interrupted\n", hint]);
            case.nothing_under_the_name(&what);
            case.finishes();
        }
    }
}

#[test]
fn second_signal_ends_the_import_at_once() {
    let case = Case::of(plain(), Way::Spill, From::Pipe);
    let (child, stdin) = case.start_stalled(&plain().bytes[..3 << 19]);
    wait_for(|| case.partial().join("journal").exists());
    send(&child, Signal::INT);
    // Two signals at the same time are one.
    std::thread::sleep(Duration::from_millis(300));
    send(&child, Signal::INT);
    let ended = ended(child);
    drop(stdin);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.took < Duration::from_secs(1), "{:?}", ended.took);
    case.finishes();
}

/// Starts a command that takes long, and sends it a signal once it handles signals of this kind.
fn signalled(mut command: Command, handled: Signal, signal: Signal) -> Child {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let status = format!("/proc/{}/status", child.id());
    wait_for(|| {
        let status = std::fs::read_to_string(&status).expect("it lives");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a field");
        let mask = u64::from_str_radix(mask.trim(), 16).expect("hex digits");
        mask & 1 << (handled.as_raw() - 1) != 0
    });
    assert!(child.try_wait().expect("a child").is_none(), "it has ended");
    send(&child, signal);
    child
}

#[test]
fn signalled_generate_leaves_no_file() {
    let place = Place::in_memory();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::KILL] {
        let is_kill = signal == Signal::KILL;
        let mut command = bedload();
        // In memory: what a signal does not stop must end before the memory does.
        command.arg("generate").arg(place.path("out.car")).args(["--size", "4GiB", "--progress", "off"]);
        let mut child = signalled(command, if is_kill { Signal::INT } else { signal }, signal);
        let mut said = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        let code = child.wait().expect("it ends").code();
        if !is_kill {
            let expected = "error: interrupted\nhint: no file was written under that name; run it again\n";
            assert_eq!((code, said.contains(expected)), (Some(130), true), "{signal:?}: {said}");
        }
        assert!(list(&place.path("")).is_empty(), "{signal:?}: a file is left");
    }
}

#[test]
fn hangup_does_not_end_nohup() {
    let mut command = hermetic("nohup");
    command.arg(BEDLOAD).args(["generate", "--size", "100GiB", "--progress", "off", "-"]);
    let mut child = signalled(command, Signal::INT, Signal::HUP);
    std::thread::sleep(Duration::from_secs(1));
    let lives = child.try_wait().expect("a child").is_none();
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert!(lives, "it ended");
}
