//! `bedload tune`: a search that writes a preset only for a win that is shown.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::database::{bedload, generate};
use predicates::str::contains;
use serde_json::Value;

/// The stored runs: the lines, and the comparison, variant and round of each.
fn kept(out: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for folder in out.read_dir().into_iter().flatten().map(|entry| entry.expect("ours").path()) {
        let text = std::fs::read_to_string(folder.join("runs.ndjson")).unwrap_or_default();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let run: Value = serde_json::from_str(line).expect("json");
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            all.push((line.to_owned(), format!("{name} {} {}", run["variant"], run["round"])));
        }
    }
    all.sort();
    all
}

#[test]
fn stopped_search_resumes_and_ends_honestly() {
    let dir = tempfile::tempdir().expect("a folder");
    let snapshot = generate(dir.path(), "2MiB");
    let (file, out) = (dir.path().join("mine.toml"), dir.path().join("out"));
    let search = |file: &Path| {
        let mut command = crate::common::run::bedload();
        command.arg("tune").arg(&snapshot);
        // Compression and filters change what a database takes on this snapshot far more than noise does its memory.
        command.args(["--for", "memory", "--pairs", "3", "--json", "--dir"]).arg(dir.path());
        command.arg("--out").arg(&out).arg("--write").arg(file);
        command
    };
    let mut child = search(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    let begun = Instant::now();
    while kept(&out).len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(120), "nothing is measured");
        assert!(child.try_wait().expect("ours").is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("ours");
    assert_eq!(child.wait().expect("ours").code(), Some(130));
    assert!(!file.exists());
    let before = kept(&out);

    let found = search(&file).output().expect("the program");
    assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stderr));
    let report: Value = serde_json::from_slice(&found.stdout).expect("json");
    let after = kept(&out);
    assert!(after.len() > before.len() && before.iter().all(|run| after.contains(run)), "a stored run ran again");
    let mut names: Vec<&String> = after.iter().map(|(_, name)| name).collect();
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:#?}");

    // Everything is known now.
    let again = search(&dir.path().join("other.toml")).output().expect("the program");
    let again: Value = serde_json::from_slice(&again.stdout).expect("json");
    for evidence in ["rungs", "winner", "changes", "confirmation", "outcome", "preset"] {
        assert_eq!(again[evidence], report[evidence], "{evidence}");
    }
    assert_eq!(kept(&out), after);
    // Another search is not mixed with it.
    let mut other = bedload();
    other.arg("tune").arg(&snapshot).args(["--for", "import", "--dir"]).arg(dir.path()).arg("--out").arg(&out);
    let other = other.arg("--write").arg(dir.path().join("third.toml")).assert().code(4);
    other.stderr(contains("holds another search: goal: memory there, import here"));

    assert_eq!(
        (&report["schema"], &report["start"], &report["goal"]),
        (&"bedload-tune-3".into(), &"ingest".into(), &"memory".into())
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
        assert!(["within_noise", "not_decided", "nothing_better", "too_slow"].contains(&outcome), "{outcome}");
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
        .arg("--out")
        .arg(dir.path().join("out"))
        .arg("--write")
        .arg(&file)
        .assert()
        .success()
        .stdout(contains("not decided: the time was over before anything could be confirmed; give a longer --budget"));
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
        command.arg("tune").arg(&snapshot).arg("--dir").arg(dir.path()).arg("--out").arg(dir.path().join("out"));
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
