//! Bundles: what is published is seeded as the import made it, from directories, web servers and object stores.

use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use crate::Needs;
use crate::common::bundle::*;
use crate::common::car::{Block, block, noise, rooted};
use crate::common::crash::{Snapshot, plain, small};
use crate::common::database::flip;
use crate::common::run::{Place, bedload, import};
use crate::common::store::{Answer, Store};

tests! {
    Needs::Nothing => [
        seeded_database_equals_the_import,
        seed_checks_record_counts_of_many_files,
        import_publishes_the_bundle_of_its_database,
        memtable_import_cannot_publish,
        unusable_bundle_directory_is_refused_early,
        import_replaces_damaged_bundle_files,
        bundle_writes_no_file_twice,
        bundle_contains_no_local_paths,
        bundle_rewrites_damaged_files,
        bundle_writes_through_no_link_or_pipe,
        seed_reads_from_a_web_server,
        store_receives_the_pointer_last,
        failed_parts_of_uploads_are_retried,
        bundle_to_a_web_server_is_refused,
        seed_falls_back_to_another_mirror,
        block_log_with_indexes_is_seeded,
        seed_applies_node_options,
        seed_replaces_a_database_only_on_request,
        seed_copies_files_that_others_can_write,
    ];
}

fn seeded_database_equals_the_import() {
    let place = Place::new();
    let to = published(&place, plain());
    let (db, y) = (place.path("db"), place.path("y"));
    let report = seed(&to, &y).succeeds();
    assert_eq!(report.text("/digest"), plain().digest);
    assert_eq!(
        report.json,
        serde_json::from_slice::<Value>(&record(&y)).map(|it| without_the_seal(it, &report.json)).expect("a record")
    );
    holds(&y, plain());
    let imported: Value = serde_json::from_slice(&record(&db)).expect("JSON");
    for field in ["digest", "blocks", "key", "column_family", "payload_bytes", "preset", "options", "levels", "head"] {
        assert_eq!(report.json[field], imported[field], "{field}");
    }
    // Publishing the seeded database gives the same bundle.
    let again = bundle(&y, &to).succeeds();
    assert_eq!(again.text("/id"), latest(&to));
    assert_eq!(again.number("/uploaded_files"), 0);
}

/// RocksDB reports the record counts of some twenty files when it opens a database, and of no others.
fn seed_checks_record_counts_of_many_files() {
    let place = Place::new();
    let blocks: Vec<Block> = (0..9000).map(|i| block(&noise(i, 300 + (i * 37 % 400) as usize))).collect();
    let source = place.file("a.car", &rooted(&blocks));
    let done = import(&place, &source).args(&["--set", "load.ingest.sst_size=64K"]).run();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let to = place.path("to");
    assert!(bundle(&done.db, &to).succeeds().number("/files") > 40);
    let y = place.path("y");
    seed(&to, &y).succeeds();
    is_valid(&y);
    // Two files that RocksDB does not count, so that the sum stays right.
    alter(&to, |described| {
        let files = described["files"].as_array_mut().expect("files");
        for (at, by) in [(files.len() - 1, 1), (0, -1)] {
            files[at]["records"] = (files[at]["records"].as_i64().expect("a number") + by).into();
        }
    });
    seed(&to, &place.path("z")).refused(3, "records");
    nothing_is_ingested(&place.path("z"));
}

fn import_publishes_the_bundle_of_its_database() {
    let place = Place::new();
    let whole = content(&published(&place, plain()));
    let (to, work) = (place.path("to"), place.path("work"));
    std::fs::create_dir(&work).expect("a folder");
    let done = import_to(plain(), &to, None, &work).succeeds();
    assert_eq!((done.text("/bundle/id"), done.text("/db")), (&*latest(&to), ""));
    assert_eq!(content(&to), whole);
    assert_eq!(done.number("/bundle/uploaded_files"), done.number("/bundle/files"));
    assert_eq!(work.read_dir().expect("listed").count(), 0, "no database stays");
    assert_eq!(names_only_what_is_there(&to), 1);
    // Nothing shares the files of a bundle.
    let links = |to: &std::path::Path| files(to).iter().map(|file| file.metadata().expect("a file").nlink()).max();
    assert_eq!(links(&to), Some(1));
    let (beside, kept) = (place.path("beside"), place.path("kept-beside"));
    import_to(plain(), &beside, Some(&kept), &work).succeeds();
    assert_eq!(links(&beside), Some(1));
    // With a database, with other threads and memory: nothing is written, and the database is whole.
    let db = place.path("kept");
    let again = import_to(plain(), &to, Some(&db), &work).arg(&["--memory", "64MiB"]).succeeds();
    assert_eq!((again.text("/bundle/id"), again.number("/bundle/uploaded_files")), (&*latest(&to), 0));
    // A bundle of the database is the same one.
    assert_eq!(bundle(&db, &to).succeeds().text("/id"), latest(&to));
    holds(&db, plain());
    // To a store, in one go.
    let store = Store::new();
    let sent = import_to(plain(), "s3://bucket/mainnet", None, &work).at(&store.endpoint()).succeeds();
    assert_eq!(sent.number("/bundle/uploaded_files"), done.number("/bundle/files"));
    let y = place.path("y");
    seed(&to, &y).succeeds();
    holds(&y, plain());
}

fn memtable_import_cannot_publish() {
    let place = Place::new();
    let to = place.path("to");
    let run = import_to(plain(), &to, Some(&place.path("x")), &place.path("work"));
    let ended = run.arg(&["--preset", "memtable"]).run();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(!to.join("latest").exists() && !place.path("x").exists());
}

fn unusable_bundle_directory_is_refused_early() {
    let place = Place::new();
    let (work, db, file) = (place.path("work"), place.path("x"), place.file("file", b"of a user"));
    std::fs::create_dir(&work).expect("a folder");
    for (to, words) in
        [(&db, "is within the database"), (&db.join("a/b"), "is within the database"), (&file, "is not a directory")]
    {
        import_to(plain(), to, Some(&db), &work).refused(2, words);
        assert!(!db.exists() && !partial(&db).exists(), "{}", to.display());
    }
    bundle(&imported(&place, small()), &file).refused(2, "is not a directory");
    assert_eq!(std::fs::read(&file).expect("there"), b"of a user");
    let replaces = import_to(plain(), place.path("to"), None, &work).arg(&["--replace"]).run();
    assert_eq!(replaces.code, Some(2), "{replaces:?}");
    assert!(replaces.stderr.contains("--db"), "{}", replaces.stderr);
}

fn import_replaces_damaged_bundle_files() {
    let place = Place::new();
    let (to, work) = (published(&place, plain()), place.path("work"));
    std::fs::create_dir(&work).expect("a folder");
    let all = files(&to);
    let mut bytes = std::fs::read(&all[0]).expect("a file");
    bytes[99] ^= 1;
    std::fs::write(&all[0], bytes).expect("written");
    std::fs::remove_file(&all[1]).expect("removed");
    let done = import_to(plain(), &to, None, &work).succeeds();
    assert_eq!(done.number("/bundle/uploaded_files"), 2);
    assert_eq!(done.stderr.matches("is damaged or missing").count(), 2, "{}", done.stderr);
    seed(&to, &place.path("y")).succeeds();
    holds(&place.path("y"), plain());
}

fn record(db: &std::path::Path) -> Vec<u8> {
    std::fs::read(db.join("BEDLOAD.json")).expect("a record")
}

/// A record as the report has it, which is measured a little later.
fn without_the_seal(mut record: Value, report: &Value) -> Value {
    let fields = record.as_object_mut().expect("an object");
    fields.remove("checksum");
    for measured in ["seconds", "cpu_seconds", "peak_rss_bytes", "bytes_read", "bytes_written", "samples"] {
        fields.insert(measured.into(), report[measured].clone());
    }
    record
}

fn bundle_writes_no_file_twice() {
    let place = Place::new();
    let (db, to) = (imported(&place, plain()), place.path("bundles"));
    let first = bundle(&db, &to).succeeds();
    let count = first.number("/files");
    assert!(count > 3, "{count} files");
    assert_eq!(first.number("/uploaded_files"), count);
    let inodes = || -> Vec<u64> { files(&to).iter().map(|file| file.metadata().expect("there").ino()).collect() };
    let before = inodes();
    let second = bundle(&db, &to).succeeds();
    assert_eq!((second.number("/uploaded_files"), second.number("/uploaded_bytes")), (0, 0));
    assert_eq!(second.text("/id"), first.text("/id"));
    assert_eq!(inodes(), before);
    // This import has equal records in other bytes: each SST has a random identity.
    let other = Place::new();
    let again = imported(&other, plain());
    let third = bundle(&again, &to).succeeds();
    assert_eq!((third.number("/uploaded_files"), third.text("/id")), (0, first.text("/id")));
    assert_eq!(names_only_what_is_there(&to), 1);
    // Another snapshot is another bundle, beside the first one, which stays.
    let other = Place::new();
    bundle(&imported(&other, small()), &to).succeeds();
    assert_eq!(names_only_what_is_there(&to), 2);
    let y = place.path("y");
    seed(&to, &y).arg(&["--bundle", first.text("/id")]).succeeds();
    holds(&y, plain());
}

fn bundle_contains_no_local_paths() {
    let place = Place::new();
    let to = published(&place, plain());
    let text = std::fs::read_to_string(to.join(latest(&to)).join("bundle.json")).expect("text");
    let own = plain().file.parent().expect("a folder").display().to_string();
    for secret in [own, place.path("").display().to_string()] {
        assert!(!text.contains(secret.trim_end_matches('/')), "{secret} is in it");
    }
    assert!(text.contains("plain.car"));
}

fn bundle_rewrites_damaged_files() {
    let place = Place::new();
    let to = published(&place, plain());
    let (cut, flipped) = (&files(&to)[0], &files(&to)[1]);
    std::fs::write(cut, b"short").expect("written");
    flip(flipped, 1000, 1);
    let again = bundle(&place.path("db"), &to).succeeds();
    assert_eq!(again.number("/uploaded_files"), 2);
    names_only_what_is_there(&to);
    // A pointer or a description that is damaged is written anew as well.
    flip(&to.join("latest"), 3, 1);
    let again = bundle(&place.path("db"), &to).succeeds();
    assert!(again.stderr.contains("warning: the newest bundle cannot be reused"), "{}", again.stderr);
    names_only_what_is_there(&to);
}

/// Another user may have put links or pipes under the names of a bundle.
fn bundle_writes_through_no_link_or_pipe() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let to = published(&place, small());
    let db = place.path("db");
    let (victim, folder) = (place.file("victim", b"of a user"), place.path("folder"));
    std::fs::create_dir(&folder).expect("a folder");
    let aside = place.path("aside");
    let refused = |name: &std::path::Path, target: Option<&std::path::Path>| {
        std::fs::rename(name, &aside).expect("moved");
        match target {
            Some(target) => symlink(target, name).expect("a link"),
            None => {
                rustix::fs::mknodat(rustix::fs::CWD, name, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe")
            }
        }
        bundle(&db, &to).refused(4, "which is not written to");
        std::fs::remove_file(name).expect("it is still there");
        std::fs::rename(&aside, name).expect("moved back");
    };
    let sst = files(&to).remove(0);
    let described = to.join(latest(&to));
    for name in [sst.clone(), described.join("bundle.json"), to.join("latest")] {
        // Right bytes elsewhere are not of the bundle either.
        let same = place.path("same");
        std::fs::copy(&name, &same).expect("copied");
        for target in [victim.as_path(), &same, std::path::Path::new("/dev/null")] {
            refused(&name, Some(target));
        }
        refused(&name, None);
    }
    for name in [to.join("files"), described] {
        refused(&name, Some(&folder));
    }
    assert_eq!(std::fs::read(&victim).expect("there"), b"of a user");
    assert_eq!(folder.read_dir().expect("there").count(), 0);
    bundle(&db, &to).succeeds();
}

fn seed_reads_from_a_web_server() {
    let place = Place::new();
    let store = Store::of(&published(&place, plain()));
    let y = place.path("y");
    let seeded = seed(store.url(""), &y).succeeds();
    assert_eq!(seeded.text("/digest"), plain().digest);
    holds(&y, plain());
    // The report samples the network as for a snapshot.
    let samples = seeded.json["samples"].as_array().expect("samples");
    let received = samples.iter().filter_map(|sample| sample["network"]["received_bytes"].as_u64()).max();
    let total: u64 = files(&place.path("bundles")).iter().map(|file| file.metadata().expect("there").len()).sum();
    assert!(received.is_some_and(|received| received >= total), "{received:?} of {total} bytes");
    // Three names that never change, and the files.
    let asked: std::collections::BTreeSet<String> = store.requests().into_iter().map(|(_, name)| name).collect();
    assert_eq!(asked.len(), store.objects().len());
}

fn store_receives_the_pointer_last() {
    let (place, store) = (Place::new(), Store::new());
    let db = imported(&place, plain());
    let publish = || bundle(&db, "s3://bucket/main").at(&store.endpoint());
    let first = publish().succeeds();
    let written: Vec<String> =
        store.requests().into_iter().filter(|(method, _)| method == "PUT").map(|(_, name)| name).collect();
    let count = first.number("/files") as usize;
    assert_eq!(written.len(), count + 2);
    assert!(written[..count].iter().all(|name| name.starts_with("bucket/main/files/")), "{written:?}");
    assert_eq!(
        written[count..],
        [format!("bucket/main/{}/bundle.json", first.text("/id")), "bucket/main/latest".into()]
    );
    let second = publish().succeeds();
    assert_eq!(second.number("/uploaded_files"), 0);
    assert!(!store.requests().iter().any(|(method, name)| method == "PUT" && name.contains("/files/")));
    let y = place.path("y");
    let seeded = seed("s3://bucket/main", &y).at(&store.endpoint()).succeeds();
    assert!(!format!("{}{}", seeded.json, seeded.stderr).contains("a-hidden-secret"));
    holds(&y, plain());
}

fn failed_parts_of_uploads_are_retried() {
    let (place, store) = (Place::new(), Store::new());
    let blocks: Vec<Block> = (0..3).map(|i| block(&noise(i, 9 << 20))).collect();
    let long = Snapshot::of_blocks("long.car", rooted(&blocks), &blocks);
    let db = imported(&place, &long);
    let failures = std::sync::atomic::AtomicUsize::new(0);
    store.now(move |method, name| {
        let is_wanted = method == "PUT" && name.contains("/files/");
        match is_wanted && failures.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 5 == 1 {
            true => Answer::Status(503),
            false => Answer::Right,
        }
    });
    bundle(&db, "s3://bucket/main").at(&store.endpoint()).succeeds();
    assert!(store.requests().iter().any(|(method, _)| method == "POST"), "no file came in parts");
    for (name, bytes) in store.objects() {
        if let Some(sum) = name.strip_prefix("bucket/main/files/").and_then(|name| name.strip_suffix(".sst")) {
            assert_eq!(blake3::hash(&bytes).to_hex().as_str(), sum);
        }
    }
    let y = place.path("y");
    seed("s3://bucket/main", &y).at(&store.endpoint()).succeeds();
    holds(&y, &long);
    // A refused upload ends the command, and no pointer is written.
    let other = Store::new();
    other.now(|method, _| if method == "PUT" { Answer::Status(403) } else { Answer::Right });
    bundle(&db, "s3://bucket/main").at(&other.endpoint()).refused(3, "denies");
    assert!(other.objects().is_empty());
}

fn bundle_to_a_web_server_is_refused() {
    let place = Place::new();
    let db = imported(&place, small());
    bundle(&db, "http://127.0.0.1:1/x").refused(2, "is at a web server, which takes no files");
    bundle(&db, &db).refused(2, "is a database");
}

fn seed_falls_back_to_another_mirror() {
    let place = Place::new();
    let to = published(&place, plain());
    let (one, two) = (Store::of(&to), Store::of(&to));
    one.edit(|objects| {
        let name = objects.keys().find(|name| name.starts_with("files/")).expect("a file").clone();
        objects.remove(&name);
        // It does not even say which bundle there is.
        objects.insert("latest".into(), b"<html>".to_vec());
    });
    two.edit(|objects| {
        let name = objects.keys().rfind(|name| name.starts_with("files/")).expect("a file").clone();
        objects.get_mut(&name).expect("there")[77] ^= 4;
    });
    let y = place.path("y");
    let mut command = bedload();
    command.args(["seed", "--from-url", &one.url(""), "--from-url", &two.url(""), "--db"]).arg(&y);
    let done = command.output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    holds(&y, plain());
    for store in [one, two] {
        assert!(store.requests().iter().any(|(_, name)| name.starts_with("files/")), "it had nothing to do");
    }
}

fn block_log_with_indexes_is_seeded() {
    let place = Place::new();
    let log = place.path("block_log");
    let made =
        bedload().args(["generate", "--profile", "steem", "--size", "4MiB"]).arg(&log).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for index in [&["--indexes", "ids,transactions"][..], &["--indexes", "none"], &[]] {
        let place = Place::new();
        let done = import(&place, &log).args(&SMALL_FILES).args(index).run();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let (to, y) = (place.path("bundles"), place.path("y"));
        bundle(&done.db, &to).succeeds();
        let seeded = seed(&to, &y).succeeds();
        assert_eq!(seeded.json["log"]["families"], done.json["log"]["families"], "{index:?}");
        is_valid(&y);
    }
}

fn seed_applies_node_options() {
    let place = Place::new();
    let to = published(&place, small());
    let y = place.path("y");
    let seeded = seed(&to, &y).arg(&["--preset", "ingest-compat", "--set", "node.db.max_background_jobs=7"]).succeeds();
    assert_eq!(seeded.text("/preset"), "ingest-compat");
    holds(&y, small());
    let options = std::fs::read_to_string(newest_options(&y)).expect("text");
    assert!(options.contains("max_background_jobs=7"));
    let z = place.path("z");
    seed(&to, &z).arg(&["--options-file", newest_options(&y).to_str().expect("text")]).succeeds();
    assert!(std::fs::read_to_string(newest_options(&z)).expect("text").contains("max_background_jobs=7"));
    holds(&z, small());
    let w = place.path("w");
    seed(&to, &w).arg(&["--preset", "memtable"]).refused(2, "writes through memtables");
    nothing_is_ingested(&w);
}

fn newest_options(db: &std::path::Path) -> std::path::PathBuf {
    let all = db.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    all.filter(|path| path.display().to_string().contains("OPTIONS-")).max().expect("options")
}

fn seed_replaces_a_database_only_on_request() {
    let place = Place::new();
    let to = published(&place, plain());
    let old = Place::new();
    let db = imported(&old, small());
    seed(&to, &db).refused(4, "already exists");
    holds(&db, small());
    seed(&to, &db).arg(&["--replace"]).succeeds();
    holds(&db, plain());
}

fn seed_copies_files_that_others_can_write() {
    let place = Place::new();
    let to = published(&place, plain());
    let open = &files(&to)[0];
    std::fs::set_permissions(open, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("ours");
    let y = place.path("y");
    seed(&to, &y).succeeds();
    let inodes: Vec<u64> =
        y.read_dir().expect("a folder").map(|entry| entry.expect("one").metadata().expect("there").ino()).collect();
    let linked = files(&to).iter().filter(|file| inodes.contains(&file.metadata().expect("there").ino())).count();
    // On a file system that shares blocks, no file is hard-linked.
    assert!(linked == 0 || linked == files(&to).len() - 1, "{linked}");
    assert!(!inodes.contains(&open.metadata().expect("there").ino()));
    holds(&y, plain());
}
