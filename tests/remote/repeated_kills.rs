//! Imports from nginx that are killed at random moments hold the same records and read few bytes twice.
//!
//! A kill costs what has come since the last durable point, and the parts that follow the first incomplete one: two parts for
//! each connection at most. One kill of an import of a small file costs less than a twentieth of the file. A hundred kills of one
//! import cost less than a hundred times half a part of each connection but one, which `BEDLOAD_LONG_TESTS=1` tries.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::crash::{Chance, ended_within, rounds};
use crate::common::database::generate_as;
use crate::common::run::{Place, import, own_folder};
use crate::remote::needs;
use crate::remote::servers::{Nginx, start_import};

/// A snapshot of the program's own making.
fn snapshot(name: &str, size: &str) -> PathBuf {
    generate_as(own_folder().join(name), &["--profile", "mainnet", "--size", size])
}

/// Imports `file` from a server that gives `rate` to each of two connections, and kills it so often, each time after less
/// than `most`; the same command resumes each time. Returns the bytes asked for twice, as a share of the file.
fn killed(file: &Path, rate: &str, kills: u64, most: Duration) -> Option<f64> {
    let nginx = Nginx::new(&format!("limit_rate {rate};"))?;
    let name = file.file_name().expect("a name").to_str().expect("text");
    nginx.lend(name, file);
    let (mut chance, started) = (Chance::new(), Instant::now());
    for kill in 0..kills {
        let mut child = start_import(&nginx, name, "2");
        std::thread::sleep(Duration::from_micros(chance.below(most.as_micros() as u64)));
        assert!(child.try_wait().expect("a child").is_none(), "it ended before kill {kill}");
        child.kill().expect("it is there");
        child.wait().expect("it is dead");
    }
    let (done, _) = ended_within(start_import(&nginx, name, "2"), Duration::from_secs(600));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let whole = import(&Place::in_memory(), file).run();
    assert_eq!((Some(0), done.text("/digest")), (whole.code, whole.text("/digest")));
    let (size, sent) = (file.metadata().expect("a file").len(), nginx.sent());
    let again = (sent as f64 - size as f64) / size as f64;
    eprintln!("{name}: {sent} bytes sent of {size} in {:?}, {:.2} % twice", started.elapsed(), 100.0 * again);
    std::fs::remove_file(file).expect("it is ours");
    Some(again)
}

/// Each of ten kills costs less than a twentieth of the file, on the average.
#[test]
fn ten_random_kills_cost_little() {
    for (name, size) in [("killed.car", "64MiB"), ("killed.forest.car.zst", "160MiB")] {
        let again = killed(&snapshot(name, size), "4m", 10, Duration::from_millis(1000));
        assert!(again.is_none_or(|again| again < 0.05 * 10.0), "{name}: {again:?}");
    }
}

#[test]
fn hundred_kills_repeat_a_quarter_at_most() {
    if !needs(rounds(0, 1) == 1, "a quarter of an hour: BEDLOAD_LONG_TESTS=1") {
        return;
    }
    let again = killed(&snapshot("often-killed.car", "2560MiB"), "1400k", 100, Duration::from_secs(14));
    assert!(again.is_none_or(|again| again < 0.25), "{again:?}");
}
