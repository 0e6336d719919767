//! Parts of bundles: some column families, or the files that have keys of a range.

use serde_json::Value;

use crate::Needs;
use crate::common::bundle::*;
use crate::common::crash::plain;
use crate::common::model::records;
use crate::common::run::{Place, bedload, import};
use crate::common::store::Store;

tests! {
    Needs::Nothing => [
        a_range_takes_the_files_that_have_its_keys_and_the_record_is_true_for_them,
        a_range_with_all_keys_is_the_whole,
        a_part_is_not_published_as_the_whole,
        a_part_goes_on_as_that_part,
        a_log_is_seeded_without_its_indexes,
        what_is_no_part_is_told,
    ];
}

const PREFIX: &str = "0171a0e40220";

fn a_range_takes_the_files_that_have_its_keys_and_the_record_is_true_for_them() {
    let place = Place::new();
    let to = published(&place, plain());
    let store = Store::of(&to);
    let (whole, y) = (described(&to), place.path("y"));
    let all = whole["files"].as_array().expect("files").clone();
    let range = format!("{PREFIX}40..{PREFIX}5f");
    let seeded = seed(store.url(""), &y).arg(&["--only-range", &range]).succeeds();
    let meets = |file: &&Value| {
        let key = |name: &str| file[name].as_str().expect("hex").to_owned();
        key("last") >= format!("{PREFIX}40") && key("first") < format!("{PREFIX}60")
    };
    let wanted: Vec<&Value> = all.iter().filter(meets).collect();
    assert!(!wanted.is_empty() && wanted.len() < all.len() / 2, "{} of {}", wanted.len(), all.len());
    let fetched: Vec<String> =
        store.requests().into_iter().map(|(_, name)| name).filter(|name| name.starts_with("files/")).collect();
    for file in &all {
        let name = format!("files/{}", file["name"].as_str().expect("a name"));
        assert_eq!(fetched.contains(&name), meets(&file), "{name}");
    }
    let count: u64 = wanted.iter().map(|file| file["records"].as_u64().expect("a number")).sum();
    assert_eq!(seeded.number("/blocks/written"), count);
    assert_eq!(seeded.number("/part/files"), wanted.len() as u64);
    assert_eq!(seeded.number("/part/of_files"), all.len() as u64);
    assert_eq!(seeded.text("/part/of_digest"), plain().digest);
    assert_eq!(seeded.text("/part/range"), range);
    let held = records(&y);
    assert_eq!(held.len() as u64, count);
    let bytes: usize = held.values().map(Vec::len).sum();
    assert_eq!(seeded.number("/payload_bytes"), bytes as u64);
    let within = plain().blocks.iter().filter(|(cid, _)| (0x40..0x60).contains(&cid[6]));
    assert!(within.into_iter().all(|(cid, data)| held.get(cid) == Some(data)), "a key of the range is missing");
    is_valid(&y);
    let verified = bedload().arg("verify").arg(&y).output().expect("it runs");
    assert!(String::from_utf8_lossy(&verified.stdout).contains("it is a part"), "{verified:?}");
}

fn a_range_with_all_keys_is_the_whole() {
    let place = Place::new();
    let to = published(&place, plain());
    for range in ["..", "00..ff"] {
        let y = place.path("y");
        let seeded = seed(&to, &y).arg(&["--only-range", range, "--column-family", "default"]).succeeds();
        assert!(seeded.json["part"].is_null());
        holds(&y, plain());
        bundle(&y, &to).succeeds();
        std::fs::remove_dir_all(&y).expect("a database");
    }
}

fn a_part_is_not_published_as_the_whole() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    seed(&to, &y).arg(&["--only-range", &format!("..{PREFIX}1f")]).succeeds();
    let id = latest(&to);
    bundle(&y, &to).refused(4, "is a part of a bundle");
    assert_eq!(latest(&to), id);
}

fn a_part_goes_on_as_that_part() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    let (one, other) = (format!("..{PREFIX}3f"), format!("{PREFIX}40.."));
    seed(&to, &y).arg(&["--only-range", &one]).dies_at("fetched:2");
    seed(&to, &y).arg(&["--only-range", &other]).refused(4, "unfinished import of something else: part was");
    seed(&to, &y).refused(4, "unfinished import of something else: part was");
    seed(&to, &y).arg(&["--only-range", &one]).succeeds();
    is_valid(&y);
}

fn a_log_is_seeded_without_its_indexes() {
    let place = Place::new();
    let log = place.path("block_log");
    let made =
        bedload().args(["generate", "--profile", "steem", "--size", "4MiB"]).arg(&log).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let done = import(&place, &log).args(&SMALL_FILES).args(&["--indexes", "ids,transactions"]).run();
    let to = place.path("to");
    bundle(&done.db, &to).succeeds();
    for (families, count) in [(&["default"][..], 1), (&["transactions", "default"], 2)] {
        let y = place.path("y");
        let args: Vec<&str> = families.iter().flat_map(|name| ["--column-family", name]).collect();
        let seeded = seed(&to, &y).arg(&args).succeeds();
        assert_eq!(seeded.json["log"]["families"].as_array().expect("families").len(), count);
        assert_eq!(seeded.json["digest"], done.json["digest"]);
        is_valid(&y);
        bundle(&y, &to).refused(4, "is a part of a bundle");
        std::fs::remove_dir_all(&y).expect("a database");
    }
    let y = place.path("y");
    seed(&to, &y).arg(&["--column-family", "block_ids"]).refused(2, "there are no blocks");
    seed(&to, &y).arg(&["--only-range", "00..01"]).refused(2, "cannot be taken by its keys");
}

fn what_is_no_part_is_told() {
    let place = Place::new();
    let to = published(&place, plain());
    let y = place.path("y");
    seed(&to, &y).arg(&["--column-family", "other"]).refused(2, "has no column family `other`");
    seed(&to, &y).arg(&["--only-range", "ff..ff"]).refused(2, "no file of the bundle has keys");
    for wrong in ["00", "0..1", "02..01"] {
        let ended = seed(&to, &y).arg(&["--only-range", wrong]).run();
        assert_eq!(ended.code, Some(2), "{ended:?}");
    }
    assert!(!partial(&y).exists() && !y.exists());
}
