//! `bedload get`: keys as people write them, blocks as they want them.

use std::path::{Path, PathBuf};

use super::{made, made_log, put, text};
use crate::common::car;
use crate::common::database::{bedload, generate, import, open, open_all, record, some_keys};
use crate::common::log::hex;
use cid::Cid;
use cid::multibase::Base;
use predicates::str::contains;
use serde_json::Value;

fn get(db: &Path, more: &[&str]) -> assert_cmd::assert::Assert {
    bedload().args(["get", "--db"]).arg(db).args(more).assert()
}

fn json_lines(ended: assert_cmd::assert::Assert) -> Vec<Value> {
    let text = String::from_utf8_lossy(&ended.get_output().stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A database in a key layout, the CID of one of its blocks and the block.
fn database(dir: &Path, layout: &str) -> (PathBuf, Cid, Vec<u8>) {
    let car = generate(dir, "1MiB");
    let by_cid = import(dir, &car, &[]);
    let cid = some_keys(&by_cid, 3).pop().expect("a key");
    let block = open(&by_cid).get(&cid).expect("read").expect("a block");
    std::fs::remove_dir_all(&by_cid).expect("remove");
    (import(dir, &car, &["--key", layout]), Cid::try_from(cid).expect("a CID"), block)
}

#[test]
fn get_accepts_every_multibase() {
    for layout in ["cid", "multihash", "digest"] {
        let dir = tempfile::tempdir().expect("a directory");
        let (db, cid, block) = database(dir.path(), layout);
        let expected = hex(&block) + "\n";
        for base in [Base::Base32Lower, Base::Base58Btc, Base::Base64, Base::Base16Lower, Base::Base36Lower] {
            get(&db, &[&cid.to_string_of_base(base).expect("text")]).success().stdout(expected.clone());
        }
        get(&db, &[&hex(&cid.to_bytes())]).success().stdout(expected.clone());
        let (multihash, digest) = (hex(&cid.hash().to_bytes()), hex(cid.hash().digest()));
        let code = |accepted: bool| if accepted { 0 } else { 2 };
        get(&db, &[&multihash]).code(code(layout != "cid"));
        get(&db, &[&digest]).code(code(layout == "digest"));
    }
}

#[test]
fn get_reads_keys_from_stdin() {
    let (_dir, _car, db) = made("1MiB", &[]);
    let keys = some_keys(&db, 300);
    let records = crate::common::model::records(&db);
    let blocks: String = keys.iter().map(|key| hex(&records[key]) + "\n").collect();
    let mut lines: Vec<String> = keys.iter().map(|key| text(key)).collect();
    let get = |lines: &[String]| bedload().args(["get", "-", "--db"]).arg(&db).write_stdin(lines.join("\n")).assert();
    get(&lines).success().stdout(blocks.clone());
    let absent = "bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke";
    lines.insert(7, absent.into());
    get(&lines)
        .code(1)
        .stdout(blocks)
        .stderr(contains(format!("not in the database: {absent}\n")))
        .stderr(contains("1 of 301 keys are not in the database\nhint: "));
}

#[test]
fn get_json_reports_found_and_missing_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, cid, block) = database(dir.path(), "cid");
    let absent = "bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke";
    let lines = json_lines(get(&db, &["--json", &cid.to_string(), absent]).code(1));
    let found = serde_json::json!({
        "schema": "bedload-get-1", "key": cid.to_string(), "found": true, "bytes": block.len(), "hex": hex(&block),
    });
    let lost = serde_json::json!({
        "schema": "bedload-get-1", "key": absent, "found": false, "bytes": null, "block": null,
    });
    assert_eq!(lines, [found, lost]);
}

#[test]
fn get_decodes_an_identity_cid() {
    let (_dir, _car, db) = made("1MiB", &[]);
    get(&db, &["--as", "json", "0171000180"]).success().stdout("[]\n");
}

#[test]
fn ambiguous_digest_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    // Its digest reads as a multihash: a code of one byte, and the length of what follows. One of 512 does.
    let mut blocks = (0u32..).map(|number| car::sha256(car::RAW, &number.to_le_bytes()));
    let odd = blocks.find(|(cid, _)| matches!(cid[4..], [code, 30, ..] if code < 0x80)).expect("endless");
    let other = car::sha256(car::RAW, b"another block");
    let path = dir.path().join("odd.car");
    std::fs::write(&path, car::car(std::slice::from_ref(&odd.0), &[odd.clone(), other.clone()])).expect("write");
    let db = import(dir.path(), &path, &["--key", "digest"]);
    for (cid, data) in [&odd, &other] {
        for key in [&cid[4..], &cid[2..], &cid[..]] {
            get(&db, &[&hex(key)]).success().stdout(hex(data) + "\n");
        }
    }
    get(&db, &["--as", "json", &hex(&odd.0[4..])]).success().stdout(contains("bytes"));
}

#[test]
fn exact_key_wins_over_other_readings() {
    for (layout, key) in [
        // As a CID: raw, sha2-256; as a multihash: sha2-256.
        ("digest", [&[1, 0x55, 0x12, 32][..], &[7; 32]].concat()),
        ("digest", [&[0x12, 32][..], &[7; 32]].concat()),
        // A multihash of identity, longer than those of other functions, whose code begins as a CID does.
        ("multihash", [&[0, 0xc8, 1][..], &[9; 200]].concat()),
        ("multihash", [&[1, 4][..], &[0, 2, 9, 9]].concat()),
        ("cid", [&[1, 0x55, 0x12, 32][..], &[7; 32]].concat()),
    ] {
        let (_dir, _car, db) = made("1MiB", &["--key", layout]);
        put(&db, [(&key[..], "exact"), (&[7; 32], "otherwise")]);
        get(&db, &["--as", "raw", &hex(&key)]).success().stdout("exact");
        if layout == "digest" {
            open(&db).delete(&key).expect("delete");
            get(&db, &["--as", "raw", &hex(&key)]).success().stdout("otherwise");
        }
    }
}

#[test]
fn get_reads_log_blocks_by_range() {
    let (_dir, _log, db) = made_log("200K", &[]);
    let numbers = |keys: &[&str]| -> Vec<u64> {
        let lines = json_lines(get(&db, keys).success());
        lines.iter().map(|line| line["number"].as_u64().expect("a number")).collect()
    };
    let head = numbers(&["head"])[0];
    assert!(head > 20);
    assert_eq!(numbers(&["1-5", "7", "head"]), [1, 2, 3, 4, 5, 7, head]);
    let block = json_lines(get(&db, &["7"]).success()).remove(0);
    let transactions = block["transactions"].as_array().expect("a list");
    assert!(!transactions.is_empty(), "{block}");
    let operation = &transactions[0]["operations"][0];
    assert!(operation["type"].is_string() && operation["value"].is_object(), "{operation}");
    let there = format!("which has blocks 1 to {head}\nhint: choose numbers in this range; `head` is the last block\n");
    for (key, what) in [
        (format!("{}", head + 1), format!("block {} is", head + 1)),
        (format!("5-{}", head + 1), format!("blocks 5 to {} are", head + 1)),
        ("0-4000000000".into(), "blocks 0 to 4000000000 are".into()),
    ] {
        let said = format!("error: cannot get from {}: {what} not in the database, {there}", db.display());
        get(&db, &[&key]).code(1).stderr(contains(said));
    }
    get(&db, &["3", "0", &format!("{}", head + 5)])
        .code(1)
        .stderr(contains(format!("2 of 3 keys are not in the database, {there}")));
    let id = block["transactions"][0]["transaction_id"].as_str().map_or_else(|| "ab".repeat(20), str::to_owned);
    get(&db, &[&id]).code(1).stderr(contains(
        "hint: only ids of blocks are indexed; `bedload import --indexes ids,transactions` indexes both\n",
    ));
    open_all(&db).0.delete(4u32.to_be_bytes()).expect("deleted");
    let lines = get(&db, &["3-5"]).code(1).stderr(contains(format!(
        "block 4 is not in the database, which has others from 1 to {head}\nhint: bedload verify lists all missing blocks\n"
    )));
    assert_eq!(String::from_utf8_lossy(&lines.get_output().stdout).lines().count(), 2);
    get(&db, &["5-1"]).code(2).stderr("error: the range 5-1 ends before it begins\nhint: write it as 1-5\n");
    get(&db, &["--epoch", "1"]).code(2).stderr(contains("--epoch is for Filecoin"));
}

#[test]
fn get_decodes_headers_and_finds_epochs() {
    let (_dir, _car, db) = made("3MiB", &[]);
    let lines = |more: &[&str]| json_lines(get(&db, more).success());
    let record = record(&db);
    let root = record["source"]["roots"][0].as_str().expect("a root");
    let header = lines(&["--as", "json", root]).pop().expect("a header");
    let head = header["Height"].as_u64().expect("a height");
    assert!(head > 1 && header.as_object().map(serde_json::Map::len) == Some(16), "{header}");
    let both = lines(&["--json", root]).pop().expect("a header");
    assert_eq!(both["block"], header, "the same without --as");
    assert_eq!(both["hex"].as_str().map(str::len), both["bytes"].as_u64().map(|bytes| 2 * bytes as usize));
    for (form, field) in [("hex", "hex"), ("raw", "hex"), ("json", "block")] {
        let one = lines(&["--json", "--as", form, root]).pop().expect("a header");
        let fields: Vec<&String> = one.as_object().expect("a document").keys().collect();
        assert!(fields.contains(&&field.to_owned()) && fields.len() == 5, "--as {form}: {fields:?}");
    }
    assert_eq!(lines(&["--epoch", &head.to_string()]).len(), 3, "all blocks of the tipset");
    let below = lines(&["--epoch", &(head - 1).to_string(), "--json"]).pop().expect("a header");
    assert_eq!(below["key"], header["Parents"][0]["/"]);
    assert_eq!(below["block"]["Height"], head - 1);
    get(&db, &["--epoch", &(head + 1).to_string()]).code(1).stderr(format!(
        "error: cannot get from {}: epoch {} is above the head, which is at epoch {head}\n\
         hint: `bedload stat` shows the epoch of its head; `bedload walk` finds what is missing below it\n",
        db.display(),
        head + 1
    ));
    let parent = Cid::try_from(header["Parents"][0]["/"].as_str().expect("a CID")).expect("a CID");
    open(&db).delete(parent.to_bytes()).expect("delete");
    let said = format!("the chain ends at epoch {head}: its parents are not in the database\n");
    get(&db, &["--epoch", "0"]).code(1).stderr(contains(said));
    std::fs::remove_file(db.join("BEDLOAD.json")).expect("remove");
    get(&db, &["--epoch", "0"]).code(2).stderr(contains("cannot find the epoch"));
}
