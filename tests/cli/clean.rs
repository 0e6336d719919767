//! `bedload clean` removes the files of unfinished imports and nothing else.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::database::{bedload, generate};
use crate::common::run::bedload as program;
use serde_json::Value;

/// Starts an import into `dir/name` that waits in the middle of its source, in files.
fn begun(dir: &Path, name: &str, more: &[&str]) -> (Child, std::process::ChildStdin) {
    let car = std::fs::read(dir.join("snapshot.car")).expect("read");
    let mut command = program();
    command.args(["import", "-", "--db", name, "--progress", "off"]).args(more).current_dir(dir);
    // A memtable loader has no plan.
    if !more.contains(&"memtable") {
        command.args(["--plan", "spill"]);
    }
    command.env("BEDLOAD_DURABLE_BYTES", "100000");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(&car[..car.len() / 2]).expect("it reads");
    let started = Instant::now();
    let journal = dir.join(format!("{name}.partial/journal"));
    // The directories are made after the first line, and before others.
    let lines = if more.contains(&"memtable") { 1 } else { 2 };
    while !std::fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() >= lines) {
        assert!(started.elapsed() < Duration::from_secs(30), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    (child, pipe)
}

/// Begins an import, kills it, and returns its work directory.
fn killed(dir: &Path, name: &str, more: &[&str]) -> PathBuf {
    let (mut child, pipe) = begun(dir, name, more);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    drop(pipe);
    dir.join(format!("{name}.partial"))
}

fn clean(dir: &Path, args: &[&str]) -> (Option<i32>, Value, String) {
    let output = program().args(["clean", "--json"]).args(args).current_dir(dir).output().expect("it runs");
    let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), document, String::from_utf8(output.stderr).expect("text"))
}

fn files(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().expect("list").map(|entry| entry.expect("entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn clean_removes_killed_imports() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "4MiB");
    std::fs::create_dir(dir.path().join("work")).expect("made");
    killed(dir.path(), "one", &[]);
    killed(dir.path(), "two", &["--work-dir", "work"]);
    assert_eq!(files(&dir.path().join("work")).len(), 1, "partitions");
    let before = files(dir.path());
    let (code, report, said) = clean(dir.path(), &[".", "--dry-run"]);
    assert_eq!(
        (code, &report["schema"], &report["dry_run"]),
        (Some(0), &"bedload-clean-1".into(), &true.into()),
        "{said}"
    );
    assert_eq!(report["found"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(report["found"][0]["bytes"].as_u64() > Some(0), "{report}");
    assert_eq!(report["found"][1]["work"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(files(dir.path()), before, "a dry run removes nothing");
    let (code, _, said) = clean(dir.path(), &["."]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("without confirmation: not a terminal\nhint: run it with --dry-run, then with --yes"),
        "{said}"
    );
    assert_eq!(files(dir.path()), before, "nothing is removed without a word");
    let (code, report, said) = clean(dir.path(), &[".", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(report["found"].as_array().expect("a list").iter().all(|found| found["removed"] == true), "{report}");
    assert_eq!(files(dir.path()), ["snapshot.car", "work"]);
    assert_eq!(files(&dir.path().join("work")), [] as [&str; 0]);
    let (code, report, _) = clean(dir.path(), &["."]);
    assert_eq!((code, report["found"].as_array().map(Vec::len)), (Some(0), Some(0)));
}

#[test]
fn clean_accepts_database_or_work_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "4MiB");
    for name in ["one", "one.partial"] {
        let partial = killed(dir.path(), "one", &[]);
        let (code, report, said) = clean(dir.path(), &[name, "--yes"]);
        assert_eq!(code, Some(0), "{name}: {said}");
        assert_eq!(report["found"][0]["path"], "one.partial", "{name}");
        assert!(!partial.exists(), "{name}");
    }
    let (code, _, said) = clean(dir.path(), &["nothing", "--yes"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("nothing is not a directory, and not the name of a database that an import has begun"),
        "{said}"
    );
    let partial = killed(dir.path(), "one", &[]);
    let (code, _, said) = clean(dir.path(), &["one/", "--yes"]);
    assert!(code == Some(0) && !partial.exists(), "{said}");
}

#[test]
fn clean_resolves_equivalent_paths() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "4MiB");
    std::fs::create_dir(dir.path().join("work")).expect("made");
    for (db, work, cleaned) in [("work/one", "work", "work/../work"), ("work/../work/one", "work", "work")] {
        killed(dir.path(), db, &["--work-dir", work]);
        let (code, report, said) = clean(dir.path(), &[cleaned, "--yes"]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(report["found"].as_array().map(Vec::len), Some(1), "{report}");
        assert_eq!(files(&dir.path().join("work")), [] as [&str; 0], "{report}");
    }
}

#[test]
fn clean_keeps_a_running_import() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "4MiB");
    let (mut child, mut pipe) = begun(dir.path(), "one", &[]);
    let (code, report, said) = clean(dir.path(), &[".", "--yes"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("1 of 1 unfinished imports are kept\nhint: "), "{said}");
    let kept = report["found"][0]["kept"].as_str().expect("a reason");
    assert!(kept.starts_with(&format!("an import is working on it (process {} on ", child.id())), "{kept}");
    let car = std::fs::read(dir.path().join("snapshot.car")).expect("read");
    pipe.write_all(&car[car.len() / 2..]).expect("it reads");
    drop(pipe);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(dir.path().join("one/CURRENT").exists());
}

#[test]
fn clean_keeps_foreign_files() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "4MiB");
    std::fs::create_dir(dir.path().join("work")).expect("made");
    let mine = dir.path().join("mine.partial");
    std::fs::create_dir(&mine).expect("made");
    std::fs::write(mine.join("lock"), "mine").expect("written");
    std::fs::write(mine.join("journal"), "mine").expect("written");
    std::fs::write(dir.path().join("file.partial"), "mine").expect("written");
    let elsewhere = tempfile::tempdir().expect("a directory");
    generate(elsewhere.path(), "4MiB");
    let other = killed(elsewhere.path(), "other", &[]);
    symlink(&other, dir.path().join("link.partial")).expect("linked");
    let before = files(dir.path());
    let (code, report, said) = clean(dir.path(), &[".", "--yes"]);
    assert_eq!((code, report["found"].as_array().map(Vec::len)), (Some(0), Some(0)), "{said}{report}");
    assert_eq!(files(dir.path()), before);
    assert!(other.join("journal").exists(), "a link is not followed");

    // A file of the user among those of an import: all of it stays, since an import needs it whole.
    let partial = killed(dir.path(), "one", &["--work-dir", "work"]);
    let spill = dir.path().join("work").read_dir().expect("there").next().expect("one").expect("listed").path();
    for folder in [&partial, &partial.join("db"), &spill] {
        let _ = std::fs::create_dir(folder);
        std::fs::write(folder.join("notes.txt"), "mine").expect("written");
        let all = || [files(&partial), files(&spill)];
        let before = all();
        for how in ["--dry-run", "--yes"] {
            let (code, report, said) = clean(dir.path(), &[".", how]);
            assert_eq!(code, Some(if how == "--yes" { 4 } else { 0 }), "{said}");
            let kept = report["found"][0]["kept"].as_str().expect("a reason");
            assert!(kept.contains("notes.txt is not of an import"), "{kept}");
            assert_eq!((&report["removed_bytes"], all()), (&0.into(), before.clone()), "{how}");
        }
        std::fs::remove_file(folder.join("notes.txt")).expect("there");
    }
    // Partitions whose import is elsewhere are shown, and stay.
    let (code, report, said) = clean(dir.path(), &["work", "--yes"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(report["found"][0]["kept"].as_str().is_some_and(|kept| kept.contains("of another place")), "{report}");
    let (code, _, said) = clean(dir.path(), &["one", "--yes"]);
    assert!(code == Some(0) && !partial.exists() && !spill.exists(), "{said}");
}

/// The bug: imports of older versions left an empty directory on FUSE, which `clean` did not find.
#[test]
fn clean_removes_an_empty_partial_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("db.partial")).expect("made");
    let (code, report, said) = clean(dir.path(), &[".", "--yes"]);
    assert_eq!((code, &report["found"][0]["removed"]), (Some(0), &true.into()), "{said}{report}");
    assert_eq!(files(dir.path()), [] as [&str; 0]);
}

#[test]
fn clean_keeps_the_checkpoint_of_a_database() {
    let dir = tempfile::tempdir().expect("a directory");
    generate(dir.path(), "4MiB");
    bedload().args(["import", "snapshot.car", "--db", "one", "--quiet"]).current_dir(dir.path()).assert().success();
    let partial = killed(dir.path(), "one", &["--into-existing", "--preset", "memtable"]);
    let had = files(&partial);
    if !partial.join("checkpoint").exists() {
        // It was killed before it wrote to the database.
        std::fs::create_dir(partial.join("checkpoint")).expect("made");
    }
    let (code, report, said) = clean(dir.path(), &[".", "--yes"]);
    assert_eq!(code, Some(4), "{had:?}: {said}");
    let kept = report["found"][0]["kept"].as_str().expect("a reason");
    assert!(kept.contains("was before an import into it, which is not finished"), "{kept}");
    assert!(partial.join("journal").exists());
}
