//! Monitoring of a command: the file of `--metrics`, systemd's `sd_notify`, and `--log-format json`.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::database::{generate, import};
use crate::common::run::bedload as program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The value of a metric; `labels` are those after the name of the file.
fn metric(text: &str, name: &str, labels: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(&format!("bedload_{name}{{")) && line.contains(labels))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Starts an import from a pipe that brings a part of `car` and then nothing.
fn stalled(dir: &Path, car: &Path, more: &[&str], environment: &[(&str, &str)]) -> (Child, std::process::ChildStdin) {
    let mut command = program();
    command.args(["import", "-", "--db", "stalled"]).args(more).current_dir(dir).envs(environment.iter().copied());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let bytes = std::fs::read(car).expect("read");
    pipe.write_all(&bytes[..bytes.len() / 2]).expect("it reads");
    (child, pipe)
}

fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "it does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn stop(child: Child) -> (Option<i32>, String) {
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it lives");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn metrics_file_shows_the_exit_code() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "2MiB");
    let file = dir.path().join("main net.prom");
    let run = |args: &[&str]| {
        let mut command = program();
        command.args(args).args(["--quiet", "--metrics"]).arg(&file).current_dir(dir.path());
        let code = command.output().expect("it runs").status.code();
        (code, std::fs::read_to_string(&file).expect("the file"))
    };
    let (code, text) = run(&["import", "snapshot.car", "--db", "db"]);
    assert_eq!(code, Some(0), "{text}");
    let size = car.metadata().expect("there").len() as f64;
    assert_eq!(metric(&text, "phase_bytes", "{name=\"main net\",phase=\"read\"}"), Some(size), "{text}");
    assert_eq!((metric(&text, "running", ""), metric(&text, "exit_code", "")), (Some(0.0), Some(0.0)), "{text}");
    assert!(metric(&text, "info", "command=\"import\"") == Some(1.0), "{text}");
    assert!(metric(&text, "end_time_seconds", "") >= metric(&text, "start_time_seconds", ""), "{text}");
    assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o644);
    let (code, text) = run(&["import", "snapshot.car", "--db", "db"]);
    assert_eq!((code, metric(&text, "exit_code", "")), (Some(4), Some(4.0)), "{text}");
    let left: Vec<_> = dir.path().read_dir().expect("list").map(|entry| entry.expect("entry").file_name()).collect();
    assert_eq!(left.len(), 3, "nothing is left of the writing: {left:?}");
}

#[test]
fn metrics_file_shows_a_running_import() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "4MiB");
    let file = dir.path().join("a.prom");
    let (child, pipe) = stalled(dir.path(), &car, &["--metrics", "a.prom", "--progress", "off"], &[]);
    let text = wait_for(|| {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        (metric(&text, "phase_bytes", "phase=\"read\"") > Some(0.0)).then_some(text)
    });
    assert_eq!((metric(&text, "running", ""), metric(&text, "exit_code", "")), (Some(1.0), None), "{text}");
    assert_eq!(metric(&text, "phase_active", "phase=\"read\""), Some(1.0), "{text}");
    assert!(metric(&text, "resident_memory_bytes", "") > Some(1e6), "{text}");
    let (code, said) = stop(child);
    drop(pipe);
    let text = std::fs::read_to_string(&file).expect("the file");
    assert_eq!((code, metric(&text, "exit_code", "")), (Some(130), Some(130.0)), "{said}{text}");
}

/// The bug: the progress of a block log from a pipe stood still until a whole range of up to 64 MiB was read.
#[test]
fn piped_log_reports_progress_inside_a_range() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("block_log");
    let mut command = program();
    command.args(["generate", "block_log", "--profile", "steem", "--size", "16MiB", "-q"]).current_dir(dir.path());
    assert!(command.status().expect("it runs").success());
    let (child, pipe) = stalled(dir.path(), &log, &["--metrics", "a.prom", "--progress", "off"], &[]);
    wait_for(|| {
        let text = std::fs::read_to_string(dir.path().join("a.prom")).unwrap_or_default();
        (metric(&text, "phase_bytes", "phase=\"read\"") >= Some(6e6)).then_some(())
    });
    stop(child);
    drop(pipe);
}

#[test]
fn unusable_metrics_file_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "1MiB");
    std::fs::write(dir.path().join("other.prom"), "other 1\n").expect("written");
    std::fs::create_dir(dir.path().join("dir.prom")).expect("made");
    for (path, words) in [
        ("none/a.prom", "the metrics cannot be written: "),
        ("other.prom", "which has no metrics of bedload"),
        ("dir.prom", "which is not a regular file"),
    ] {
        let mut command = program();
        command.args(["import", "snapshot.car", "--db", "db", "--metrics", path]).current_dir(dir.path());
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{path}: {said}");
        assert!(said.contains(words), "{path}: {said}");
        assert_eq!(std::fs::read(dir.path().join("other.prom")).expect("read"), b"other 1\n");
        assert!(!dir.path().join("db").exists() && !dir.path().join("db.partial").exists());
    }
}

#[test]
fn lost_metrics_file_is_warned_of_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "4MiB");
    let folder = dir.path().join("text");
    std::fs::create_dir(&folder).expect("made");
    let (child, mut pipe) = stalled(dir.path(), &car, &["--metrics", "text/a.prom", "--progress", "off"], &[]);
    wait_for(|| dir.path().join("stalled.partial").exists().then_some(()));
    std::fs::remove_dir_all(&folder).expect("removed");
    // At least two writes fail.
    std::thread::sleep(Duration::from_millis(2500));
    let bytes = std::fs::read(&car).expect("read");
    pipe.write_all(&bytes[bytes.len() / 2..]).expect("it reads");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("warning: the metrics are not up to date: ").count(), 1, "{said}");
}

#[test]
fn systemd_is_notified_of_each_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "4MiB");
    let socket = dir.path().join("notify");
    let listener = UnixDatagram::bind(&socket).expect("bound");
    listener.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let address = socket.display().to_string();
    let environment = [("NOTIFY_SOCKET", &*address), ("WATCHDOG_USEC", "400000")];
    let (child, pipe) = stalled(dir.path(), &car, &["--progress", "off"], &environment);
    let next = || {
        let mut buffer = [0; 4096];
        let length = listener.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..length].to_vec()).expect("text")
    };
    assert_eq!(next(), "READY=1\n", "it comes first");
    let (mut alive, mut status) = (0, String::new());
    while alive < 3 || !status.starts_with("STATUS=read") {
        let message = next();
        alive += u32::from(message == "WATCHDOG=1\n");
        if message.starts_with("STATUS=") {
            status = message;
        }
    }
    let (code, said) = stop(child);
    drop(pipe);
    assert_eq!(code, Some(130), "{said}");
    let stopping = std::iter::from_fn(|| Some(next())).find(|message| message.starts_with("STOPPING=1")).expect("one");
    assert!(stopping.contains("STATUS=stopping\n") && stopping.contains("EXTEND_TIMEOUT_USEC="), "{stopping}");
    let last = std::iter::from_fn(|| Some(next())).find(|message| message.contains("ended")).expect("one");
    assert_eq!(last, "STOPPING=1\nSTATUS=ended with exit code 130\n");
}

#[test]
fn refused_command_never_notifies_readiness() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, name) = (dir.path().join("notify"), format!("bedload-{}", std::process::id()));
    let listeners = [
        (UnixDatagram::bind(&path).expect("bound"), path.display().to_string()),
        // Without a path, as containers have it.
        (
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("bound"),
            format!("@{name}"),
        ),
    ];
    for (listener, address) in listeners {
        listener.set_nonblocking(true).expect("set");
        let mut command = program();
        command.args(["import", "none.car", "--db", "db", "--max-block-size", "5GiB"]).current_dir(dir.path());
        assert_eq!(command.env("NOTIFY_SOCKET", &address).output().expect("runs").status.code(), Some(2));
        let mut buffer = [0; 4096];
        let length = listener.recv(&mut buffer).expect("a message");
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), "STOPPING=1\nSTATUS=ended with exit code 2\n");
    }
}

#[test]
fn unreadable_configuration_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join("bedload/config.toml")).expect("made");
    let mut command = program();
    let output = command.args(["presets", "explain"]).env("XDG_CONFIG_HOME", dir.path()).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("bedload/config.toml is not a preset: it is no regular file"), "{said}");
}

/// The lines of a log, each of which is an object.
fn lines(stderr: &[u8]) -> Vec<Value> {
    let text = String::from_utf8(stderr.to_vec()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn json_log_has_one_object_per_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "2MiB");
    import(dir.path(), &car, &[]);
    let run = |args: &[&str]| {
        let mut command = program();
        command.args(args).args(["--log-format", "json"]).current_dir(dir.path());
        let output = command.output().expect("it runs");
        let lines = lines(&output.stderr);
        for line in &lines {
            assert_eq!(line["schema"], "bedload-log-1", "{args:?}: {line}");
            assert!(line["message"].is_string() && line["level"].is_string(), "{args:?}: {line}");
            assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{args:?}: {line}");
        }
        (output.status.code(), lines)
    };
    let (code, said) = run(&["import", "snapshot.car", "--db", "new"]);
    assert_eq!(code, Some(0), "{said:?}");
    let read = said.iter().find(|line| line["event"]["phase"] == "read").expect("the end of a phase");
    assert_eq!((&read["level"], &read["event"]["event"]), (&"info".into(), &"phase_done".into()));
    assert!(read["message"].as_str().expect("text").starts_with("read "), "{read}");
    let last = said.last().expect("a line");
    assert_eq!((&last["message"], &last["exit"]), (&"import is done".into(), &0.into()));
    for (args, exit) in [
        (&["import", "snapshot.car", "--db", "new"][..], 4),
        (&["import", "snapshot.car", "--db", "other", "--memry", "1G"], 2),
        (&["verify", "none"], 4),
        (&["get", "db", "bafy2bzacea3wsdh6y3a36tb3skempjoxqpuyompjbmfeyf34fi3uy6uue42v4"], 1),
    ] {
        let (code, said) = run(args);
        let last = said.last().expect("a line");
        assert_eq!((code, &last["level"], &last["exit"]), (Some(exit), &"error".into(), &exit.into()), "{args:?}");
        assert!(last["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{args:?}: {last}");
    }
    let (code, said) = run(&[]);
    let message = said[0]["message"].as_str().expect("text");
    assert_eq!((code, message), (Some(2), "'bedload' requires a subcommand but one was not provided"));
    let (_, said) = run(&["get", "db", "bafy2bzacea3wsdh6y3a36tb3skempjoxqpuyompjbmfeyf34fi3uy6uue42v4"]);
    assert_eq!(
        (&said[0]["level"], &said[0]["message"]),
        (
            &"warning".into(),
            &"not in the database: bafy2bzacea3wsdh6y3a36tb3skempjoxqpuyompjbmfeyf34fi3uy6uue42v4".into()
        )
    );
    let (code, said) = run(&["import", "snapshot.car", "--db", "quiet", "--quiet"]);
    assert_eq!((code, said.len()), (Some(0), 0), "{said:?}");
}

#[test]
fn json_log_of_interrupted_command_has_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "4MiB");
    let (child, pipe) = stalled(dir.path(), &car, &["--log-format", "json"], &[]);
    wait_for(|| dir.path().join("stalled.partial/journal").exists().then_some(()));
    let (code, said) = stop(child);
    drop(pipe);
    let said = lines(said.as_bytes());
    let last = said.last().expect("a line");
    assert_eq!((code, &last["message"], &last["exit"]), (Some(130), &"interrupted".into(), &130.into()), "{said:?}");
    assert_eq!(last["hint"], "nothing is durable yet: the same command starts from the beginning");
}
