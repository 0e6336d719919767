//! `bedload export` writes a snapshot that imports as the same records.

use std::path::{Path, PathBuf};

use super::made;
use crate::common::car::sections;
use crate::common::database::{bedload, generate, import, open, some_keys};
use crate::common::export::{digest, export, index_finds_every_block, is_in_node_order};
use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

#[test]
fn export_orders_blocks_as_nodes_do() {
    let dir = tempfile::tempdir().expect("a directory");
    is_in_node_order(&generate(dir.path(), "3MiB"));
}

#[test]
fn forest_index_finds_every_block() {
    let dir = tempfile::tempdir().expect("a directory");
    index_finds_every_block(&generate(dir.path(), "4MiB"));
}

#[test]
fn bare_keys_are_exported_only_through_links() {
    for key in ["multihash", "digest"] {
        let (dir, car, db) = made("2MiB", &["--key", key]);
        let to = dir.path().join("out.car");
        bedload().args(["export", "--all", "--db"]).arg(&db).arg(&to).assert().code(2).stderr(format!(
            "error: not every record can be exported: blocks are stored by {key} (its record says), which does not name \
             their codecs\nhint: leave --all out to follow links from the roots, or name the CIDs with --cids\n"
        ));
        let report = export(&db, &to, &[], 0);
        assert_eq!(report["all_records"], true);
        assert_eq!(digest(&to, &["--key", key]), report["digest"].as_str().expect("a digest"));
        assert_eq!(digest(&to, &[]), digest(car.as_ref(), &[]));
    }
}

#[test]
fn export_needs_permission_to_omit_blocks() {
    let (dir, _car, db) = made("2MiB", &[]);
    let lost = some_keys(&db, 2).pop().expect("a key");
    open(&db).delete(&lost).expect("delete");
    let to = dir.path().join("out.car");
    let report = export(&db, &to, &[], 3);
    let text = cid::Cid::try_from(&lost[..]).expect("a CID").to_string();
    assert_eq!((&report["missing"], &report["first_missing"][0]["cid"]), (&1.into(), &text.clone().into()));
    assert_eq!(report["complete"], false);
    bedload().args(["export", "--quiet", "--db"]).arg(&db).arg(&to).assert().code(3).stderr(format!(
        "error: export {}: 1 missing block found\nhint: bedload walk lists what is missing; --allow-missing writes the \
         file nevertheless\n",
        db.display()
    ));
    let names: Vec<_> = std::fs::read_dir(dir.path()).expect("list").map(|it| it.expect("entry").file_name()).collect();
    assert_eq!(names.len(), 2, "nothing of it is left: {names:?}");
    let report = export(&db, &to, &["--allow-missing"], 0);
    assert_eq!((&report["complete"], &report["missing"]), (&false.into(), &1.into()));
    // All of what is there needs no links.
    export(&db, &to, &["--all", "--force"], 0);
}

fn listed(dir: &Path, db: &Path, list: &str, more: &[&str]) -> (PathBuf, Command) {
    let to = dir.join("listed.car");
    let mut command = bedload();
    command.args(["export", "--cids", "-", "--json", "--db"]).arg(db).arg(&to).args(more).write_stdin(list);
    (to, command)
}

#[test]
fn export_follows_the_list_without_duplicates() {
    for key in ["cid", "digest"] {
        let dir = tempfile::tempdir().expect("a directory");
        let car = generate(dir.path(), "1MiB");
        let blocks = sections(&std::fs::read(&car).expect("read"));
        let db = import(dir.path(), &car, &["--key", key]);
        let wanted: Vec<_> = [700, 3, 500, 3, 0].map(|number: usize| blocks[number].clone()).to_vec();
        let text = |cid: &[u8]| cid::Cid::try_from(cid).expect("a CID").to_string();
        let list: String = wanted.iter().map(|(cid, _)| format!("  {}\n\n", text(cid))).collect();
        let (to, mut command) = listed(dir.path(), &db, &list, &[]);
        command.assert().success();
        let expected: Vec<_> = [0, 1, 2, 4].map(|place: usize| wanted[place].clone()).to_vec();
        assert_eq!(sections(&std::fs::read(&to).expect("read")), expected);
        // The header names the first, unless roots are given.
        let output = bedload().args(["inspect", "--json"]).arg(&to).output().expect("run");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["roots"][0]["cid"], text(&wanted[0].0));

        let absent = "bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke";
        let (to, mut command) = listed(dir.path(), &db, &format!("{list}{absent}\n"), &["--force"]);
        let output = command.assert().code(3).get_output().clone();
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&report["first_missing"][0]["cid"], &report["blocks"]), (&absent.into(), &4.into()));
        assert_eq!(sections(&std::fs::read(&to).expect("the one before")), expected);
    }
}

#[test]
fn malformed_list_is_refused_with_its_line() {
    let (dir, _car, db) = made("1MiB", &[]);
    let (to, mut command) = listed(dir.path(), &db, "\n\nnonsense\n", &[]);
    command.assert().code(2).stderr(contains("error: line 3 of - is no CID: ").and(contains("one CID a line")));
    assert!(!to.exists());
    let (to, mut command) = listed(dir.path(), &db, "\n", &[]);
    command.assert().code(2).stderr(contains("error: - names no CID\nhint: "));
    assert!(!to.exists());
}

#[test]
fn unknown_extension_needs_a_format() {
    let (dir, _car, db) = made("1MiB", &[]);
    for name in ["out.car.gz", "out.tar", "out.zst", "out"] {
        let to = dir.path().join(name);
        bedload().arg("export").arg(&db).arg(&to).assert().code(2).stderr(format!(
            "error: the ending of {} names no format of this export\nhint: let the name end in .car, .car.zst or \
             .forest.car.zst, or name the format with --format\n",
            to.display()
        ));
        assert!(!to.exists());
    }
    // The option wins over the ending.
    let to = dir.path().join("out.car.zst");
    assert_eq!(export(&db, &to, &["--format", "car"], 0)["format"], "car");
    assert_ne!(std::fs::read(&to).expect("read")[..4], [0x28, 0xb5, 0x2f, 0xfd], "it is packed");
}

#[test]
fn export_explains_a_missing_root_or_file() {
    let (dir, car, db) = made("1MiB", &["--key", "multihash"]);
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("remove");
    let to = dir.path().join("out.car");
    bedload().arg("export").arg(&db).arg(&to).args(["--key", "multihash"]).assert().code(2).stderr(
        "error: no root to export from: the database has no BEDLOAD.json that names one\n\
         hint: name one with --root CID, or the blocks to export with --cids FILE\n",
    );
    // A missing database is reported first.
    let nowhere = dir.path().join("nowhere");
    bedload().arg("export").arg(&nowhere).assert().code(2).stderr(
        "error: a file to write is needed\nhint: name the database and the file: bedload export chain chain.car; `-` is \
         standard output\n",
    );
    let twice = bedload().arg("export").arg("--db").arg(&nowhere).arg(&nowhere).arg(&to).assert().code(2);
    twice.stderr(contains("error: the database is named twice\n"));
    bedload().arg("export").arg(&nowhere).arg(&to).assert().code(4).stderr(contains("there is no such directory"));
    let db = dir.path().join("cids");
    bedload().arg("import").arg(&car).arg("--db").arg(&db).assert().success();
    let to = dir.path().join("no-folder/out.car");
    bedload().arg("export").arg(&db).arg(&to).assert().code(1).stderr(format!(
        "error: create {to}: No such file or directory (os error 2)\n\
         hint: there is no directory {0}: check the path, or make it: mkdir -p {0}\n",
        dir.path().join("no-folder").display(),
        to = to.display(),
    ));
}

#[test]
fn export_replaces_a_file_only_with_force() {
    let (dir, _car, db) = made("1MiB", &[]);
    let to = dir.path().join("out.car");
    std::fs::write(&to, "mine").expect("write");
    bedload()
        .args(["export", "--db"])
        .arg(&db)
        .arg(&to)
        .assert()
        .code(4)
        .stderr(format!("error: {}: it exists\nhint: choose another name, or replace it with --force\n", to.display()));
    assert_eq!(std::fs::read(&to).expect("read"), b"mine");
    export(&db, &to, &["--force"], 0);
    assert!(std::fs::metadata(&to).expect("a file").len() > 1 << 19);
}

#[test]
fn export_writes_only_the_snapshot_to_stdout() {
    let (dir, _car, db) = made("3MiB", &[]);
    let to = dir.path().join("out.car");
    let report_file = dir.path().join("report.json");
    export(&db, &to, &["--report", report_file.to_str().expect("text")], 0);
    let output = bedload().args(["export", "--json", "-", "--db"]).arg(&db).output().expect("run");
    assert!(output.status.success());
    assert!(output.stdout == std::fs::read(&to).expect("read"));
    let report: Value = serde_json::from_slice(&output.stderr).expect("the report");
    let filed: Value = serde_json::from_slice(&std::fs::read(report_file).expect("read")).expect("JSON");
    assert_eq!((&report["digest"], &report["file"]), (&filed["digest"], &"-".into()));
    // A reader that has seen enough.
    let program = crate::common::run::BEDLOAD;
    let pipe = format!("{program} export - --progress off -q --db {} | head -c 100 | wc -c", db.display());
    let output = crate::common::run::hermetic("bash").args(["-o", "pipefail", "-c", &pipe]).output().expect("run");
    assert_eq!((output.status.code(), &output.stdout[..], &output.stderr[..]), (Some(0), &b"100\n"[..], &b""[..]));
}
