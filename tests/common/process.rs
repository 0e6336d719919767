//! Processes: their start, signals and end, and files that they leave.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;

/// Time after which a run counts as hanging.
const PATIENCE: Duration = Duration::from_secs(100);

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub json: Value,
    pub stderr: String,
    pub took: Duration,
}

/// Starts a command that reads `bytes` from a pipe, which then ends.
pub fn spawn_fed(command: &mut Command, bytes: Vec<u8>) -> Child {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that dies does not read to the end.
    std::thread::spawn(move || stdin.write_all(&bytes));
    child
}

/// Waits for a run to end; one that hangs is killed and fails the test.
#[track_caller]
pub fn ended(child: Child) -> Ended {
    let (ended, hung) = ended_within(child, PATIENCE);
    assert!(!hung, "it hung: {}", ended.stderr);
    ended
}

/// Waits for a run to end, and tells whether it had to be killed because it hung.
pub fn ended_within(child: Child, patience: Duration) -> (Ended, bool) {
    let started = Instant::now();
    let pid = Pid::from_child(&child);
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let hangs = is_done.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        hangs && kill_process(pid, Signal::KILL).is_ok()
    });
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    drop(done);
    let hung = watch.join().expect("a watch");
    let ended = Ended {
        code: status.code(),
        signal: status.signal(),
        json: serde_json::from_slice(&stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        took: started.elapsed(),
    };
    (ended, hung)
}

impl Ended {
    #[track_caller]
    pub fn text(&self, path: &str) -> &str {
        self.json.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path} in {self:?}"))
    }

    #[track_caller]
    pub fn number(&self, path: &str) -> u64 {
        self.json.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {self:?}"))
    }

    #[track_caller]
    pub fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in what it says:\n{}", self.stderr);
        }
    }

    #[track_caller]
    pub fn failed(&self, code: i32, what: &str, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{what}: {self:?}");
        let missing: Vec<&&str> = words.iter().filter(|word| !self.stderr.contains(**word)).collect();
        assert!(missing.is_empty(), "{what}: {missing:?} are not in what it says:\n{}", self.stderr);
    }
}

/// Waits until a run stops. Returns false if it ends before.
pub fn stops(child: &Child) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = || waitid(WaitId::Pid(Pid::from_child(child)), options).expect("a child");
    wait_for(|| status().is_some());
    status().expect("it neither runs nor is waited for").stopped()
}

pub fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it lives");
}

/// True if a command of the system works here.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Waits until a condition holds.
#[track_caller]
pub fn wait_for(is_met: impl Fn() -> bool) {
    wait_for_some(|| is_met().then_some(()));
}

/// Waits until there is a result.
#[track_caller]
pub fn wait_for_some<T>(mut result: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = result() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "the condition is not met");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Copies with all that belongs to the files; hard links stay hard links.
pub fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success(), "{} cannot be copied", from.display());
}

pub fn list(dir: &Path) -> Vec<PathBuf> {
    dir.read_dir().into_iter().flatten().map(|entry| entry.expect("an entry").path()).collect()
}
