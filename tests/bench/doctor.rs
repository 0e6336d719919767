//! `bedload doctor`: measures, forecasts, advises, and removes its files, however it ends.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::crash::{Chance, Ended, ended, in_turn, list, log, plain, rounds};
use crate::common::disk::Disk;
use crate::common::run::{BEDLOAD, Place, hermetic};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// `bedload` with directories of the user below `place`, which nothing creates.
fn bedload(place: &Place) -> Command {
    let mut command = crate::common::run::bedload();
    command.env("HOME", place.path("home")).env("XDG_CACHE_HOME", place.path("cache"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn doctor(place: &Place, dir: &Path, args: &[&str]) -> Command {
    let mut command = bedload(place);
    command.arg("doctor").arg("--dir").arg(dir).arg("--json").args(args);
    command
}

#[track_caller]
fn run(mut command: Command) -> Ended {
    ended(command.spawn().expect("it starts"))
}

/// Runs `bedload doctor`, which must succeed and leave nothing in `dir`.
#[track_caller]
fn succeeds(place: &Place, dir: &Path, args: &[&str]) -> Ended {
    let report = run(doctor(place, dir, args));
    assert_eq!(report.code, Some(0), "{report:?}");
    is_empty(dir);
    report
}

#[track_caller]
fn is_empty(dir: &Path) {
    assert_eq!(list(dir), Vec::<PathBuf>::new(), "something is left");
}

#[track_caller]
fn number(report: &Ended, path: &str) -> f64 {
    report.json.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {report:?}"))
}

fn ids(report: &Value) -> Vec<&str> {
    report["warnings"].as_array().expect("warnings").iter().map(|one| one["id"].as_str().expect("an id")).collect()
}

#[test]
fn doctor_forecasts_a_block_log() {
    let place = Place::new();
    let data = place.dir("data");
    let report = succeeds(&place, &data, &["--threads", "2", log().file.to_str().expect("text")]);
    assert_eq!(report.json["forecast"]["plan"]["log"]["families"], serde_json::json!(["default", "block_ids"]));
    assert!(number(&report, "/forecast/prediction/seconds/read") > 0.0);
    let sample = number(&report, "/forecast/prediction/sample_bytes");
    assert!(sample > 2e6, "{sample}");
}

#[test]
fn doctor_measures_and_imports_generated_blocks() {
    let place = Place::new();
    let data = place.dir("data");
    let left = place.dir("data/.bedload-doctor-a1B2c3");
    std::fs::set_permissions(left, std::fs::Permissions::from_mode(0o700)).expect("closed to others");
    place.file("data/.bedload-doctor-a1B2c3/journal", b"by a run that was killed");
    let source = plain().file.to_str().expect("text");
    let report = succeeds(&place, &data, &["--memory", "96MiB", "--threads", "2", source]);
    assert!(!place.path("home").exists() && !place.path("cache").exists(), "it writes nothing of the user's");

    assert_eq!(report.text("/schema"), "bedload-doctor-4");
    assert_eq!(report.text("/dir"), data.to_str().expect("text"));
    let positive = "/disk/sync_write/median_us /disk/sync_write/p99_us /disk/fsync/median_us /seconds \
                    /disk/write_bytes_per_second /disk/synced_write_bytes_per_second /disk/read_bytes_per_second \
                    /disk/random_reads_per_second /hash/one_core /hash/all_cores /forecast/prediction/seconds/total \
                    /forecast/prediction/seconds/read /forecast/prediction/seconds/build \
                    /forecast/prediction/sample_bytes /forecast/prediction/sample_seconds";
    for rate in positive.split_whitespace() {
        assert!(number(&report, rate) > 0.0, "{rate}: {report:?}");
    }
    assert!(["processor", "disk", "source"].contains(&report.text("/forecast/prediction/limited_by")));
    assert!(["direct", "dropped"].contains(&report.text("/disk/past_the_cache")));
    assert_eq!(report.number("/machine/cores"), std::thread::available_parallelism().expect("a number").get() as u64);
    assert!(report.number("/file_system/free_bytes") > 0 && report.number("/machine/memory_bytes") > 0);
    assert!(report.json["machine"].as_object().expect("fields").contains_key("cgroup_bytes"));

    let mut planned = bedload(&place);
    planned.arg("import").arg(source).arg("--db").arg(data.join("db"));
    planned.args(["--memory", "96MiB", "--threads", "2", "--json", "--dry-run"]);
    let planned = run(planned);
    for field in ["method", "sort", "memory", "threads", "expected_bytes"] {
        assert_eq!(report.json["forecast"]["plan"][field], planned.json[field], "{field}");
    }
    let needed = planned.json["space"][0]["needed_bytes"].as_u64().expect("a number");
    assert_eq!(report.number("/forecast/prediction/peak_disk_bytes"), needed);
}

/// Signals end doctor while it measures the disk, and while it imports the sample, which comes last.
#[test]
fn interrupted_doctor_leaves_no_files() {
    let place = Place::new();
    let data = place.dir("data");
    let source = plain().file.to_str().expect("text");
    let mut chance = Chance::new();
    for (nth, signal) in [Signal::INT, Signal::TERM, Signal::KILL].into_iter().enumerate() {
        for (round, &sample) in
            (0..rounds(1, 30)).flat_map(|round| in_turn(&[false, true], nth).iter().map(move |it| (round, it)))
        {
            let child = doctor(&place, &data, &[source][..usize::from(sample)]).spawn().expect("it starts");
            let started = std::time::Instant::now();
            while sample && list(&data).is_empty() && started.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(2));
            }
            // The handlers are there after some milliseconds; it measures for more than a second.
            let wait = if sample { chance.below(50) } else { 200 + chance.below(700) };
            std::thread::sleep(Duration::from_millis(wait));
            let is_alive = kill_process(Pid::from_child(&child), signal).is_ok();
            let ended = ended(child);
            if sample {
                // It may have ended by itself. The next run removes what a kill leaves.
                let is_expected = signal == Signal::KILL || matches!(ended.code, Some(0 | 130));
                assert!(is_expected, "{signal:?}, round {round}: {ended:?}");
            } else if signal == Signal::KILL {
                assert!(is_alive && ended.signal == Some(9), "{ended:?}");
            } else {
                assert_eq!((is_alive, ended.code), (true, Some(130)), "{signal:?}, round {round}: {ended:?}");
                assert!(ended.took < Duration::from_millis(2500), "{:?}", ended.took);
                ended.says(&["error: interrupted\n", "hint: nothing is left over; run the same command again\n"]);
            }
            if !(sample && signal == Signal::KILL) {
                is_empty(&data);
            }
        }
    }
    succeeds(&place, &data, &[]);
}

#[test]
fn warnings_have_a_remedy() {
    let place = Place::new();
    let Some(disk) = Disk::new(place.path("data"), 3 << 10) else { return };
    let data = disk.0.clone();
    let mut command = hermetic("prlimit");
    command.args(["--nofile=200:200", BEDLOAD, "doctor", "--json", "--memory", "4096GiB", "--dir"]);
    command.arg(&data).arg(&plain().file).env("XDG_CACHE_HOME", place.path("cache"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let report = run(command);
    is_empty(&data);
    assert_eq!(report.code, Some(0), "{report:?}");
    let found = ids(&report.json);
    for id in ["space", "descriptors", "memory"] {
        assert!(found.contains(&id), "{id} is not in {found:?}");
    }
    for warning in report.json["warnings"].as_array().expect("warnings") {
        assert!(warning["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{warning}");
    }
}

#[test]
fn doctor_forecasts_a_size_without_a_snapshot() {
    let place = Place::new();
    let data = place.dir("data");
    let forms = [("car.zst", 3), ("block-log", 1), ("car", 1), ("forest.car.zst", 3)];
    for (form, times) in forms.into_iter().take(rounds(2, 4)) {
        let report = succeeds(&place, &data, &["--memory", "96MiB", "--size", "80GiB", "--form", form]);
        assert_eq!(report.text("/forecast/source"), format!("80.0 GiB of {form} (assumed)"));
        assert_eq!(report.number("/forecast/plan/expected_bytes"), times * (80 << 30), "{form}");
        assert!(report.number("/forecast/prediction/peak_disk_bytes") > 80 << 30, "{form}");
        // No disk writes 80 GiB in a second.
        assert!(number(&report, "/forecast/prediction/seconds/total") > 1.0, "{form}");
    }
    for args in [&["--size", "1GiB", plain().file.to_str().expect("text")][..], &["--form", "car.zst"]] {
        run(doctor(&place, &data, args)).failed(2, "a size or a form", &[]);
    }
}

#[test]
fn unusable_path_is_a_finding_or_refused() {
    let place = Place::new();
    let data = place.dir("data");
    let report = run(doctor(&place, &data.join("new"), &[]));
    assert_eq!((report.code, report.text("/dir")), (Some(0), data.to_str().expect("text")), "{report:?}");
    assert!(ids(&report.json).contains(&"directory"), "{report:?}");
    let words = ["cannot read metadata of ", "/no: check the path"];
    run(doctor(&place, &data.join("no/new"), &[])).failed(1, "no parent", &words);
    let report = run(doctor(&place, Path::new("/proc/self"), &[]));
    assert_eq!((report.code, &report.json["disk"]), (Some(0), &Value::Null), "{report:?}");
    assert!(ids(&report.json).contains(&"unwritable"), "{report:?}");
    assert!(report.json["hash"]["all_cores"].as_f64() > Some(0.0), "the rest is measured all the same");
    let file = place.file("s.car", b"this is not a snapshot at all");
    let report = run(doctor(&place, &data, &[file.to_str().expect("text")]));
    report.failed(3, "a text", &["error: cannot read ", "hint: "]);
}
