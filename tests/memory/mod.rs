//! Peak memory: a run keeps its budget plus 64 MiB, or is refused with the budget that it needs.
//!
//! `BEDLOAD_LONG_TESTS=1` adds a budget of 1 GiB, eight threads and all hostile inputs: some minutes, and 13 GiB of disk.

mod budgets;
mod bundles;
mod hostile;
mod readers;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::database::generate_as;
use crate::common::run::{Place, bedload};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Memory beyond the budget: the program, RocksDB, the allocator's slack.
const FIXED: u64 = 64 * MIB;

fn create(path: &Path) -> BufWriter<File> {
    BufWriter::with_capacity(1 << 20, File::create(path).expect("room for a file"))
}

fn generate_steem(place: &Place, mib: u64) -> PathBuf {
    generate_as(place.path("block_log"), &["--profile", "steem", "--size", &format!("{mib}MiB")])
}

struct Measured {
    is_done: bool,
    stderr: String,
    report: Value,
    /// Peaks of anonymous and of all resident memory, in bytes. The first is sampled, the second is the kernel's.
    anonymous: u64,
    resident: u64,
}

impl Measured {
    #[track_caller]
    fn number(&self, name: &str) -> u64 {
        self.report[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", self.report))
    }

    /// Both the report and the kernel say that no more memory was used.
    #[track_caller]
    fn stays_within(&self, bytes: u64, what: &str) {
        assert!(self.is_done, "{what}: {}{}", self.report, self.stderr);
        for (who, peak) in [("the report", self.number("peak_rss_bytes")), ("the kernel", self.resident)] {
            // Less than this and something else was measured.
            assert!(peak > 8 * MIB, "{who} says {} KiB", peak >> 10);
            assert!(peak <= bytes, "by the word of {who} {} MiB instead of {}: {what}", peak / MIB, bytes / MIB);
        }
    }
}

fn import(place: &Place, source: &Path, is_pipe: bool, budget: u64, threads: &str, args: &[&str]) -> Measured {
    let db = place.path("db");
    let mut command = bedload();
    command.arg("import").arg(if is_pipe { Path::new("-") } else { source }).arg("--db").arg(&db);
    command.args(["--memory", &budget.to_string(), "--threads", threads]).args(args);
    let measured = measured(&mut command, is_pipe.then_some(source));
    for left in [&db, &crate::common::run::partial(&db)] {
        let _ = std::fs::remove_dir_all(left);
    }
    measured
}

/// Runs a command that prints a report. A pipe brings it the content of `piped`.
fn measured(command: &mut Command, piped: Option<&Path>) -> Measured {
    command.args(["--json", "--progress", "off"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let feeder = piped.map(|source| {
        let mut cat = crate::common::run::hermetic("cat").arg(source).stdout(Stdio::piped()).spawn().expect("cat");
        command.stdin(cat.stdout.take().expect("piped"));
        cat
    });
    let child = command.spawn().expect("it runs");
    // Closes the end of the pipe that this process holds.
    command.stdin(Stdio::null());
    let status = format!("/proc/{}/status", child.id());
    let waiter = std::thread::spawn(move || child.wait_with_output().expect("our child"));
    let (mut anonymous, mut resident) = (0, 0);
    while !waiter.is_finished() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let field = |name| {
            let mut lines = text.lines();
            let kib = lines.find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or_default() << 10
        };
        (anonymous, resident) = (field("RssAnon:").max(anonymous), field("VmHWM:").max(resident));
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = waiter.join().expect("no panic");
    if let Some(mut cat) = feeder {
        cat.wait().expect("our child");
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Measured { is_done: output.status.success(), stderr, report, anonymous, resident }
}
