//! A bare digest does not name its hash function. The import records the functions of the source, and `verify` accepts
//! no other.

use std::path::Path;

use crate::common::car::*;
use crate::common::crash::{Case, From, Way, hashed};
use crate::common::database::{json as read, open, record};
use crate::common::model::Key;
use crate::common::run::{Place, import};
use serde_json::{Value, json};

/// Multicodecs of the functions in the snapshot: sha2-256, blake2b-256.
const MIXED: [u64; 2] = [0x12, 0xb220];

fn recorded(db: &Path) -> Value {
    record(db)["hash_functions"].clone()
}

#[test]
fn hash_functions_are_recorded_for_digests() {
    for (key, expected) in [(Key::Digest, json!(MIXED)), (Key::Cid, Value::Null), (Key::Multihash, Value::Null)] {
        for args in [&["--plan", "memory"][..], &["--plan", "spill", "--memory", "16MiB"], &["--preset", "memtable"]] {
            let place = Place::new();
            let done = import(&place, &hashed().file).key(key).args(args).run();
            assert_eq!(done.code, Some(0), "{}", done.stderr);
            assert_eq!(recorded(&done.db), expected, "{args:?}");
            assert_eq!(done.json.get("hash_functions").cloned().unwrap_or_default(), expected, "{args:?}");
            assert_eq!(read(&["verify"], &done.db, &[], 0)["valid"], true);
        }
    }
}

#[test]
fn hash_functions_survive_a_crash() {
    for (way, point) in
        [(Way::Spill, "read:2"), (Way::Spill, "read-done"), (Way::Memory, "held"), (Way::Memory, "built:2")]
    {
        let case = Case::of(hashed(), way, From::File).arg(&["--key", "digest"]);
        case.dies_at(point);
        assert_eq!(case.run().code, Some(0), "after {point}");
        assert_eq!(recorded(&case.db), json!(MIXED), "after {point}");
    }
}

#[test]
fn unrecorded_hash_function_is_a_problem() {
    let place = Place::new();
    let blocks: Vec<_> = (0..50).map(|i| block(&noise(i, 100))).collect();
    let done = import(&place, place.file("x.car", &car(&[], &blocks))).key(Key::Digest).run();
    assert_eq!(recorded(&done.db), json!([0xb220]));
    // A right digest of the value, but of a function that the snapshot did not have.
    let (cid, value) = sha256(RAW, b"from somewhere else");
    open(&done.db).put(&cid[4..], value).expect("put");
    assert_eq!(read(&["verify"], &done.db, &[], 3)["problems"]["kinds"]["hash"], 1);
    // Without the record any likely function may be meant.
    std::fs::remove_file(done.db.join("BEDLOAD.json")).expect("remove");
    read(&["verify"], &done.db, &["--key", "digest"], 0);
}

#[test]
fn added_blocks_record_no_hash_functions() {
    let place = Place::new();
    let done = import(&place, place.file("x.car", &car(&[], &[block(b"one")]))).key(Key::Digest).run();
    assert_eq!(recorded(&done.db), json!([0xb220]));
    let more = place.file("y.car", &car(&[], &[sha256(RAW, b"two")]));
    let done = import(&place, &more).key(Key::Digest).args(&["--into-existing"]).run();
    assert_eq!((done.code, recorded(&done.db)), (Some(0), Value::Null), "{}", done.stderr);
    assert_eq!(read(&["verify"], &done.db, &[], 0)["valid"], true);
}
