//! `bedload bench`: every run is a result, nothing measured is lost, and what was not measured is null.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::car::{block, car, noise};
use crate::common::crash::{ended, send, wait_for};
use crate::common::database::{bedload, flip, generate, generate_as};
use predicates::str::contains;
use rustix::process::Signal;
use serde_json::Value;

/// A comparison with few lookups. The options are the words of `line`.
fn bench(snapshot: &Path, out: &Path, line: &str) -> assert_cmd::assert::Assert {
    let mut command = bedload();
    command.arg("bench").arg(snapshot).arg("--out").arg(out).args(line.split(' '));
    if !line.contains("--lookups") {
        command.args(["--lookups", "50"]);
    }
    command.assert()
}

fn results(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("results.json")).expect("results")).expect("json")
}

pub fn lines(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("runs.ndjson")).unwrap_or_default();
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
}

fn of<'a>(results: &'a Value, variant: &str) -> &'a Value {
    let all = results["figures"]["variants"].as_array().expect("variants");
    all.iter().find(|it| it["variant"] == variant).unwrap_or_else(|| panic!("no {variant}"))
}

/// The stored runs.
fn runs(out: &Path) -> Vec<Value> {
    lines(out).iter().map(|line| serde_json::from_str(line).expect("json")).collect()
}

/// The first stored run of a variant.
fn run_of(out: &Path, variant: &str) -> Value {
    runs(out).into_iter().find(|run| run["variant"] == variant).expect(variant)
}

/// The report that `bench` prints about stored results.
fn judged(args: &[&str], outs: &[&Path]) -> Value {
    let output = bedload().args(["bench", "--json"]).args(args).args(outs).assert().success();
    serde_json::from_slice(&output.get_output().stdout).expect("json")
}

/// A folder with a snapshot, and a path for results.
pub fn place(size: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let (snapshot, out) = (generate(dir.path(), size), dir.path().join("out"));
    (dir, snapshot, out)
}

#[test]
fn bench_measures_every_preset_and_the_copy() {
    let (_dir, snapshot, out) = place("2MiB");
    bench(&snapshot, &out, "--presets ingest,memtable --runs 2 --warmup 1")
        .success()
        .stdout(contains("ratio"))
        // "run 7 more rounds", or how many more are out of reach: the spread of two rounds decides.
        .stdout(contains("not decided   "))
        .stdout(contains(" more round"))
        .stdout(contains("fastest"));
    let results = results(&out);
    assert_eq!(results["schema"], "bedload-bench-5");
    assert_eq!(results["setup"]["complete"], true);
    let names: Vec<Value> = runs(&out).iter().map(|run| run["variant"].clone()).collect();
    // Each round in a random order, which the seed decides.
    assert_eq!(names, ["cp", "ingest", "memtable", "cp", "ingest", "memtable", "ingest", "memtable", "cp"]);
    assert!(runs(&out).iter().enumerate().all(|(number, run)| run["warmup"] == (number < 3)));

    // The ingest loader has no level 0 and no stalls: that is null, and no metric.
    let ingest = of(&results, "ingest");
    assert_eq!((&ingest["runs"], &ingest["failed"]), (&2.into(), &0.into()));
    let positive = "total_seconds scan_seconds cpu_seconds peak_rss_bytes peak_anonymous_bytes disk_bytes written_bytes \
                    open_files sst_files cold_open_seconds cold_hit_p50 cold_hit_p999 cold_miss_p99 \
                    cold_hit_per_second_threads warm_miss_per_second_threads warm_multi_get_per_second warm_iterate \
                    cold_read_amplification";
    for key in positive.split_whitespace() {
        let metric = &ingest["metrics"][key];
        assert!(metric["median"].as_f64().is_some_and(|it| it > 0.0), "{key}: {metric}");
    }
    assert_eq!(ingest["metrics"]["stalls"], Value::Null);
    assert_eq!(ingest["metrics"]["level0_files"], Value::Null);
    let memtable = of(&results, "memtable");
    assert!(memtable["metrics"]["level0_files"]["median"].as_f64() > Some(0.0));
    // The memtable loader writes everything twice here: a flush, and the final compaction.
    let amplification = |it: &Value| it["metrics"]["write_amplification"]["median"].as_f64().expect("measured");
    assert!((1.0..1.5).contains(&amplification(ingest)), "{}", amplification(ingest));
    assert!(memtable["to_reference"]["ratios"]["total_seconds"]["pairs"] == 2);
    assert!(ingest["to_copy"]["ratio"].as_f64() > Some(0.0));

    let runs = results["runs"].as_array().expect("runs");
    let imports: Vec<&Value> = runs.iter().filter(|run| run["variant"] != "cp").collect();
    assert!(imports.iter().all(|run| run["import"]["digest"] == imports[0]["import"]["digest"]));
    assert!(imports.iter().all(|run| run["scan"]["kind"] == "links" && run["scan"]["missing"] == 0));
    assert!(imports.iter().all(|run| run["reads"]["cold"]["resident_before"].as_f64() < Some(1.0)));
    for run in &imports {
        let bytes = |it: &Value| it.as_u64().unwrap_or_default();
        let levels = run["import"]["levels"].as_array().expect("levels").iter();
        let (levels, disk) = (levels.map(|it| bytes(&it["bytes"])).sum::<u64>(), bytes(&run["import"]["disk_bytes"]));
        assert!((disk / 2..=disk).contains(&levels), "{run}");
        let (cold, warm) = (&run["reads"]["cold"]["hit_counts"], &run["reads"]["warm"]["hit_counts"]);
        assert_eq!(cold["value_bytes"], warm["value_bytes"], "of the same keys: {run}");
        assert!(bytes(&cold["file_bytes"]) > 0 && bytes(&cold["file_bytes"]) > bytes(&warm["file_bytes"]), "{run}");
        assert!(bytes(&warm["cache_hits"]) > 0 && warm["cache_misses"] == 0, "everything was asked before: {run}");
        assert_eq!(run["reads"]["cold"]["miss_counts"]["value_bytes"], 0);
    }
    let copy = run_of(&out, "cp");
    assert_eq!((&copy["import"], &copy["scan"], &copy["reads"]), (&Value::Null, &Value::Null, &Value::Null));

    assert!(std::fs::read_to_string(out.join("report.md")).expect("markdown").contains("| memtable |"));
    assert!(!out.join("bedload-bench.run").exists(), "something is left");
}

#[test]
fn failed_preset_is_a_result() {
    let (_dir, snapshot, out) = place("2MiB");
    let line = "--presets ingest --vary verify=none,nonsense --runs 1";
    bench(&snapshot, &out, line).success().stdout(contains("nonsense failed: import: invalid value"));
    let results = results(&out);
    let failed = of(&results, "ingest verify=nonsense");
    assert_eq!((&failed["runs"], &failed["failed"]), (&0.into(), &1.into()));
    assert_eq!(of(&results, "ingest verify=none")["failed"], 0);
    let recommended = &results["figures"]["recommendation"];
    assert_eq!((&recommended["decision"], &recommended["default"]), (&"only".into(), &"ingest verify=none".into()));
    let run = run_of(&out, "ingest verify=nonsense");
    assert_eq!((&run["failure"]["exit"], &run["import"]), (&2.into(), &Value::Null));
}

#[test]
fn bench_compares_uncompacted_databases() {
    let (_dir, snapshot, out) = place("2MiB");
    let line = "--presets memtable --runs 1 --no-scan --vary load.compaction.final=true,false";
    bench(&snapshot, &out, line).success();
    for (variant, level) in [("memtable final=true", 6), ("memtable final=false", 0)] {
        assert_eq!(run_of(&out, variant)["import"]["levels"][0]["level"], level, "{variant}");
    }
}

#[test]
fn varied_values_multiply_the_presets() {
    let (_dir, snapshot, out) = place("2MiB");
    let vary = "--vary node.table.block_size=4K,64K --set threads=1";
    let line = format!("--presets ingest,memtable --runs 1 --no-scan --lookups 0 {vary}");
    bench(&snapshot, &out, &line).success();
    let results = results(&out);
    let names = results["variants"].as_array().expect("variants").iter().filter_map(|it| it["name"].as_str());
    let expected =
        ["ingest block_size=4K", "ingest block_size=64K", "memtable block_size=4K", "memtable block_size=64K"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    // What is effective is read back from the database.
    let mut options = results["variants"][1]["options"].as_array().expect("options").iter();
    assert_eq!(options.find(|row| row["option"] == "table.block_size").expect("it is set")["value"], "65536");
    let metrics = &of(&results, "ingest block_size=4K")["metrics"];
    assert_eq!((&metrics["scan_seconds"], &metrics["cold_hit_p50"]), (&Value::Null, &Value::Null), "left out");
}

#[test]
fn ablation_sets_each_option_to_its_default() {
    let (dir, snapshot, out) = place("1MiB");
    let preset = dir.path().join("mine.toml");
    let text = "loader = \"ingest\"\n[load.ingest]\nmove_files = true\n[load.table]\nblock_size = \"4K\"\n\
                [node.table]\nblock_size = \"16K\"\n";
    std::fs::write(&preset, text).expect("room");
    let preset = preset.to_str().expect("text");
    let line = format!("--ablate {preset} --runs 1 --lookups 0 --no-scan --set node.cf.compression=kNoCompression");
    bench(&snapshot, &out, &line).success();
    let results = results(&out);
    let note = results["setup"]["notes"][0].as_str().expect("a note");
    assert!(note.ends_with("or change nothing: load.table.block_size"), "{note}");
    let names = results["variants"].as_array().expect("variants").iter().map(|it| it["name"].clone());
    let expected = ["", ", load.ingest.move_files=false", ", node.table.block_size=4096"];
    assert_eq!(names.collect::<Vec<_>>(), expected.map(|option| format!("{preset}{option}")));
    assert_eq!(results["figures"]["reference"], preset);
    let ratios = |option: &str| &of(&results, &format!("{preset}{option}"))["to_reference"]["ratios"];
    assert!(expected[1..].iter().all(|option| ratios(option)["wall_seconds"]["ratio"].as_f64() > Some(0.0)));
    let made = lines(&out);
    bench(&snapshot, &out, &line).success();
    assert_eq!(lines(&out), made, "the same command has nothing left to run");

    std::fs::write(preset, "loader = \"ingest\"\n").expect("room");
    bench(&snapshot, &out, &line).code(2).stderr(contains("has no option that --ablate can set to its default"));
}

#[test]
fn bench_resumes_only_the_same_command() {
    let (_dir, snapshot, out) = place("2MiB");
    let few = "--presets ingest --lookups 0 --runs";
    bench(&snapshot, &out, &format!("{few} 1")).success();
    let before = lines(&out);
    assert_eq!(before.len(), 2);
    bench(&snapshot, &out, &format!("{few} 2")).success();
    let after = lines(&out);
    assert_eq!((after.len(), &after[..2]), (4, &before[..]), "the stored runs stay as they were");
    bench(&snapshot, &out, &format!("{few} 2 --set threads=1"))
        .code(4)
        .stderr(contains("contains a comparison with other settings: variants: ingest, with other options"))
        .stderr(contains("hint: repeat the command of that comparison to resume it"));
    assert_eq!(lines(&out), after);
}

#[test]
fn stopped_comparison_resumes() {
    let (_dir, snapshot, out) = place("2MiB");
    let words = ["--presets", "ingest,ingest-zstd", "--runs", "4", "--lookups", "50", "--progress", "off"];
    let start = || -> Child {
        let mut command = crate::common::run::bedload();
        command.arg("bench").arg(&snapshot).arg("--out").arg(&out).args(words);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let stopped = |count: usize, signal: Signal| {
        let child = start();
        wait_for(|| lines(&out).len() >= count);
        send(&child, signal);
        ended(child)
    };
    stopped(2, Signal::TERM).failed(130, "stopped", &["hint: run the same command again"]);
    stopped(5, Signal::KILL);
    let before = lines(&out);
    assert!(before.len() < 12, "it was killed too late to tell anything");

    assert_eq!(ended(start()).code, Some(0));
    let after = lines(&out);
    assert_eq!(&after[..before.len()], &before[..]);
    let turns: BTreeSet<String> = runs(&out).iter().map(|run| format!("{} {}", run["variant"], run["round"])).collect();
    assert_eq!((after.len(), turns.len()), (12, 12), "no run was made twice");
    assert_eq!(results(&out)["setup"]["complete"], true);
}

#[test]
fn stalls_are_counted() {
    let (_dir, snapshot, out) = place("8MiB");
    let stalling = [
        "load.cf.write_buffer_size=64K",
        "load.cf.disable_auto_compactions=false",
        "load.cf.level0_file_num_compaction_trigger=1",
        "load.cf.level0_slowdown_writes_trigger=1",
        "load.cf.level0_stop_writes_trigger=2",
        "load.db.delayed_write_rate=4M",
        "load.write.batch_bytes=16K",
    ];
    let sets: String = stalling.iter().map(|set| format!(" --set {set}")).collect();
    bench(&snapshot, &out, &format!("--presets memtable --runs 1 --no-scan --lookups 0{sets}")).success();
    let results = results(&out);
    let metrics = &of(&results, "memtable")["metrics"];
    assert!(metrics["stalls"]["median"].as_f64() >= Some(1.0), "{}", metrics["stalls"]);
    assert!(metrics["stall_seconds"]["median"].as_f64() > Some(0.0), "{}", metrics["stall_seconds"]);
}

#[test]
fn ctrl_c_leaves_no_database() {
    use std::io::{BufRead, BufReader};
    let (_dir, snapshot, out) = place("64MiB");
    let mut command = crate::common::run::bedload();
    command.arg("bench").arg(&snapshot).arg("--out").arg(&out).args(["--presets", "ingest", "--runs", "1"]);
    command.args(["--lookups", "0", "--progress", "json"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines().map(|line| line.expect("text"));
    assert!(said.any(|line| line.replace(' ', "").contains("\"action\":\"import\"")), "the import never began");
    let at_work = out.join("bedload-bench.run");
    assert!(at_work.exists(), "the run has made a directory");
    let begun = Instant::now();
    send(&child, Signal::INT);
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    assert!(rest.iter().any(|line| line == "hint: run the same command again to resume"), "{rest:?}");
    assert!(!at_work.exists(), "the temporary database is still there");
    assert!(runs(&out).iter().all(|run| run["variant"] != "ingest"), "a run that was cut is no result");
}

#[test]
fn saved_results_are_judged_and_compared() {
    let (_dir, snapshot, out) = place("2MiB");
    bench(&snapshot, &out, "--presets ingest,memtable --runs 2 --lookups 0").success();
    let before = results(&out);
    std::fs::remove_file(&snapshot).expect("ours");
    let again = judged(&["--recommend"], &[&out.join("results.json")]);
    let asked = &again["figures"]["recommendation"];
    assert_eq!(asked["default"], before["figures"]["recommendation"]["default"]);
    assert_eq!((&again["figures"]["margin"], &asked["decision"]), (&0.05.into(), &"not_decided".into()));
    let many = asked["reason"].as_str().expect("text").starts_with("more than 100 more rounds would be needed");
    let enough = if many { asked["more_rounds"].is_null() } else { asked["more_rounds"].as_u64() >= Some(1) };
    assert!(enough, "two rounds are too few: {asked}");
    assert_eq!(judged(&["--margin", "100", "--recommend"], &[&out])["figures"]["margin"], 1.0);
    bedload().args(["bench", "--quiet", "--recommend"]).arg(&out).assert().success().stdout(contains("not decided"));
    let other = judged(&["--reference", "memtable", "--recommend"], &[&out]);
    assert_eq!(other["figures"]["reference"], "memtable");
    assert_eq!(of(&other, "memtable")["to_reference"], Value::Null);
    assert_eq!(of(&other, "ingest")["to_reference"]["against"], "memtable");
    let nobody = bedload().args(["bench", "--reference", "nobody", "--recommend"]).arg(&out).assert().code(2);
    nobody.stderr(contains("error: the reference `nobody` is not compared"));
    let other_out = out.join("other");
    std::fs::create_dir(&other_out).expect("room");
    let too_long = std::fs::File::create(other_out.join("results.json")).expect("room");
    too_long.set_len((64 << 20) + 1).expect("a sparse file");
    let words = "results.json: it has more than 67108864 bytes\nhint: check the file: ls -lL";
    bedload().args(["bench", "--recommend"]).arg(&other_out).assert().code(1).stderr(contains(words));
    assert_eq!(results(&out), before, "nothing was written");
}

#[test]
fn impossible_comparison_is_refused_first() {
    let (dir, snapshot, out) = place("2MiB");
    let missing = bench(&dir.path().join("nosuch.car"), &out, "--presets ingest").code(3);
    missing.stderr(contains("nosuch.car: there is no such file"));
    let (zip, few) = (dir.path().join("a.zip"), "--presets ingest --runs 1");
    std::fs::write(&zip, b"PK\x03\x04 and the rest of it").expect("written");
    let words = "a.zip at byte 0: this is not a CAR: it is a zip archive";
    bench(&zip, &dir.path().join("zip"), few).code(3).stderr(contains(words));
    assert!(!dir.path().join("zip").exists(), "nothing is kept of it");
    let damaged = dir.path().join("damaged.car");
    std::fs::copy(&snapshot, &damaged).expect("copied");
    flip(&damaged, snapshot.metadata().expect("there").len() as usize - 1, 1);
    let failed = bench(&damaged, &dir.path().join("damaged"), few).code(3);
    failed.stderr(contains("no run succeeded (the first failed with: ")).stderr(contains("damaged.car at byte "));
    for (line, message) in [
        ("--presets ingset", "ingset"),
        ("--presets ingest --set node.table.block_size=many", "node.table.block_size"),
        ("--presets ingest --set colour=red", "`colour=red` is neither an option"),
        ("--presets ingest --runs 0", "--runs 0 gives no results"),
        ("--presets ingest --reference memtable", "the reference `memtable` is not compared"),
        ("--budget soon", "is not a time"),
        ("--margin 0", "is not a percentage"),
    ] {
        bench(&snapshot, &out, line).code(2).stderr(contains(message));
        assert!(lines(&out).is_empty(), "{line}");
    }
}

#[test]
fn no_run_begins_after_the_time_budget() {
    let (_dir, snapshot, out) = place("2MiB");
    let line = "--presets ingest --runs 5000 --budget 2s";
    bench(&snapshot, &out, line).success().stdout(contains("the time budget is used up"));
    let results = results(&out);
    assert_eq!(results["setup"]["complete"], false);
    assert!(!lines(&out).is_empty());
}

#[test]
fn rootless_snapshot_is_scanned_in_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let blocks: Vec<_> = (0..500).map(|seed| block(&noise(seed, 700))).collect();
    let (snapshot, out) = (dir.path().join("rootless.car"), dir.path().join("out"));
    std::fs::write(&snapshot, car(&[], &blocks)).expect("room");
    bench(&snapshot, &out, "--presets ingest --runs 1 --cold").success();
    let run = run_of(&out, "ingest");
    assert_eq!((&run["scan"]["kind"], &run["scan"]["records"]), (&"order".into(), &500.into()));
    assert_eq!(run["scan"]["missing"], Value::Null);
    assert_eq!(run["cache"]["state"], "cold");
    assert!(!run["cache"]["how"].as_str().expect("words").is_empty());
}

#[test]
fn block_log_in_a_folder_is_scanned_by_number() {
    let dir = tempfile::tempdir().expect("a folder");
    let (folder, out) = (dir.path().join("log"), dir.path().join("out"));
    std::fs::create_dir(&folder).expect("room");
    let log = generate_as(folder.join("block_log"), &["--profile", "steem", "--size", "1MiB"]);
    let presets = ["ingest", "ingest-zstd", "memtable", "rocksdb-defaults"];
    let line = format!("--presets {} --runs 1", presets.join(","));
    bench(&folder, &out, &line).success().stdout(contains("all blocks by number"));
    let results = results(&out);
    assert_eq!(results["snapshot"]["bytes"], log.metadata().expect("there").len());
    assert!(results["figures"]["copy"]["median"].as_f64() > Some(0.0), "the folder is copied");
    for preset in presets {
        let figures = of(&results, preset);
        assert_eq!((&figures["runs"], &figures["failed"]), (&1.into(), &0.into()), "{figures}");
        let run = run_of(&out, preset);
        assert_eq!(run["scan"]["kind"], "number", "{preset}");
        assert_eq!(run["scan"]["records"], run["import"]["blocks"], "{preset}");
        assert_eq!(run["import"]["digest"], run_of(&out, "ingest")["import"]["digest"], "{preset}");
        assert!(run["reads"]["warm"]["hit"]["p50_ns"].as_u64() > Some(0), "{preset}");
        let has_levels = !preset.starts_with("ingest");
        assert_eq!(run["import"]["level0_files_before_compaction"].is_u64(), has_levels, "{preset}");
    }
    assert!(std::fs::read_to_string(out.join("report.md")).expect("markdown").contains("all blocks by number"));
    // A folder that has changed is another snapshot.
    std::fs::write(folder.join("block_log.artifacts"), "new").expect("room");
    bench(&folder, &out, &line).code(4).stderr(contains("contains a comparison with other settings: snapshot bytes: "));
}
