//! Incomplete, altered or foreign bundles are never ingested. Databases that changed since their import are not published.

use std::path::Path;

use serde_json::{Value, json};

use crate::Needs;
use crate::common::bundle::*;
use crate::common::crash::{Chance, plain, rounds, small};
use crate::common::database::{flip, open};
use crate::common::run::{Place, import};
use crate::common::store::{Answer, Store};

tests! {
    Needs::Nothing => [
        changed_bytes_of_a_description_are_refused,
        seed_refuses_only_the_damaged_file,
        file_changed_during_fetch_is_refused,
        invalid_description_is_refused_before_fetch,
        seed_reports_a_missing_bundle,
        modified_database_is_not_published,
    ];
}

fn changed_bytes_of_a_description_are_refused() {
    let place = Place::in_memory();
    let to = published(&place, small());
    let y = place.path("y");
    let mut chance = Chance::new();
    for (path, few) in [(to.join("latest"), 8), (to.join(latest(&to)).join("bundle.json"), 40)] {
        let len = std::fs::metadata(&path).expect("there").len() as usize;
        let count = rounds(few, len);
        for round in 0..count {
            let at = if count == len { round } else { chance.below(len as u64) as usize };
            let is_end = path.ends_with("latest") && at == 64;
            let bytes = flip(&path, at, 1 << (at % 7));
            let ended = seed(&to, &y).run();
            // The end of the line is none of the id.
            assert!(ended.code == Some(3) || is_end, "byte {at} of {}: {ended:?}", path.display());
            if ended.code == Some(3) {
                nothing_is_ingested(&y);
                assert!(!partial(&y).exists());
            }
            std::fs::write(&path, bytes).expect("written");
        }
    }
    let _ = std::fs::remove_dir_all(&y);
    seed(&to, &y).succeeds();
    holds(&y, small());
}

fn seed_refuses_only_the_damaged_file() {
    let place = Place::new();
    let to = published(&place, plain());
    let all = files(&to);
    let y = place.path("y");
    type Spoil = fn(&[std::path::PathBuf]);
    let spoils: [(&str, Spoil); 6] = [
        ("its BLAKE3 is", |all| drop(flip(&all[1], 4321, 4))),
        ("its BLAKE3 is", |all| {
            let len = all[2].metadata().expect("there").len() as usize;
            drop(flip(&all[2], len - 1, 1));
        }),
        ("bytes long, but the bundle declares", |all| {
            let file = std::fs::File::options().write(true).open(&all[1]).expect("there");
            file.set_len(file.metadata().expect("there").len() - 1).expect("cut");
        }),
        ("bytes long, but the bundle declares", |all| {
            let mut bytes = std::fs::read(&all[0]).expect("there");
            bytes.push(0);
            std::fs::write(&all[0], bytes).expect("written");
        }),
        ("it does not exist", |all| std::fs::remove_file(&all[0]).expect("there")),
        // Each is a file of the bundle.
        ("the bundle declares", |all| {
            let (one, two) = (std::fs::read(&all[0]).expect("there"), std::fs::read(&all[1]).expect("there"));
            std::fs::write(&all[0], two).expect("written");
            std::fs::write(&all[1], one).expect("written");
        }),
    ];
    let sound: Vec<Vec<u8>> = all.iter().map(|path| std::fs::read(path).expect("there")).collect();
    for remote in [false, true] {
        for (number, (words, spoil)) in spoils.iter().enumerate() {
            let _ = std::fs::remove_dir_all(partial(&y));
            spoil(&all);
            let store = Store::of(&to);
            let from = if remote { store.url("") } else { to.display().to_string() };
            let words = if remote && *words == "it does not exist" { "no such file on the server" } else { words };
            seed(&from, &y).refused(3, words);
            nothing_is_ingested(&y);
            all.iter().zip(&sound).for_each(|(path, bytes)| {
                // Files linked into unfinished work stay unchanged.
                let _ = std::fs::remove_file(path);
                std::fs::write(path, bytes).expect("written");
            });
            if number == 0 {
                let store = Store::of(&to);
                let from = if remote { store.url("") } else { to.display().to_string() };
                let done = seed(&from, &y).succeeds();
                assert_eq!(done.json["resumed"], true);
                if remote {
                    let total: usize = sound.iter().map(Vec::len).sum();
                    assert!((store.served() as usize) < total, "all of it came again");
                }
                holds(&y, plain());
                std::fs::remove_dir_all(&y).expect("a database");
            }
        }
    }
}

fn file_changed_during_fetch_is_refused() {
    let place = Place::new();
    let store = Store::of(&published(&place, plain()));
    let y = place.path("y");
    let last = store.objects().keys().rfind(|name| name.starts_with("files/")).expect("a file").clone();
    for (answer, words) in [(Answer::Other, "its BLAKE3 is"), (Answer::Replaced, "")] {
        let (name, asked) = (last.clone(), std::sync::atomic::AtomicUsize::new(0));
        store.now(move |_, asked_for| {
            let is_it = asked_for == name && asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
            if is_it { answer.clone() } else { Answer::Right }
        });
        seed(store.url(""), &y).refused(3, words);
        nothing_is_ingested(&y);
        std::fs::remove_dir_all(partial(&y)).expect("what was right");
    }
    store.now(|_, _| Answer::Right);
    seed(store.url(""), &y).succeeds();
    holds(&y, plain());
}

fn invalid_description_is_refused_before_fetch() {
    let lowest = format!("0171a0e40220{}", "0".repeat(64));
    let place = Place::in_memory();
    let to = published(&place, plain());
    let id = latest(&to);
    let y = place.path("y");
    let set = |path: &'static str, value: Value| {
        move |described: &mut Value| *described.pointer_mut(path).expect("there") = value.clone()
    };
    type Alter = Box<dyn Fn(&mut Value)>;
    let cases: Vec<(&str, Alter)> = vec![
        ("its schema is `bedload-bundle-2`", Box::new(set("/schema", json!("bedload-bundle-2")))),
        ("a different schema", Box::new(set("/schema", json!("else")))),
        ("invalid type", Box::new(set("/files", json!({})))),
        ("not named for its BLAKE3", Box::new(set("/files/0/name", json!("../../x.sst")))),
        ("not named for its BLAKE3", Box::new(set("/files/0/blake3", json!("0")))),
        ("0 bytes", Box::new(set("/files/0/bytes", json!(0)))),
        ("bytes and", Box::new(set("/files/0/bytes", json!(u64::MAX)))),
        ("invalid value", Box::new(set("/files/0/bytes", json!(-1)))),
        ("has an invalid key", Box::new(set("/files/0/first", json!("0g")))),
        ("which default cannot have", Box::new(set("/files/0/last", json!("00")))),
        ("do not follow those of the previous file", Box::new(set("/files/0/last", json!(lowest)))),
        ("do not follow those of the previous file", Box::new(set("/files/1/first", json!(lowest)))),
        ("its import wrote", Box::new(set("/files/0/records", json!(1)))),
        ("too many records", Box::new(set("/files/1/records", json!(u64::MAX)))),
        ("its import wrote", Box::new(set("/files/0/digest", json!("0".repeat(32))))),
        ("its import wrote", Box::new(set("/files/0/column_family", json!("other")))),
        ("are not the sum of blocks written and duplicates", Box::new(set("/record/blocks/written", json!(5)))),
        ("its import wrote", Box::new(set("/record/column_family", json!("other")))),
        ("does not have the schema", Box::new(set("/record/schema", json!("bedload-import-99")))),
        ("unknown variant", Box::new(set("/record/key", json!("another layout")))),
        (
            "is in it twice",
            Box::new(|described| {
                let first = described["files"][0].clone();
                described["files"].as_array_mut().expect("files").insert(1, first);
            }),
        ),
        (
            "has an unknown column family",
            Box::new(|described| {
                let mut more = described["files"][0].clone();
                more["column_family"] = "other".into();
                described["files"].as_array_mut().expect("files").push(more);
            }),
        ),
        (
            "its import wrote",
            Box::new(|described| {
                described["files"].as_array_mut().expect("files").pop();
            }),
        ),
        ("unknown field", Box::new(|described| described["more"] = json!(1))),
        (
            "do not follow those of the previous file",
            Box::new(|described| {
                described["files"].as_array_mut().expect("files").swap(0, 1);
            }),
        ),
    ];
    for (words, change) in cases {
        alter(&to, &change);
        let store = Store::of(&to);
        for from in [to.display().to_string(), store.url("")] {
            let refused = seed(&from, &y).refused(3, words);
            assert!(!refused.stderr.contains('\u{1b}'));
            assert!(!partial(&y).exists() && !y.exists(), "{words}");
        }
        assert!(!store.requests().iter().any(|(_, name)| name.starts_with("files/")), "{words}: it fetched files");
        std::fs::write(to.join("latest"), &id).expect("written");
    }
    seed(&to, &y).succeeds();
    holds(&y, plain());
}

fn seed_reports_a_missing_bundle() {
    let (place, store) = (Place::new(), Store::new());
    let y = place.path("y");
    for from in [place.path("none").display().to_string(), place.path("").display().to_string(), store.url("")] {
        seed(&from, &y).refused(3, "there is no bundle here");
        assert!(!partial(&y).exists());
    }
    let file = place.file("latest", b"../../etc/passwd\n");
    seed(file.parent().expect("a folder"), &y).refused(3, "names no bundle");
    seed(place.path(""), &y).arg(&["--bundle", &"0".repeat(64)]).refused(3, "it does not exist");
}

fn modified_database_is_not_published() {
    let place = Place::new();
    let to = place.path("bundles");
    let nothing = |words: &str| assert!(!to.join("latest").exists() && !to.join("files").exists(), "{words}");
    let with = |code: i32, words: &str, args: &[&str], spoil: &dyn Fn(&Path)| {
        let place = Place::new();
        let done = import(&place, &plain().file).args(args).run();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        spoil(&done.db);
        bundle(&done.db, &to).refused(code, words);
        nothing(words);
    };
    let sst = |db: &Path| {
        let all = db.read_dir().expect("a folder").map(|entry| entry.expect("one").path());
        all.filter(|path| path.extension().is_some_and(|it| it == "sst")).max().expect("a file")
    };
    with(4, "has no BEDLOAD.json", &SMALL_FILES, &|db| std::fs::remove_file(db.join("BEDLOAD.json")).expect("there"));
    with(3, "BEDLOAD.json does not match", &SMALL_FILES, &|db| {
        let path = db.join("BEDLOAD.json");
        let text = std::fs::read_to_string(&path).expect("text").replace("plain.car", "other.car");
        std::fs::write(&path, text).expect("written");
    });
    with(4, "through memtables", &["--preset", "memtable"], &|_| ());
    with(3, "its import wrote", &SMALL_FILES, &|db| open(db).put(b"a key", b"a value").expect("written"));
    with(4, "a node has written to it", &SMALL_FILES, &|db| {
        let node = open(db);
        node.put(b"a key", b"a value").expect("written");
        node.flush().expect("flushed");
    });
    with(4, "a node has written to it", &SMALL_FILES, &|db| {
        let mut anew = rust_rocksdb::CompactOptions::default();
        anew.set_bottommost_level_compaction(rust_rocksdb::BottommostLevelCompaction::Force);
        open(db).compact_range_opt(None::<&[u8]>, None::<&[u8]>, &anew);
    });
    // In the records, and in the filter, index or properties after them.
    with(3, "does not match the report of its import", &SMALL_FILES, &|db| drop(flip(&sst(db), 2000, 1)));
    for from_end in [1500, 4000, 20] {
        with(3, "does not match the report of its import", &SMALL_FILES, &|db| {
            let path = sst(db);
            let len = path.metadata().expect("there").len() as usize;
            drop(flip(&path, len - from_end, 1));
        });
    }
    with(3, "does not match the report of its import", &SMALL_FILES, &|db| {
        let file = std::fs::File::options().write(true).open(sst(db)).expect("there");
        file.set_len(file.metadata().expect("there").len() - 1).expect("cut");
    });
}
