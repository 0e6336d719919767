//! Monitoring of a command: the file of `--metrics`, systemd's `sd_notify`, and `--log-format json`.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, ChildStdin};
use std::time::Duration;

use crate::cli::{command, ends, names, output, run, stalled, with_database, with_snapshot};
use crate::common::crash::{send, wait_for, wait_for_some};
use crate::common::run::Place;
use serde_json::Value;

/// The value of a metric; `labels` are those after the name of the file.
fn metric(text: &str, name: &str, labels: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(&format!("bedload_{name}{{")) && line.contains(labels))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Starts an import into `stalled` from a pipe that brings the first half of `source` and then nothing.
fn half(place: &Place, source: &str, more: &str, environment: &[(&str, &str)]) -> (Child, ChildStdin) {
    let bytes = std::fs::read(place.path(source)).expect("read");
    let line = format!("import - --db stalled {more}");
    stalled(command(place, &line).envs(environment.iter().copied()), &bytes[..bytes.len() / 2])
}

/// Terminates a program whose pipe is still open.
fn stop((child, pipe): (Child, ChildStdin)) -> (Option<i32>, String) {
    send(&child, rustix::process::Signal::TERM);
    let output = child.wait_with_output().expect("it ends");
    drop(pipe);
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

/// The file of metrics of a running import, as soon as `is_there`.
fn metrics(place: &Place, is_there: impl Fn(&str) -> bool) -> String {
    wait_for_some(|| std::fs::read_to_string(place.path("a.prom")).ok().filter(|text| is_there(text)))
}

#[test]
fn metrics_file_shows_the_exit_code() {
    let place = with_snapshot("2MiB");
    let file = place.path("main net.prom");
    let import = || {
        let mut command = command(&place, "import snapshot.car --db db --quiet --metrics");
        let code = output(command.arg(&file)).code;
        (code, std::fs::read_to_string(&file).expect("the file"))
    };
    let (code, text) = import();
    assert_eq!(code, Some(0), "{text}");
    let size = place.path("snapshot.car").metadata().expect("there").len() as f64;
    assert_eq!(metric(&text, "phase_bytes", "{name=\"main net\",phase=\"read\"}"), Some(size), "{text}");
    assert_eq!((metric(&text, "running", ""), metric(&text, "exit_code", "")), (Some(0.0), Some(0.0)), "{text}");
    assert!(metric(&text, "info", "command=\"import\"") == Some(1.0), "{text}");
    assert!(metric(&text, "end_time_seconds", "") >= metric(&text, "start_time_seconds", ""), "{text}");
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o644);
    let (code, text) = import();
    assert_eq!((code, metric(&text, "exit_code", "")), (Some(4), Some(4.0)), "{text}");
    assert_eq!(names(&place.path("")), ["db", "main net.prom", "snapshot.car"]);
}

#[test]
fn metrics_and_log_show_a_stopped_import() {
    let place = with_snapshot("4MiB");
    let running = half(&place, "snapshot.car", "--metrics a.prom --log-format json", &[]);
    let text = metrics(&place, |text| metric(text, "phase_bytes", "phase=\"read\"") > Some(0.0));
    assert_eq!((metric(&text, "running", ""), metric(&text, "exit_code", "")), (Some(1.0), None), "{text}");
    assert_eq!(metric(&text, "phase_active", "phase=\"read\""), Some(1.0), "{text}");
    assert!(metric(&text, "resident_memory_bytes", "") > Some(1e6), "{text}");
    let (code, said) = stop(running);
    let text = metrics(&place, |_| true);
    assert_eq!((code, metric(&text, "exit_code", "")), (Some(130), Some(130.0)), "{said}{text}");
    let log = lines(&said);
    let last = log.last().expect("a line");
    assert_eq!((&last["message"], &last["exit"]), (&"interrupted".into(), &130.into()), "{said}");
    assert_eq!(last["hint"], "no checkpoint yet: the same command starts from the beginning");
}

/// The bug: the progress of a block log from a pipe stood still until a whole range of up to 64 MiB was read.
#[test]
fn piped_log_reports_progress_inside_a_range() {
    let place = Place::in_memory();
    ends(&place, "generate block_log --profile steem --size 16MiB -q", 0, "");
    let running = half(&place, "block_log", "--metrics a.prom --progress off", &[]);
    metrics(&place, |text| metric(text, "phase_bytes", "phase=\"read\"") >= Some(6e6));
    stop(running);
}

#[test]
fn unusable_metrics_file_is_refused() {
    let place = with_snapshot("1MiB");
    place.file("other.prom", b"other 1\n");
    std::fs::create_dir(place.path("dir.prom")).expect("made");
    for (path, words) in [
        ("none/a.prom", "the metrics cannot be written: "),
        ("other.prom", "which has no metrics of bedload"),
        ("dir.prom", "which is not a regular file"),
    ] {
        ends(&place, &format!("import snapshot.car --db db --metrics {path}"), 2, words);
        assert_eq!(std::fs::read(place.path("other.prom")).expect("read"), b"other 1\n");
        assert!(!place.path("db").exists() && !place.path("db.partial").exists(), "{path}");
    }
}

#[test]
fn lost_metrics_file_is_warned_of_once() {
    let place = with_snapshot("4MiB");
    std::fs::create_dir(place.path("text")).expect("made");
    let (child, mut pipe) = half(&place, "snapshot.car", "--metrics text/a.prom --progress off", &[]);
    wait_for(|| place.path("stalled.partial").exists());
    std::fs::remove_dir_all(place.path("text")).expect("removed");
    // At least two writes fail.
    std::thread::sleep(Duration::from_millis(2500));
    let bytes = std::fs::read(place.path("snapshot.car")).expect("read");
    pipe.write_all(&bytes[bytes.len() / 2..]).expect("it reads");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("warning: the metrics are not up to date: ").count(), 1, "{said}");
}

/// The next message to systemd.
fn next(listener: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = listener.recv(&mut buffer).expect("a message");
    String::from_utf8(buffer[..length].to_vec()).expect("text")
}

#[test]
fn systemd_is_notified_of_each_state() {
    let place = with_snapshot("4MiB");
    let address = place.path("notify").display().to_string();
    let listener = UnixDatagram::bind(&address).expect("bound");
    listener.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let environment = [("NOTIFY_SOCKET", &*address), ("WATCHDOG_USEC", "400000")];
    let running = half(&place, "snapshot.car", "--progress off", &environment);
    assert_eq!(next(&listener), "READY=1\n", "it comes first");
    let (mut alive, mut status) = (0, String::new());
    while alive < 3 || !status.starts_with("STATUS=read") {
        let message = next(&listener);
        alive += u32::from(message == "WATCHDOG=1\n");
        if message.starts_with("STATUS=") {
            status = message;
        }
    }
    let (code, said) = stop(running);
    assert_eq!(code, Some(130), "{said}");
    let mut messages = std::iter::from_fn(|| Some(next(&listener)));
    let stopping = messages.find(|message| message.starts_with("STOPPING=1")).expect("one");
    assert!(stopping.contains("STATUS=stopping\n") && stopping.contains("EXTEND_TIMEOUT_USEC="), "{stopping}");
    let last = messages.find(|message| message.contains("ended")).expect("one");
    assert_eq!(last, "STOPPING=1\nSTATUS=ended with exit code 130\n");
}

#[test]
fn refused_command_never_notifies_readiness() {
    let place = Place::in_memory();
    let (path, name) = (place.path("notify"), format!("bedload-{}", std::process::id()));
    // Without a path, as containers have it.
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    for (listener, address) in [
        (UnixDatagram::bind(&path).expect("bound"), path.display().to_string()),
        (UnixDatagram::bind_addr(&address).expect("bound"), format!("@{name}")),
    ] {
        listener.set_nonblocking(true).expect("set");
        let mut command = command(&place, "import none.car --db db --max-block-size 5GiB");
        assert_eq!(output(command.env("NOTIFY_SOCKET", &address)).code, Some(2));
        assert_eq!(next(&listener), "STOPPING=1\nSTATUS=ended with exit code 2\n");
    }
}

/// The lines of a log.
fn lines(log: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|it| panic!("{it}: {line}"));
    let lines: Vec<Value> = log.lines().map(parse).collect();
    for line in &lines {
        assert_eq!(line["schema"], "bedload-log-1", "{line}");
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
    lines
}

#[test]
fn json_log_has_one_object_per_line() {
    let place = with_database("2MiB");
    let run = |line: &str| {
        let ended = run(&place, &format!("{line} --log-format json"));
        (ended.code, lines(&ended.stderr))
    };
    let (code, said) = run("import snapshot.car --db new");
    assert_eq!(code, Some(0), "{said:?}");
    let read = said.iter().find(|line| line["event"]["phase"] == "read").expect("the end of a phase");
    assert_eq!((&read["level"], &read["event"]["event"]), (&"info".into(), &"phase_done".into()));
    assert!(read["message"].as_str().expect("text").starts_with("read "), "{read}");
    let last = said.last().expect("a line");
    assert_eq!((&last["message"], &last["exit"]), (&"import is done".into(), &0.into()));
    let absent = "bafy2bzacea3wsdh6y3a36tb3skempjoxqpuyompjbmfeyf34fi3uy6uue42v4";
    let get = format!("get db {absent}");
    for (line, exit) in [
        ("import snapshot.car --db new", 4),
        ("import snapshot.car --db other --memry 1G", 2),
        ("verify none", 4),
        (&get, 1),
    ] {
        let (code, said) = run(line);
        let last = said.last().expect("a line");
        assert_eq!((code, &last["level"], &last["exit"]), (Some(exit), &"error".into(), &exit.into()), "{line}");
        assert!(last["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{line}: {last}");
    }
    let (code, said) = run("");
    let message = said[0]["message"].as_str().expect("text");
    assert_eq!((code, message), (Some(2), "'bedload' requires a subcommand but one was not provided"));
    let (_, said) = run(&get);
    let expected = (&"warning".into(), &format!("not in the database: {absent}").into());
    assert_eq!((&said[0]["level"], &said[0]["message"]), expected);
    let (code, said) = run("import snapshot.car --db quiet --quiet");
    assert_eq!((code, said.len()), (Some(0), 0), "{said:?}");
}
