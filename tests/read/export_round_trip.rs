//! `bedload export` writes a snapshot that imports as the same records.

use std::path::{Path, PathBuf};

use super::{made, text};
use crate::common::car::sections;
use crate::common::database::{bedload, generate, import, inspect, open, some_keys};
use crate::common::export::{digest, export, index_finds_every_block, is_in_node_order};
use assert_cmd::Command;
use serde_json::Value;

#[test]
fn exported_blocks_are_ordered_and_indexed() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "4MiB");
    is_in_node_order(&car);
    index_finds_every_block(&car);
}

#[test]
fn bare_keys_are_exported_only_through_links() {
    for key in ["multihash", "digest"] {
        let (dir, car, db) = made("2MiB", &["--key", key]);
        let to = dir.path().join("out.car");
        bedload().args(["export", "--all", "--db"]).arg(&db).arg(&to).assert().code(2).stderr(format!(
            "error: the export of all blocks requires CIDs as keys, but the key layout is {key} according to its record\nhint: \
             omit --all to follow the links from the roots, or list the CIDs with --cids\n"
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
    assert_eq!((&report["missing"], &report["first_missing"][0]["cid"]), (&1.into(), &text(&lost).into()));
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
        let list: String = wanted.iter().map(|(cid, _)| format!("  {}\n\n", text(cid))).collect();
        let (to, mut command) = listed(dir.path(), &db, &list, &[]);
        command.assert().success();
        let expected: Vec<_> = [0, 1, 2, 4].map(|place: usize| wanted[place].clone()).to_vec();
        assert_eq!(sections(&std::fs::read(&to).expect("read")), expected);
        // The header names the first, unless roots are given.
        assert_eq!(inspect(&to, &[], 0)["roots"][0]["cid"], text(&wanted[0].0));

        let absent = "bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke";
        let (to, mut command) = listed(dir.path(), &db, &format!("{list}{absent}\n"), &["--force"]);
        let output = command.assert().code(3).get_output().clone();
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&report["first_missing"][0]["cid"], &report["blocks"]), (&absent.into(), &4.into()));
        assert_eq!(sections(&std::fs::read(&to).expect("the one before")), expected);
    }
}
