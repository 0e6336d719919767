//! `bench` on a snapshot at a URL: it is fetched once and removed afterwards.

use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::assert::Assert;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::crash::{forest, list, log, send, small, wait_for};
use crate::common::run::{Place, bedload};
use crate::common::store::{Act, Store};
use crate::remote::sha256;

/// A comparison that works below `dir`.
fn bench(url: &str, place: &Place, args: &[&str]) -> Command {
    let mut command = bedload();
    command.args(["bench", url, "--presets", "ingest", "--lookups", "0", "--no-scan"]).args(args);
    std::fs::create_dir_all(place.path("dir")).expect("a folder");
    command.arg("--out").arg(place.path("out")).arg("--dir").arg(place.path("dir"));
    command
}

#[track_caller]
fn ends(command: Command, code: i32) -> Assert {
    assert_cmd::Command::from_std(command).assert().code(code)
}

#[track_caller]
fn nothing_is_left(place: &Place) {
    assert!(list(&place.path("dir")).is_empty(), "{:?}", list(&place.path("dir")));
}

fn results(place: &Place) -> Value {
    serde_json::from_slice(&std::fs::read(place.path("out").join("results.json")).expect("results")).expect("JSON")
}

#[test]
fn bench_fetches_once_and_hides_secrets() {
    for snapshot in [forest(), log()] {
        let (place, server) = (Place::in_memory(), Store::serving(snapshot));
        let server = server.with(&format!("{}.sha256sum", snapshot.name), sha256(&snapshot.bytes));
        let address = &server.address;
        let url = format!("http://user:hidden@{address}/{}?hidden-too", snapshot.name);
        let run = |runs: &str| bench(&url, &place, &["--runs", runs]);
        ends(run("2"), 0).stdout(contains("hidden").not()).stderr(contains("hidden").not());
        let (served, len) = (server.served(), snapshot.bytes.len() as u64);
        // Bytes sent to an abandoned connection count, although they are not read. Fetching twice would exceed this.
        let given_up = (len / 2).max(1 << 20);
        assert!((len..len + given_up).contains(&served), "{served} bytes of {len}");
        assert!(server.requests().iter().any(|request| request.headers.contains_key("if-match")), "it is pinned");
        let found = results(&place);
        let shown = format!("http://{address}/{}?…", snapshot.name);
        assert_eq!(found["snapshot"]["path"].as_str(), Some(&*shown));
        assert_eq!(found["snapshot"]["bytes"].as_u64(), Some(len));
        assert_eq!(found["snapshot"]["blocks"].as_u64(), Some(snapshot.read), "an import of it succeeded");
        assert!(found["setup"]["command"].as_str().is_some_and(|command| command.contains(&shown)), "{found}");
        for file in list(&place.path("out")) {
            let text = std::fs::read(&file).expect("read");
            assert!(!String::from_utf8_lossy(&text).contains("hidden"), "{}", file.display());
        }
        nothing_is_left(&place);

        // Completed runs need no snapshot; an added round does.
        ends(run("2"), 0);
        assert!(server.served() < len / 2, "fetched for nothing");
        ends(run("3"), 0);
        assert_eq!(results(&place)["runs"].as_array().map(Vec::len), Some(6));
        server.served();
        // Another file there is another comparison.
        server.replace(snapshot, "\"two\"");
        ends(run("4"), 4).stderr(contains("snapshot tag: \"one\" saved, \"two\" requested"));
        assert!(server.served() < len / 2, "refused before it is fetched");
        nothing_is_left(&place);
    }
}

/// A comparison ends with this exit code and message, and leaves nothing in the folder of its work.
#[track_caller]
fn refuses(source: &str, place: &Place, code: i32, words: &str) {
    ends(bench(source, place, &[]), code).stderr(contains(words));
    nothing_is_left(place);
}

#[test]
fn unusable_source_stops_a_comparison() {
    let (place, server) = (Place::in_memory(), Store::serving(small()).acts(|_, _| Act::WithoutLength));
    refuses(&server.url("a.car"), &place, 2, "does not say how large it is");
    let server = Store::serving(b"<html>no snapshot</html>".to_vec());
    refuses(&server.url("a.car"), &place, 3, "");
    server.now(|_, _| Act::Status(404, ""));
    refuses(&server.url("a.car"), &place, 3, "there is no such file on the server");
    assert!(!place.path("out").exists(), "made for nothing");
    let local = bench(small().file.to_str().expect("text"), &place, &["--connections", "2"]);
    ends(local, 2).stderr(contains("--connections and --endpoint have no effect"));
    let server = Store::serving(small()).with("small.car.sha256sum", sha256(&forest().bytes));
    let words = format!("its SHA-256 is {}, but", sha256(&small().bytes));
    refuses(&server.url("small.car"), &place, 3, &words);
    assert!(place.path("out/bench.json").exists(), "another run may resume there");
    // After the bytes that the probe reads.
    let server = Store::serving(forest()).acts(|request, _| match request.range() {
        Some((first, _)) if (1 << 20..3 << 20).contains(&first) => Act::Status(412, "ETag: \"two\"\r\n"),
        _ => Act::Serve,
    });
    let words = "it changed on the server while it was being read: it was";
    refuses(&server.url("a.car.zst"), &Place::in_memory(), 4, words);
}

#[test]
fn interrupted_fetch_leaves_no_files() {
    let (place, server) = (Place::in_memory(), Store::serving(forest()).acts(|_, _| Act::Slow(1 << 20)));
    let url = server.url("a.car.zst");
    let is_fetched = |dir: &Path| dir.join("snapshot").metadata().is_ok_and(|file| file.len() > 0);
    let stopped_by = |signal: Signal| {
        let mut command = bench(&url, &place, &["--runs", "1", "--connections", "1"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        wait_for(|| list(&place.path("dir")).iter().any(|dir| is_fetched(dir)));
        send(&child, signal);
        child.wait().expect("it ends").code()
    };
    assert_eq!(stopped_by(Signal::INT), Some(130));
    nothing_is_left(&place);
    assert_eq!(stopped_by(Signal::KILL), None);
    assert_eq!(list(&place.path("dir")).len(), 1, "the fetched file is not kept");
    server.now(|_, _| Act::Serve);
    ends(bench(&url, &place, &["--runs", "1"]), 0);
    nothing_is_left(&place);
}

#[test]
fn tune_fetches_the_snapshot_once() {
    let (place, server) = (Place::in_memory(), Store::serving(small()));
    let written = place.path("mine.toml");
    let args = ["--tune", "--json", "--budget", "2s", "--write", written.to_str().expect("text")];
    let tuned = ends(bench(&server.url("a.car"), &place, &args), 0);
    let report: Value = serde_json::from_slice(&tuned.get_output().stdout).expect("JSON");
    assert_eq!(report["snapshot"]["path"].as_str(), Some(&*server.url("a.car")));
    let (served, len) = (server.served(), small().bytes.len() as u64);
    assert!(served < len + (1 << 20), "{served} bytes of {len}");
    nothing_is_left(&place);
}
