//! Imports from nginx that are killed at random moments hold the same records and read few bytes twice.
//!
//! A kill costs what has come since the last durable point, and the parts that follow the first incomplete one: two parts for
//! each connection at most. One kill of an import of a small file costs less than a twentieth of the file. A hundred kills of one
//! import cost less than a hundred times half a part of each connection but one, which `BEDLOAD_LONG_TESTS=1` tries.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Needs;
use crate::common::crash::{Chance, ended_within};
use crate::common::run::{BEDLOAD, Place, hermetic, import, own_folder, program};
use crate::servers::Nginx;

tests! {
    Needs::Nginx => [
        plain_car_survives_random_kills,
        forest_snapshot_survives_random_kills,
    ];
    Needs::NginxAndTime => [
        hundred_kills_repeat_a_quarter_at_most,
    ];
}

/// A snapshot of the program's own making.
fn snapshot(name: &str, size: &str) -> PathBuf {
    let path = own_folder().join(name);
    program().args(["generate", "--quiet", "--profile", "mainnet", "--size", size]).arg(&path).assert().success();
    path
}

/// The digest of what a database of this file holds.
fn digest_of(file: &Path) -> String {
    let place = Place::new();
    let done = import(&place, file).run();
    done.succeeded();
    done.text("/digest").to_owned()
}

/// The result of an import with kills.
#[derive(Debug)]
#[allow(dead_code, reason = "shown")]
struct Killed {
    kills: u64,
    size: u64,
    sent: u64,
    seconds: f64,
}

impl Killed {
    /// Bytes asked for twice, as a share of the file.
    fn again(&self) -> f64 {
        (self.sent as f64 - self.size as f64) / self.size as f64
    }
}

/// Imports `file` from a server that gives `rate` to each of `connections`, and kills it so often, each time after less
/// than `most`; the same command resumes each time.
fn killed(file: &Path, rate: &str, connections: &str, kills: u64, most: Duration) -> Killed {
    let nginx = Nginx::new(&format!("limit_rate {rate};"));
    let name = file.file_name().expect("a name").to_str().expect("text");
    nginx.lend(name, file);
    let place = Place::new();
    let command = || {
        let mut command: Command = hermetic(BEDLOAD);
        command.args(["import", &nginx.url(name), "--connections", connections, "--json", "--progress", "off", "--db"]);
        command.arg(place.path("db")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let (mut chance, started) = (Chance::new(), Instant::now());
    for kill in 0..kills {
        let mut child = command();
        std::thread::sleep(Duration::from_micros(chance.below(most.as_micros() as u64)));
        assert!(child.try_wait().expect("a child").is_none(), "it ended before kill {kill}");
        child.kill().expect("it is there");
        child.wait().expect("it is dead");
    }
    let (done, _) = ended_within(command(), Duration::from_secs(600));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.text("/digest"), digest_of(file));
    let size = file.metadata().expect("a file").len();
    let killed = Killed { kills, size, sent: nginx.sent(), seconds: started.elapsed().as_secs_f64() };
    eprintln!("{name}: {killed:?}, {:.2} % twice", 100.0 * killed.again());
    std::fs::remove_file(file).expect("it is ours");
    killed
}

/// Each kill costs less than a twentieth of the file, on the average.
#[track_caller]
fn costs_little(killed: &Killed) {
    assert!(killed.again() < 0.05 * killed.kills as f64, "{killed:?}");
}

fn plain_car_survives_random_kills() {
    costs_little(&killed(&snapshot("killed.car", "64MiB"), "4m", "2", 10, Duration::from_millis(1000)));
}

fn forest_snapshot_survives_random_kills() {
    let file = snapshot("killed.forest.car.zst", "160MiB");
    costs_little(&killed(&file, "4m", "2", 10, Duration::from_millis(1000)));
}

fn hundred_kills_repeat_a_quarter_at_most() {
    let killed = killed(&snapshot("often-killed.car", "2560MiB"), "1400k", "2", 100, Duration::from_secs(14));
    assert!(killed.again() < 0.25, "{killed:?}");
}
