//! The files of a database depend on the source, the keys and the options, but not on threads, memory or compression.

use std::path::Path;

use serde_json::Value;

use crate::common::bundle::bundle;
use crate::common::car::*;
use crate::common::run::{Place, bedload, import};

/// Blocks of several classes of keys, some of which belong to none, and duplicates.
fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = (0..6000).map(|i| blake(0x71, &noise(i, 500 + (i * 37 % 900) as usize))).collect();
    blocks.extend((0..900).map(|i| sha256(0x55, &noise(10_000 + i, 300))));
    blocks.extend((0..40).map(|i| identity(0x55, &noise(20_000 + i, 20))));
    blocks.extend_from_within(100..400);
    // An order that has nothing to do with that of the keys, and some of each class at the beginning.
    blocks.sort_by_key(|(cid, data)| (data.len() % 7, cid.last().copied()));
    blocks
}

/// The files that a bundle of `db` consists of, and how many of them had to be written.
fn published(place: &Place, db: &Path) -> (Vec<Value>, u64) {
    let to = place.path("bundle");
    let done = bundle(db, &to).succeeds();
    let text = std::fs::read(to.join(done.text("/id")).join("bundle.json")).expect("a description");
    let description: Value = serde_json::from_slice(&text).expect("JSON");
    (description["files"].as_array().expect("files").clone(), done.number("/uploaded_files"))
}

#[test]
fn car_import_is_deterministic() {
    let place = Place::new();
    let car = rooted(&blocks());
    let plain = place.file("a.car", &car);
    let packed = place.file("a.car.zst", &zstd(&car));
    let small = ["--set", "load.ingest.sst_size=2M"];
    let mut first: Option<Vec<Value>> = None;
    let ways: [&[&str]; 6] = [
        &["--threads", "1"],
        &["--threads", "8", "--memory", "256MiB"],
        &["--threads", "2", "--memory", "16MiB"],
        &["--threads", "2", "--plan", "spill"],
        &["--threads", "5", "--plan", "memory"],
        &["--threads", "3", "--plan", "source"],
    ];
    for (number, way) in ways.iter().enumerate() {
        for source in [&plain, &packed] {
            if way.contains(&"source") && source == &packed {
                continue;
            }
            let form = source.extension().expect("one").display();
            let db = place.path(&format!("db-{number}-{form}"));
            import(&place, source).db(db.clone()).args(&small).args(way).run().succeeded();
            let (files, written) = published(&place, &db);
            match &first {
                None => {
                    assert!(files.len() > 8 && written == files.len() as u64, "{written} of {}", files.len());
                    first = Some(files);
                }
                Some(first) => {
                    assert_eq!(&files, first, "{way:?} {form}");
                    assert_eq!(written, 0, "{way:?} {form}: nothing is written that is there");
                }
            }
        }
    }
}

#[test]
fn block_log_import_is_deterministic() {
    let place = Place::new();
    let source = place.path("block_log");
    let mut generate = bedload();
    generate.arg("generate").arg(&source).args(["--profile", "steem", "--size", "12MiB", "--json"]);
    assert!(generate.output().expect("it runs").status.success());
    let mut first: Option<Vec<Value>> = None;
    for way in [
        ["--threads", "1", "--memory", "128MiB"],
        ["--threads", "8", "--memory", "256MiB"],
        ["--threads", "2", "--memory", "16MiB"],
    ] {
        let db = place.path(&way.concat().replace('-', ""));
        import(&place, &source).db(db.clone()).args(&["--indexes", "ids,transactions"]).args(&way).run().succeeded();
        let (files, written) = published(&place, &db);
        match &first {
            None => first = Some(files),
            Some(first) => {
                assert_eq!(&files, first, "{way:?}");
                assert_eq!(written, 0, "{way:?}");
            }
        }
    }
}

#[test]
fn sst_files_contain_no_host_name() {
    let place = Place::new();
    let source = place.file("a.car", &rooted(&blocks()));
    let db = place.path("db");
    import(&place, &source).db(db.clone()).run().succeeded();
    let marker = b"host.identity";
    let files = db.read_dir().expect("a directory").map(|entry| entry.expect("one").path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).collect();
    assert!(!files.is_empty());
    for path in files {
        let bytes = std::fs::read(&path).expect("a file");
        assert!(!bytes.windows(marker.len()).any(|window| window == marker), "{}", path.display());
    }
}
