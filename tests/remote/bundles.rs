//! Bundles: what is published is seeded as the import made it, from directories, web servers and object stores.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::bundle::*;
use crate::common::car::{block, noise};
use crate::common::crash::{Snapshot, list, plain, small};
use crate::common::database::{flip, record};
use crate::common::run::{Place, bedload, import};
use crate::common::store::{Act, Store};
use crate::remote::runs;

#[test]
fn seeded_database_equals_the_import() {
    let (place, to, y) = bundled(plain());
    let report = seed(&to, &y).seeds(plain());
    is_valid(&y);
    assert_eq!(report.text("/digest"), plain().digest);
    // The report is measured a little later.
    let mut seeded = record(&y);
    let fields = seeded.as_object_mut().expect("an object");
    fields.remove("checksum");
    for measured in ["seconds", "cpu_seconds", "peak_rss_bytes", "bytes_read", "bytes_written", "samples"] {
        fields.insert(measured.into(), report.json[measured].clone());
    }
    assert_eq!(report.json, seeded);
    let made = record(&place.path("db"));
    for field in ["digest", "blocks", "key", "column_family", "payload_bytes", "preset", "options", "levels", "head"] {
        assert_eq!(report.json[field], made[field], "{field}");
    }
    // Publishing the seeded database gives the same bundle, without names of this machine.
    let again = bundle(&y, &to).succeeds();
    assert_eq!((again.text("/id"), again.number("/uploaded_files")), (&*latest(&to), 0));
    let text = std::fs::read_to_string(to.join(latest(&to)).join("bundle.json")).expect("text");
    for secret in [plain().file.parent().expect("a folder"), &place.path("")] {
        assert!(!text.contains(secret.to_str().expect("text").trim_end_matches('/')), "{} is in it", secret.display());
    }
    assert!(text.contains("plain.car"));
    // From a web server: three names that never change, and the files. The report samples the network.
    let store = Store::of(&to);
    std::fs::remove_dir_all(&y).expect("a database");
    let seeded = seed(store.url(""), &y).seeds(plain());
    let samples = seeded.json["samples"].as_array().expect("samples");
    let received = samples.iter().filter_map(|sample| sample["network"]["received_bytes"].as_u64()).max();
    let total: u64 = files(&to).iter().map(|file| file.metadata().expect("there").len()).sum();
    assert!(received.is_some_and(|received| received >= total), "{received:?} of {total} bytes");
    assert_eq!(BTreeSet::from_iter(store.take_names("GET")).len(), store.objects().len());
    // From one that does not tell how long its files are.
    store.now(|_, _| Act::UnknownLength);
    seed(store.url(""), &place.path("z")).seeds(plain());
    is_valid(&place.path("z"));
    // A database is replaced only on request, and files that others can write are copied.
    let open = &files(&to)[0];
    std::fs::set_permissions(open, PermissionsExt::from_mode(0o666)).expect("ours");
    let old = Place::in_memory();
    let db = imported(&old, small());
    seed(&to, &db).refused(4, "already exists");
    holds(&db, small());
    seed(&to, &db).args(&["--replace"]).seeds(plain());
    let inode = |file: &PathBuf| file.metadata().expect("there").ino();
    let inodes: Vec<u64> = list(&db).iter().map(inode).collect();
    let linked = files(&to).iter().filter(|file| inodes.contains(&inode(file))).count();
    // On a file system that shares blocks, no file is hard-linked.
    assert!(linked == 0 || linked == files(&to).len() - 1, "{linked}");
    assert!(!inodes.contains(&inode(open)));
}

#[test]
fn import_publishes_the_bundle_of_its_database() {
    let place = Place::in_memory();
    let whole = content(&published(&place, plain()));
    let (to, work) = (place.path("to"), place.dir("work"));
    let done = import_to(plain(), &to, None, &work).succeeds();
    assert_eq!((done.text("/bundle/id"), done.text("/db")), (&*latest(&to), ""));
    assert_eq!(content(&to), whole);
    assert_eq!(done.number("/bundle/uploaded_files"), done.number("/bundle/files"));
    assert_eq!(work.read_dir().expect("listed").count(), 0, "no database stays");
    assert_eq!(names_only_what_is_there(&to), 1);
    // Nothing shares the files of a bundle.
    let links = |to: &Path| files(to).iter().map(|file| file.metadata().expect("a file").nlink()).max();
    assert_eq!(links(&to), Some(1));
    let (beside, kept) = (place.path("beside"), place.path("kept-beside"));
    import_to(plain(), &beside, Some(&kept), &work).succeeds();
    assert_eq!(links(&beside), Some(1));
    // With a database, with other threads and memory: nothing is written, and the database is whole.
    let db = place.path("kept");
    let again = import_to(plain(), &to, Some(&db), &work).args(&["--memory", "64MiB"]).succeeds();
    assert_eq!((again.text("/bundle/id"), again.number("/bundle/uploaded_files")), (&*latest(&to), 0));
    // A bundle of the database is the same one.
    assert_eq!(bundle(&db, &to).succeeds().text("/id"), latest(&to));
    holds(&db, plain());
    is_valid(&db);
    // To a store, in one go.
    let store = Store::new();
    let sent = import_to(plain(), "s3://bucket/mainnet", None, &work).at(&store.endpoint()).succeeds();
    assert_eq!(sent.number("/bundle/uploaded_files"), done.number("/bundle/files"));
    seed(&to, &place.path("y")).seeds(plain());
}

#[test]
fn unusable_bundle_directory_is_refused_early() {
    let place = Place::in_memory();
    let (work, db, file) = (place.dir("work"), place.path("x"), place.file("file", b"of a user"));
    for (to, words) in
        [(&db, "is within the database"), (&db.join("a/b"), "is within the database"), (&file, "is not a directory")]
    {
        import_to(plain(), to, Some(&db), &work).refused(2, words);
        assert!(!db.exists() && !partial(&db).exists(), "{}", to.display());
    }
    let there = imported(&place, small());
    bundle(&there, &file).refused(2, "is not a directory");
    bundle(&there, "http://127.0.0.1:1/x").refused(2, "is at a web server, which takes no files");
    bundle(&there, &there).refused(2, "is a database");
    assert_eq!(std::fs::read(&file).expect("there"), b"of a user");
    // Nor is the replacement of no database, or a bundle of what memtables have written.
    let to = place.path("to");
    import_to(plain(), &to, None, &work).args(&["--replace"]).run().failed(2, "no database", &["--db"]);
    import_to(plain(), &to, Some(&db), &work).args(&["--preset", "memtable"]).run().failed(2, "memtable", &[]);
    assert!(!to.join("latest").exists() && !db.exists());
}

#[test]
fn bundle_writes_no_file_twice() {
    let place = Place::in_memory();
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
    // These imports have equal records in other bytes: each SST has a random identity.
    for args in [["--threads", "3", "--memory", "64MiB"], ["--threads", "1", "--plan", "spill"]] {
        let other = Place::in_memory();
        let again = import(&other, &plain().file).args(&SMALL_FILES[..2]).args(&args).succeeds();
        let third = bundle(&again.db, &to).succeeds();
        assert_eq!((third.number("/uploaded_files"), third.text("/id")), (0, first.text("/id")), "{args:?}");
        assert_eq!(names_only_what_is_there(&to), 1);
    }
    // Another snapshot is another bundle, beside the first one, which stays.
    let other = Place::in_memory();
    bundle(&imported(&other, small()), &to).succeeds();
    assert_eq!(names_only_what_is_there(&to), 2);
    seed(&to, &place.path("y")).args(&["--bundle", first.text("/id")]).seeds(plain());
}

#[test]
fn damaged_bundle_files_are_written_anew() {
    let (place, to, y) = bundled(plain());
    let (db, work, other) = (place.path("db"), place.dir("work"), Place::in_memory());
    let again = imported(&other, plain());
    let damage = || {
        let all = files(&to);
        flip(&all[0], 99, 1);
        std::fs::write(&all[1], b"short").expect("written");
        std::fs::remove_file(&all[2]).expect("removed");
        all
    };
    // By the database, whose files are those of the bundle.
    damage();
    assert_eq!(bundle(&db, &to).succeeds().number("/uploaded_files"), 3);
    names_only_what_is_there(&to);
    // A pointer or a description that is damaged is written anew as well.
    flip(&to.join("latest"), 3, 1);
    let done = bundle(&db, &to).succeeds();
    done.says(&["warning: the newest bundle cannot be reused"]);
    names_only_what_is_there(&to);
    // By imports of equal records, whose files have other bytes.
    let by_import = || import_to(plain(), &to, None, &work).succeeds();
    for (path, makes) in [
        ("/bundle/uploaded_files", &by_import as &dyn Fn() -> _),
        ("/uploaded_files", &|| bundle(&again, &to).succeeds()),
    ] {
        let (older, all) = (latest(&to), damage());
        let done = makes();
        assert_eq!(done.number(path), 3, "{path}");
        assert_eq!(done.stderr.matches("is damaged or missing").count(), 3, "{}", done.stderr);
        all[..3].iter().for_each(|file| done.says(&[file.file_name().and_then(OsStr::to_str).expect("a name")]));
        assert_ne!(latest(&to), older);
    }
    seed(&to, &y).seeds(plain());
}

/// Another user may have put links or pipes under the names of a bundle.
#[test]
fn bundle_writes_through_no_link_or_pipe() {
    let (place, to, _) = bundled(small());
    let db = place.path("db");
    let (victim, folder) = (place.file("victim", b"of a user"), place.dir("folder"));
    let aside = place.path("aside");
    let refused = |name: &Path, target: Option<&Path>| {
        std::fs::rename(name, &aside).expect("moved");
        target.map_or_else(|| make_pipe(name), |target| symlink(target, name).expect("a link"));
        bundle(&db, &to).refused(4, "which is not written to");
        std::fs::remove_file(name).expect("it is still there");
        std::fs::rename(&aside, name).expect("moved back");
    };
    let described = to.join(latest(&to));
    for name in [files(&to).remove(0), described.join("bundle.json"), to.join("latest")] {
        // Right bytes elsewhere are not of the bundle either.
        let same = place.path("same");
        std::fs::copy(&name, &same).expect("copied");
        for target in [Some(victim.as_path()), Some(&same), Some(Path::new("/dev/null")), None] {
            refused(&name, target);
        }
    }
    for name in [to.join("files"), described] {
        refused(&name, Some(&folder));
    }
    assert_eq!(std::fs::read(&victim).expect("there"), b"of a user");
    assert_eq!(folder.read_dir().expect("there").count(), 0);
    bundle(&db, &to).succeeds();
}

#[test]
fn store_receives_the_pointer_last() {
    let (place, store) = (Place::in_memory(), Store::new());
    let db = imported(&place, plain());
    let publish = || bundle(&db, "s3://bucket/main").at(&store.endpoint());
    let first = publish().succeeds();
    let written = store.take_names("PUT");
    let count = first.number("/files") as usize;
    assert_eq!(written.len(), count + 2);
    assert!(written[..count].iter().all(|name| name.starts_with("bucket/main/files/")), "{written:?}");
    assert_eq!(
        written[count..],
        [format!("bucket/main/{}/bundle.json", first.text("/id")), "bucket/main/latest".into()]
    );
    let second = publish().succeeds();
    assert_eq!(second.number("/uploaded_files"), 0);
    assert!(!store.take_names("PUT").iter().any(|name| name.contains("/files/")));
    let seeded = seed("s3://bucket/main", &place.path("y")).at(&store.endpoint()).seeds(plain());
    assert!(!format!("{}{}", seeded.json, seeded.stderr).contains("a-hidden-secret"));
}

#[test]
fn failed_parts_of_uploads_are_retried() {
    let (place, store) = (Place::in_memory(), Store::new());
    let long = Snapshot::plain("long.car", [block(&noise(0, 9 << 20))]);
    let db = imported(&place, &long);
    let failures = AtomicUsize::new(0);
    store.now(move |request, _| {
        let is_wanted = request.method == "PUT" && request.path.contains("/files/");
        let fails = is_wanted && failures.fetch_add(1, Ordering::Relaxed) % 5 == 1;
        if fails { Act::Status(503, "") } else { Act::Serve }
    });
    bundle(&db, "s3://bucket/main").at(&store.endpoint()).succeeds();
    assert!(!store.take_names("POST").is_empty(), "no file came in parts");
    for (name, bytes) in store.objects() {
        if let Some(sum) = name.strip_prefix("bucket/main/files/").and_then(|name| name.strip_suffix(".sst")) {
            assert_eq!(blake3::hash(&bytes).to_hex().as_str(), sum);
        }
    }
    seed("s3://bucket/main", &place.path("y")).at(&store.endpoint()).seeds(&long);
    // A refused upload ends the command, and no pointer is written.
    let other = Store::new();
    other.now(|request, _| if request.method == "PUT" { Act::Status(403, "") } else { Act::Serve });
    bundle(&db, "s3://bucket/main").at(&other.endpoint()).refused(3, "denies");
    assert!(other.objects().is_empty());
}

#[test]
fn seed_falls_back_to_another_mirror() {
    let (_place, to, y) = bundled(plain());
    let (one, two) = (Store::of(&to), Store::of(&to));
    let names: Vec<String> = one.objects().into_keys().filter(|name| name.starts_with("files/")).collect();
    one.edit(|objects| {
        objects.remove(&names[0]);
        // It does not even say which bundle there is.
        objects.insert("latest".into(), b"<html>".to_vec());
    });
    two.edit(|objects| objects.get_mut(&names[names.len() - 1]).expect("there")[77] ^= 4);
    runs(bedload().args(["seed", "--from-url", &one.url(""), "--from-url", &two.url(""), "--db"]).arg(&y));
    holds(&y, plain());
    for store in [one, two] {
        assert!(store.was_asked_for_files(), "it had nothing to do");
    }
}

#[test]
fn seed_applies_node_options() {
    let (place, to, y) = bundled(small());
    let seeded =
        seed(&to, &y).args(&["--preset", "ingest-compat", "--set", "node.db.max_background_jobs=7"]).seeds(small());
    assert_eq!(seeded.text("/preset"), "ingest-compat");
    let options = |db: &Path| {
        let newest = list(db).into_iter().filter(|path| path.display().to_string().contains("OPTIONS-")).max();
        newest.expect("options").to_str().expect("text").to_owned()
    };
    let z = place.path("z");
    seed(&to, &z).args(&["--options-file", &options(&y)]).seeds(small());
    for db in [&y, &z] {
        assert!(std::fs::read_to_string(options(db)).expect("text").contains("max_background_jobs=7"));
    }
    seed(&to, &place.path("w")).args(&["--preset", "memtable"]).refused(2, "writes through memtables");
}
