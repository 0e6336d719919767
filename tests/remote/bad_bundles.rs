//! Incomplete, altered or foreign bundles are never ingested. Databases that changed since their import are not published.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::bundle::*;
use crate::common::crash::{Chance, copy, plain, rounds, small};
use crate::common::database::{cut, flip, open, ssts};
use crate::common::run::{Place, import};
use crate::common::store::{Act, Store};
use crate::remote::bundle_updates::NODE_WRITES;

#[test]
fn changed_bytes_of_a_description_are_refused() {
    let (_place, to, y) = bundled(small());
    let mut chance = Chance::new();
    for (path, few) in [(to.join("latest"), 8), (to.join(latest(&to)).join("bundle.json"), 40)] {
        let len = std::fs::metadata(&path).expect("there").len() as usize;
        let count = rounds(few, len);
        for round in 0..count {
            let at = if count == len { round } else { chance.below(len as u64) as usize };
            let bytes = flip(&path, at, 1 << (at % 7));
            // The end of the line is none of the id.
            if path.ends_with("latest") && at == 64 {
                let _ = seed(&to, &y).run();
                let _ = std::fs::remove_dir_all(&y);
            } else {
                let ended = seed(&to, &y).refused_at_once(3, "");
                assert!(!y.exists(), "byte {at} of {}: {ended:?}", path.display());
            }
            std::fs::write(&path, bytes).expect("written");
        }
    }
    seed(&to, &y).seeds(small());
}

/// Flips a bit so many bytes from the end.
fn flip_from_end(path: &Path, at: usize) {
    flip(path, path.metadata().expect("there").len() as usize - at, 1);
}

#[test]
fn seed_refuses_only_the_damaged_file() {
    let (_place, to, y) = bundled(plain());
    let all = files(&to);
    let sound: Vec<Vec<u8>> = all.iter().map(|path| std::fs::read(path).expect("there")).collect();
    let longer = [&sound[0][..], &[0]].concat();
    let spoils: [(&str, &dyn Fn()); 6] = [
        ("its BLAKE3 is", &|| drop(flip(&all[1], 4321, 4))),
        ("its BLAKE3 is", &|| flip_from_end(&all[2], 1)),
        ("bytes long, but the bundle declares", &|| cut(&all[1])),
        ("bytes long, but the bundle declares", &|| std::fs::write(&all[0], &longer).expect("written")),
        ("it does not exist", &|| std::fs::remove_file(&all[0]).expect("there")),
        // Each is a file of the bundle.
        ("the bundle declares", &|| {
            std::fs::write(&all[0], &sound[1]).expect("written");
            std::fs::write(&all[1], &sound[0]).expect("written");
        }),
    ];
    for remote in [false, true] {
        let place = |store: &Store| if remote { store.url("") } else { to.display().to_string() };
        for (number, (words, spoil)) in spoils.iter().enumerate() {
            let _ = std::fs::remove_dir_all(partial(&y));
            spoil();
            let store = Store::of(&to);
            let words = if remote && *words == "it does not exist" { "no such file on the server" } else { words };
            seed(place(&store), &y).refused(3, words);
            all.iter().zip(&sound).for_each(|(path, bytes)| {
                // Files linked into unfinished work stay unchanged.
                let _ = std::fs::remove_file(path);
                std::fs::write(path, bytes).expect("written");
            });
            if number == 0 {
                let store = Store::of(&to);
                assert_eq!(seed(place(&store), &y).seeds(plain()).json["resumed"], true);
                let total: usize = sound.iter().map(Vec::len).sum();
                assert!(!remote || (store.served() as usize) < total, "all bytes were requested again");
                std::fs::remove_dir_all(&y).expect("a database");
            }
        }
    }
}

#[test]
fn file_changed_during_fetch_is_refused() {
    let (_place, to, y) = bundled(plain());
    let store = Store::of(&to);
    let last = store.objects().keys().rfind(|name| name.starts_with("files/")).expect("a file").clone();
    for (act, words) in [(Act::Other, "its BLAKE3 is"), (Act::Replaced, "")] {
        let (name, asked) = (last.clone(), AtomicUsize::new(0));
        store.now(move |request, _| {
            let is_it = request.name() == name && asked.fetch_add(1, Ordering::Relaxed) > 0;
            if is_it { act.clone() } else { Act::Serve }
        });
        seed(store.url(""), &y).refused(3, words);
        std::fs::remove_dir_all(partial(&y)).expect("what was right");
    }
    store.now(|_, _| Act::Serve);
    seed(store.url(""), &y).seeds(plain());
}

#[test]
fn seed_reports_a_missing_bundle() {
    let (place, store) = (Place::in_memory(), Store::new());
    let y = place.path("y");
    for (from, words) in [
        (place.path("none").display().to_string(), "there is no such directory"),
        (place.path("").display().to_string(), "the place has no bundle"),
        (store.url(""), "the place has no bundle"),
    ] {
        seed(&from, &y).refused_at_once(3, words);
    }
    place.file("latest", b"../../etc/passwd\n");
    seed(place.path(""), &y).refused(3, "does not name a bundle");
    seed(place.path(""), &y).args(&["--bundle", &"0".repeat(64)]).refused(3, "it does not exist");
}

#[test]
fn modified_database_is_not_published() {
    let place = Place::in_memory();
    let to = place.path("bundles");
    let done = imported(&place, small());
    let with = |code: i32, words: &str, args: &[&str], spoil: &dyn Fn(&Path)| {
        let place = Place::in_memory();
        let db = place.path("db");
        if args == SMALL_FILES {
            copy(&done, &db);
        } else {
            import(&place, &small().file).args(args).succeeds();
        }
        spoil(&db);
        bundle(&db, &to).refused(code, words);
        assert!(!to.join("latest").exists() && !to.join("files").exists(), "{words}");
    };
    with(4, "has no BEDLOAD.json", &SMALL_FILES, &|db| std::fs::remove_file(db.join("BEDLOAD.json")).expect("there"));
    with(3, "BEDLOAD.json does not match", &SMALL_FILES, &|db| {
        let path = db.join("BEDLOAD.json");
        let text = std::fs::read_to_string(&path).expect("text").replace("small.car", "other.car");
        std::fs::write(&path, text).expect("written");
    });
    with(4, "through memtables", &["--preset", "memtable"], &|_| ());
    with(3, "its import wrote", &SMALL_FILES, &|db| open(db).put(b"a key", b"a value").expect("written"));
    for (_, write) in &NODE_WRITES[1..3] {
        with(4, "a node has written to it", &SMALL_FILES, write);
    }
    // In the records, and in the filter, index or properties after them.
    let words = "does not match the report of its import";
    let last = |db: &Path| ssts(db).pop().expect("a file");
    with(3, words, &SMALL_FILES, &|db| drop(flip(&last(db), 2000, 1)));
    for from_end in [1500, 4000, 20] {
        with(3, words, &SMALL_FILES, &|db| flip_from_end(&last(db), from_end));
    }
    with(3, words, &SMALL_FILES, &|db| cut(&last(db)));
}
