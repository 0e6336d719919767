//! `bedload tune`: a search that writes a preset only for a win that is shown.

mod database;

use database::{bedload, generate};
use predicates::str::contains;
use serde_json::Value;

#[test]
fn a_search_ends_with_a_preset_that_imports_or_with_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let snapshot = generate(dir.path(), "2MiB");
    let file = dir.path().join("mine.toml");
    let found = bedload()
        .arg("tune")
        .arg(&snapshot)
        // Compression and filters change what a database takes on this snapshot far more than noise does its memory.
        .args(["--for", "memory", "--pairs", "3", "--json", "--dir"])
        .arg(dir.path())
        .arg("--write")
        .arg(&file)
        .assert()
        .success();
    let report: Value = serde_json::from_slice(&found.get_output().stdout).expect("json");
    assert_eq!(
        (&report["schema"], &report["start"], &report["goal"]),
        (&"bedload-tune-1".into(), &"ingest".into(), &"memory".into())
    );
    let tried = report["tried"].as_u64().expect("a number");
    assert!(tried > 10, "{tried}");
    let rungs = report["rungs"].as_array().expect("samples");
    assert_eq!(rungs[0]["ratios"].as_array().expect("ratios").len() as u64, tried);
    let outcome = report["outcome"].as_str().expect("an outcome");
    if outcome == "better" {
        let ratio = &report["confirmation"]["ratio"];
        assert!(ratio["high"].as_f64() < Some(1.0), "{ratio}");
        assert_eq!(ratio["pairs"], 3);
        let db = dir.path().join("db");
        bedload().arg("import").arg(&snapshot).arg("--db").arg(&db).arg("--preset").arg(&file).assert().success();
        bedload().arg("verify").arg("--db").arg(&db).assert().success();
    } else {
        assert!(["within_noise", "nothing_better", "too_slow"].contains(&outcome), "{outcome}");
        assert!(!file.exists(), "a win under the noise is none");
    }
    let left: Vec<String> = dir
        .path()
        .read_dir()
        .expect("ours")
        .map(|entry| entry.expect("ours").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("bedload-"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "something is left");
}

#[test]
fn when_there_is_no_time_nothing_is_claimed() {
    let dir = tempfile::tempdir().expect("a folder");
    let snapshot = generate(dir.path(), "2MiB");
    let file = dir.path().join("mine.toml");
    bedload()
        .arg("tune")
        .arg(&snapshot)
        .args(["--for", "import", "--budget", "1s", "--dir"])
        .arg(dir.path())
        .arg("--write")
        .arg(&file)
        .assert()
        .success()
        .stdout(contains("no win: "));
    assert!(!file.exists());
}

#[test]
fn what_cannot_be_searched_is_refused_first() {
    let dir = tempfile::tempdir().expect("a folder");
    let snapshot = generate(dir.path(), "1MiB");
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "mine").expect("room");
    let tune = || {
        let mut command = bedload();
        command.arg("tune").arg(&snapshot).arg("--dir").arg(dir.path());
        command
    };
    tune().arg("--write").arg(&file).assert().code(4).stderr(contains("exists already"));
    assert_eq!(std::fs::read(&file).expect("there"), b"mine");
    let other = dir.path().join("other.toml");
    tune()
        .arg("--write")
        .arg(&other)
        .args(["--pairs", "2"])
        .assert()
        .code(2)
        .stderr(contains("2 pairs confirm nothing"));
    tune().arg("--write").arg(&other).args(["--preset", "ingset"]).assert().code(2).stderr(contains("ingset"));
    tune().arg("--write").arg(&other).args(["--for", "fun"]).assert().code(2);
    assert!(!other.exists());
}
