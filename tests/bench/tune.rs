//! `bedload bench --tune`: a search that writes a preset only if it is shown to be faster.

use std::path::Path;
use std::process::Stdio;

use crate::bench::comparisons::{lines, place};
use crate::common::crash::{send, wait_for};
use crate::common::database::{bedload, generate};
use predicates::str::contains;
use serde_json::Value;

const TUNE: [&str; 7] = ["--presets", "ingest", "--lookups", "0", "--no-scan", "--tune", "--json"];

/// Changes the stored runs of some variants to take a millisecond.
fn make_fast(out: &Path, variants: &str) {
    let change = |line: &String| {
        let mut run: Value = serde_json::from_str(line).expect("json");
        if run["variant"].as_str().expect("a name").starts_with(variants) {
            run["process"]["seconds"] = 0.001.into();
        }
        format!("{run}\n")
    };
    let text: String = lines(out).iter().map(change).collect();
    std::fs::write(out.join("runs.ndjson"), text).expect("room");
}

#[test]
fn stopped_search_resumes_and_writes() {
    let (dir, snapshot, out) = place("1MiB");
    let file = dir.path().join("mine.toml");
    let search = || {
        let mut command = crate::common::run::bedload();
        command.arg("bench").arg(&snapshot).args(TUNE).arg("--out").arg(&out).arg("--write").arg(&file);
        command
    };
    let searched = || -> Value {
        let found = search().output().expect("the program");
        assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stderr));
        serde_json::from_slice(&found.stdout).expect("json")
    };
    let mut child = search().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    wait_for(|| lines(&out).len() >= 3);
    send(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().expect("ours").code(), Some(130));
    assert!(!file.exists());
    let before = lines(&out);

    let report = searched();
    let after = lines(&out);
    assert_eq!(&after[..before.len()], &before[..], "stored runs are not made again");
    let turns: std::collections::BTreeSet<String> = after
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).expect("json"))
        .map(|run| format!("{} {}", run["variant"], run["round"]))
        .collect();
    assert_eq!(turns.len(), after.len(), "{turns:#?}");
    assert!(after.len() > 3 * 10, "three rounds of many values: {}", after.len());
    let notes = report["setup"]["notes"].to_string();
    assert!(file.exists() || notes.contains("shown to be faster than `ingest`"), "{notes}");
    assert_eq!((&report["schema"], &report["figures"]["reference"]), (&"bedload-bench-5".into(), &"ingest".into()));

    // As if the runs of one value, and then those of the combination, had been faster.
    let _ = std::fs::remove_file(&file);
    make_fast(&out, "ingest block_size=4K");
    searched();
    let second = out.read_dir().expect("results").flatten().map(|entry| entry.path());
    let second: Vec<_> = second.filter(|path| lines(path).iter().any(|run| run.contains("block_size=4K"))).collect();
    assert_eq!(second.len(), 1, "{second:?}");
    let _ = std::fs::remove_file(&file);
    make_fast(&second[0], "ingest block_size=4K");
    let report = searched();
    assert_eq!(report["setup"]["notes"], Value::Array(Vec::new()), "the combination is faster");
    let text = std::fs::read_to_string(&file).expect("a preset");
    assert!(text.contains("base = \"ingest\"") && text.contains("block_size = \"4K\""), "{text}");
    let db = dir.path().join("db");
    bedload().arg("import").arg(&snapshot).arg("--db").arg(&db).arg("--preset").arg(&file).assert().success();
    assert!(!out.join("bedload-bench.run").exists(), "something is left");
}

#[test]
fn search_without_time_writes_nothing() {
    let (dir, snapshot, out) = place("1MiB");
    let file = dir.path().join("mine.toml");
    let tune = ["--presets", "ingest", "--tune", "--budget", "1s"];
    let searched =
        bedload().arg("bench").arg(&snapshot).args(tune).arg("--out").arg(&out).arg("--write").arg(&file).assert();
    searched.success().stdout(contains("note: no value is shown to be faster than ingest"));
    assert!(!file.exists());
}

#[test]
fn impossible_searches_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    generate(dir.path(), "1MiB");
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "mine").expect("room");
    for (line, code, message) in [
        ("--presets ingest --tune --write mine.toml", 4, "already exists"),
        ("--presets ingest,memtable --tune", 2, "--tune needs exactly one preset, but there are 2"),
        ("--presets ingset --tune", 2, "ingset"),
        ("--presets ingest --tune --vary memory=1G,2G", 2, "--vary"),
        ("--presets ingest --write other.toml", 2, "--tune"),
        ("--tune", 2, "--presets"),
        ("--ablate ingest --presets ingest", 2, "--presets"),
        ("--ablate ingest --vary memory=1G,2G", 2, "--vary"),
        ("--ablate ingest --presets ingest --tune", 2, "--ablate"),
    ] {
        let mut command = bedload();
        command.args(["bench", "snapshot.car", "--out", "out"]).args(line.split(' ')).current_dir(dir.path());
        command.assert().code(code).stderr(contains(message));
        assert!(!dir.path().join("out").exists(), "{line}");
    }
    assert_eq!(std::fs::read(&file).expect("there"), b"mine");
}
