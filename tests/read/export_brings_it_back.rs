//! `bedload export`: what was imported comes back as a snapshot, which imports as the same records.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::common::database::{bedload, expected, fixtures, generate, import, json, open, some_keys};
use assert_cmd::Command;
use ipld_core::codec::Links;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_ipld_dagcbor::codec::DagCborCodec;
use serde_json::Value;

const FORMATS: [&str; 3] = ["car", "car.zst", "forest.car.zst"];

fn export(db: &Path, to: &Path, more: &[&str], code: i32) -> Value {
    let to = to.to_str().expect("a path of text");
    let report = json(&["export", to], db, more, code);
    assert_eq!(report["schema"], "bedload-export-1");
    assert_eq!(report["published"], code == 0);
    assert_eq!(Path::new(to).exists(), code == 0);
    report
}

/// The digest of what an import of `snapshot` makes.
fn digest(snapshot: &Path, more: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), snapshot, more);
    let record = std::fs::read(db.join("BEDLOAD.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    record["digest"].as_str().expect("a digest").to_owned()
}

/// The sections of a plain CARv1, read without the library.
fn sections(car: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (len, mut rest) = unsigned_varint::decode::usize(car).expect("the header's length");
    rest = &rest[len..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (len, section) = unsigned_varint::decode::usize(rest).expect("a length");
        let mut body = &section[..len];
        let cid = cid::Cid::read_bytes(&mut body).expect("a CID").to_bytes();
        found.push((cid, body.to_vec()));
        rest = &section[len..];
    }
    found
}

/// What comes out when a stream is read to its end.
fn unpack(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("read");
    if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) { zstd::decode_all(&bytes[..]).expect("zstd") } else { bytes }
}

#[test]
fn real_snapshots_come_back_in_every_format_and_order() {
    let Some(fixtures) = fixtures() else { return };
    for row in expected(&fixtures) {
        let name = row["file"].as_str().expect("file");
        let dir = tempfile::tempdir().expect("a directory");
        let db = import(dir.path(), &fixtures.join(name), &[]);
        let whole = row["links"]["unreachable"] == 0;
        for format in FORMATS {
            let to = dir.path().join(format!("all.{format}"));
            let report = export(&db, &to, &["--all"], 0);
            assert_eq!((&report["digest"], &report["all_records"]), (&row["digest"], &true.into()), "{name}");
            assert_eq!((&report["format"], &report["blocks"]), (&format.into(), &row["distinct"]), "{name}");
            assert_eq!(report["bytes"], std::fs::metadata(&to).expect("a file").len());
            assert_eq!(report["car_bytes"], unpack(&to).len(), "{name} {format}");
            assert_eq!(digest(&to, &[]), row["digest"], "{name} {format}");

            let to = dir.path().join(format!("linked.{format}"));
            let report = export(&db, &to, &["--allow-missing"], 0);
            assert_eq!(report["blocks"], row["links"]["reachable"], "{name}");
            assert_eq!(report["missing"], row["links"]["missing"], "{name}");
            assert_eq!((&report["all_records"], &report["malformed"]), (&whole.into(), &0.into()), "{name}");
            assert_eq!(digest(&to, &[]) == row["digest"], whole, "{name} {format}");
            assert_eq!(sections(&unpack(&to)).len() as u64, row["links"]["reachable"], "{name} {format}");
        }
    }
}

/// Depth first by the book: a block, then all below each of its links; parents wait for what hangs below their children,
/// except those of genesis.
fn model(db: &Path, roots: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let db = open(db);
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    let mut level = roots.to_vec();
    while !level.is_empty() {
        let mut parents = Vec::new();
        for root in level {
            let mut stack = vec![root];
            while let Some(cid) = stack.pop() {
                let codec = cid::Cid::try_from(&cid[..]).expect("a CID").codec();
                let Some(block) = db.get(&cid).expect("read") else { continue };
                if !seen.insert(cid.clone()) {
                    continue;
                }
                order.push(cid);
                let mut links: Vec<Vec<u8>> = match codec {
                    0x71 => DagCborCodec::links(&block).expect("dag-cbor").map(|cid| cid.to_bytes()).collect(),
                    _ => Vec::new(),
                };
                // A header: 16 fields, the fourth from behind of its links and those before are parents.
                let is_header = block[0] == 0x90 && links.len() > 3 && matches!(block[1], 0x42..=0x44);
                if is_header {
                    let [state, receipts, messages]: [Vec<u8>; 3] =
                        links.split_off(links.len() - 3).try_into().expect("three");
                    let own = match db.get(&links[0]).expect("read") {
                        // The parent of genesis is no list.
                        Some(parent) if parent[0] != 0x90 => std::mem::take(&mut links),
                        _ => Vec::new(),
                    };
                    parents.append(&mut links);
                    links = [own, vec![messages, state, receipts]].concat();
                }
                stack.extend(links.into_iter().rev());
            }
        }
        level = parents;
    }
    order
}

#[test]
fn blocks_come_as_nodes_write_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut snapshots = vec![generate(dir.path(), "3MiB")];
    snapshots.extend(fixtures().map(|fixtures| fixtures.join("car/chain4.car")));
    for snapshot in snapshots {
        let dir = tempfile::tempdir().expect("a directory");
        let db = import(dir.path(), &snapshot, &[]);
        let to = dir.path().join("out.car");
        let report = export(&db, &to, &[], 0);
        let roots: Vec<Vec<u8>> = report["roots"]
            .as_array()
            .expect("roots")
            .iter()
            .map(|root| root.as_str().expect("text").parse::<cid::Cid>().expect("a CID").to_bytes())
            .collect();
        let ours: Vec<Vec<u8>> = sections(&unpack(&to)).into_iter().map(|(cid, _)| cid).collect();
        let model = model(&db, &roots);
        let first = ours.iter().zip(&model).position(|(ours, theirs)| ours != theirs);
        assert_eq!((first, ours.len()), (None, model.len()), "{}", snapshot.display());
        // Neither memory nor threads change a byte.
        let again = dir.path().join("again.car");
        export(&db, &again, &["--memory", "1M", "--threads", "1"], 0);
        assert!(std::fs::read(&again).expect("read") == std::fs::read(&to).expect("read"));
    }
}

#[test]
fn the_index_of_a_forest_snapshot_finds_every_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut snapshots = vec![generate(dir.path(), "4MiB")];
    snapshots.extend(fixtures().map(|fixtures| fixtures.join("car/chain4.car")));
    for snapshot in snapshots {
        let dir = tempfile::tempdir().expect("a directory");
        let db = import(dir.path(), &snapshot, &[]);
        let to = dir.path().join("out.forest.car.zst");
        export(&db, &to, &[], 0);
        let archive = std::fs::read(&to).expect("read");
        let word = |at: usize| u64::from_le_bytes(archive[at..at + 8].try_into().expect("8 bytes"));
        // Footer, index and table as the format says; none of the program's own code.
        let footer = archive.len() - 16;
        assert_eq!(archive[footer..footer + 8], [0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0]);
        let index = word(archive.len() - 8) as usize;
        assert_eq!((word(index), archive[index - 8..index - 4].to_vec()), (0xdead_bef0, vec![0x50, 0x2a, 0x4d, 0x18]));
        let (buckets, table) = (word(index + 24), index + 32);
        let blocks = sections(&unpack(&to));
        assert!(blocks.len() > 1000);
        for (cid, block) in &blocks {
            let parsed = cid::Cid::try_from(&cid[..]).expect("a CID");
            let words = parsed.hash().digest().chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().expect("8")));
            let hash = words.fold(parsed.codec() ^ parsed.hash().code(), |hash, word| hash ^ word).saturating_sub(1);
            let mut slot = table + 16 * ((u128::from(hash) * u128::from(buckets)) >> 64) as usize;
            let mut found = false;
            while word(slot) != u64::MAX && !found {
                if word(slot) == hash {
                    let frame = &archive[word(slot + 8) as usize..];
                    let len = zstd::zstd_safe::find_frame_compressed_size(frame).expect("a whole frame");
                    let content = zstd::decode_all(&frame[..len]).expect("a frame");
                    let section = [&cid[..], block].concat();
                    found = content.windows(section.len()).any(|window| window == section);
                }
                slot += 16;
            }
            assert!(found, "{parsed}");
        }
    }
}

#[test]
fn keys_that_name_no_codec_come_back_by_their_links_only() {
    for key in ["multihash", "digest"] {
        let dir = tempfile::tempdir().expect("a directory");
        let car = generate(dir.path(), "2MiB");
        let db = import(dir.path(), &car, &["--key", key]);
        let to = dir.path().join("out.car");
        bedload().args(["export", "--all", "--db"]).arg(&db).arg(&to).assert().code(2).stderr(format!(
            "error: not every record can be exported: blocks are stored by {key} (its record says), which does not name \
             their codecs\nhint: leave --all out to follow links from the roots, or name the CIDs with --cids\n"
        ));
        let report = export(&db, &to, &[], 0);
        assert_eq!(report["all_records"], true);
        assert_eq!(digest(&to, &["--key", key]), report["digest"].as_str().expect("a digest"));
        assert_eq!(digest(&to, &[]), digest(&car, &[]));
    }
}

#[test]
fn a_missing_block_withholds_the_file_until_it_is_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "2MiB");
    let db = import(dir.path(), &car, &[]);
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

#[test]
fn blocks_below_an_epoch_may_be_missing() {
    let Some(fixtures) = fixtures() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), &fixtures.join("car/chain4.car"), &[]);
    // Without a record nobody knows that the snapshot never had them.
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("remove");
    let root = "bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu";
    let to = dir.path().join("out.car");
    let with = |epoch: &'static str| ["--root", root, "--allow-missing-below", epoch];
    let report = export(&db, &to, &with("3"), 3);
    assert_eq!((&report["missing"], &report["missing_allowed"]), (&3.into(), &2.into()));
    let report = export(&db, &to, &with("4"), 0);
    assert_eq!((&report["complete"], &report["all_records"]), (&true.into(), &Value::Null));
    bedload()
        .args(["export", "--db"])
        .arg(&db)
        .arg(dir.path().join("other.car"))
        .assert()
        .code(2)
        .stderr(contains("hint: name one with --root, or export every record with --all"));
}

fn listed(dir: &Path, db: &Path, list: &str, more: &[&str]) -> (PathBuf, Command) {
    let to = dir.join("listed.car");
    let mut command = bedload();
    command.args(["export", "--cids", "-", "--json", "--db"]).arg(db).arg(&to).args(more).write_stdin(list);
    (to, command)
}

#[test]
fn a_list_brings_its_blocks_in_its_order_each_once() {
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

        let nobody = "bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke";
        let (to, mut command) = listed(dir.path(), &db, &format!("{list}{nobody}\n"), &["--force"]);
        let output = command.assert().code(3).get_output().clone();
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&report["first_missing"][0]["cid"], &report["blocks"]), (&nobody.into(), &4.into()));
        assert_eq!(sections(&std::fs::read(&to).expect("the one before")), expected);
    }
}

#[test]
fn a_list_that_is_none_is_refused_with_its_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), &generate(dir.path(), "1MiB"), &[]);
    let (to, mut command) = listed(dir.path(), &db, "\n\nnonsense\n", &[]);
    command.assert().code(2).stderr(contains("error: line 3 of - is no CID: ").and(contains("one CID a line")));
    assert!(!to.exists());
    let (to, mut command) = listed(dir.path(), &db, "\n", &[]);
    command.assert().code(2).stderr(contains("error: - names no CID\nhint: "));
    assert!(!to.exists());
}

#[test]
fn a_file_that_exists_is_replaced_only_by_force() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), &generate(dir.path(), "1MiB"), &[]);
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
fn a_stream_has_the_snapshot_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = import(dir.path(), &generate(dir.path(), "3MiB"), &[]);
    let to = dir.path().join("out.car");
    let report_file = dir.path().join("report.json");
    export(&db, &to, &["--report", report_file.to_str().expect("text")], 0);
    let output = bedload().args(["export", "--json", "-", "--db"]).arg(&db).output().expect("run");
    assert!(output.status.success());
    assert!(output.stdout == std::fs::read(&to).expect("read"));
    let told: Value = serde_json::from_slice(&output.stderr).expect("the report");
    let filed: Value = serde_json::from_slice(&std::fs::read(report_file).expect("read")).expect("JSON");
    assert_eq!((&told["digest"], &told["file"]), (&filed["digest"], &"-".into()));
    // Somebody who has seen enough.
    let program = env!("CARGO_BIN_EXE_bedload");
    let pipe = format!("{program} export - --progress off -q --db {} | head -c 100 | wc -c", db.display());
    let output = Command::new("bash").args(["-o", "pipefail", "-c", &pipe]).output().expect("run");
    assert_eq!((output.status.code(), &output.stdout[..], &output.stderr[..]), (Some(0), &b"100\n"[..], &b""[..]));
}
