//! `bedload inspect`: a quick look, a full one, and the list of blocks.

use crate::common::car::{Block, RAW, blake, rooted};
use crate::common::crash::{f3_metadata, filecoin_header};
use crate::common::database::{bedload, flip, generate, inspect};
use predicates::str::contains;
use serde_json::Value;

#[test]
fn quick_inspect_reads_only_a_part() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "40MiB");
    let whole = inspect(&car, &["--full"], 0);
    // Damage near the end shows only to whom it is read.
    flip(&car, 39 << 20, 0x10);
    let quick = inspect(&car, &[], 0);
    // Generated roots come last: a quick look cannot say whether they are there.
    let present = |report: &Value| {
        report["roots"].as_array().expect("roots").iter().map(|root| root["present"].clone()).collect::<Vec<_>>()
    };
    assert!(present(&whole).iter().all(|present| present == true));
    assert!(present(&quick).iter().all(Value::is_null));
    inspect(&car, &["--full"], 3);
}

#[test]
fn inspect_lists_the_first_ten_bad_blocks() {
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "5MiB");
    let output = bedload().args(["inspect", "--list"]).arg(&car).output().expect("run");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut offsets = Vec::new();
    for line in lines.iter().step_by(lines.len() / 20).take(13) {
        let offset = line["offset"].as_u64().expect("an offset");
        // Behind the length (at most 3 bytes) and the CID (38), inside the block.
        flip(&car, (offset + 41 + line["bytes"].as_u64().expect("a size") / 2) as usize, 0x10);
        offsets.push(offset);
    }
    let report = inspect(&car, &["--full"], 3);
    assert_eq!(report["bad_blocks"], 13);
    let first = report["first_bad"].as_array().expect("a list");
    let listed: Vec<u64> = first.iter().filter_map(|bad| bad["offset"].as_u64()).collect();
    assert_eq!(listed, offsets[..10]);
    bedload()
        .args(["inspect", "--full"])
        .arg(&car)
        .assert()
        .code(3)
        .stdout(contains("checked   13 blocks do not match their CIDs\n"))
        .stderr(contains(format!("error: inspect {}: 13 bad blocks found\nhint: ", car.display())));
}

#[test]
fn inspect_shows_frc_0108_metadata() {
    let text = |block: &Block| super::text(&block.0);
    let heads = [1, 2].map(|ticket| filecoin_header(5_100_000, 1_751_310_000, ticket));
    // Longer than what is read at once.
    let f3 = blake(RAW, &vec![7; 3 << 20]);
    let metadata = f3_metadata(&f3.0, &[&heads[0].0, &heads[1].0]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("v2.car");
    std::fs::write(&path, rooted(&[&[metadata, f3.clone()][..], &heads].concat())).expect("write");
    for more in [&[][..], &["--full"]] {
        let report = inspect(&path, more, 0);
        let found = &report["metadata"];
        assert_eq!((&found["version"], &found["f3_bytes"]), (&2.into(), &(3 << 20).into()), "{more:?}");
        assert_eq!(found["f3"], text(&f3));
        assert_eq!(found["head_tipset"], serde_json::json!(heads.each_ref().map(text)));
        assert_eq!(report["head"], serde_json::json!({"epoch": 5_100_000, "timestamp": 1_751_310_000, "headers": 2}));
    }
    let shown = bedload().arg("inspect").arg(&path).assert().success();
    shown
        .stdout(contains("metadata  FRC-0108 version 2, 3.0 MiB of F3 data\n"))
        .stdout(contains("chain     Filecoin, epoch 5,100,000, 2025-06-30 19:00:00 UTC, 2 headers at the head\n"));
}
