//! `--into-existing` keeps the records of the database, even if the import fails.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::car::*;
use crate::common::crash::*;
use crate::common::database::flip;
use crate::common::fault::{failing, killed_at_change};
use crate::common::log::hex;
use crate::common::model::{Key, Model};
use crate::common::run::program;
use predicates::str::contains;

const WAYS: [Way; 3] = [Way::Memory, Way::Spill, Way::Memtables];
const KEYS: [Key; 3] = [Key::Cid, Key::Multihash, Key::Digest];

/// Every file of a database but RocksDB's own log and lock, with its bytes.
fn files(db: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = db.read_dir().expect("a folder").map(|entry| entry.expect("an entry"));
    let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().expect("text");
    entries
        .filter(|entry| !name(entry).starts_with("LO"))
        .map(|entry| (name(&entry), std::fs::read(entry.path()).expect("a file")))
        .collect()
}

/// A snapshot of these blocks; no two tests have the same name.
fn of(name: &'static str, blocks: &[Block]) -> &'static Snapshot {
    Snapshot::of_blocks(name, rooted(blocks), blocks).leaked()
}

/// An import of `snapshot` into [`older`].
fn into_older(snapshot: &'static Snapshot, way: Way) -> Case {
    let case = Case::of(snapshot, way, From::File).into_existing(older());
    case.put_old();
    case
}

/// [`plain`] with a block at `at` that contradicts one of [`older`].
fn conflicting(name: &'static str, at: usize) -> &'static Snapshot {
    let mut blocks = plain().blocks.clone();
    blocks[at] = older().blocks[900].clone();
    blocks[at].1[5] ^= 1;
    of(name, &blocks)
}

/// [`into_older`], killed at this point.
#[track_caller]
fn killed(snapshot: &'static Snapshot, way: Way, point: &str) -> Case {
    let case = into_older(snapshot, way);
    case.dies_at(point);
    case
}

#[test]
fn conflicting_key_leaves_the_database_unchanged() {
    let snapshot = conflicting("another.car", 3000);
    let cid = &snapshot.blocks[3000].0;
    for (nth, way) in WAYS.into_iter().enumerate() {
        for &key in in_turn(&KEYS, nth) {
            let case = Case::of(snapshot, way, From::File).key(key).arg(&["--verify", "none"]);
            let case = case.into_existing(older());
            case.put_old();
            let before = files(&case.db);
            let shown: String = match key {
                Key::Cid => cid::Cid::try_from(&cid[..]).expect("a CID").to_string(),
                _ => hex(&key.of(cid)),
            };
            let words = format!("two different blocks have the key {shown}");
            case.fails(3, &format!("{way:?} {key:?}"), &[&words, "hint: "]);
            assert!(files(&case.db) == before, "{way:?} {key:?}: {:?}", files(&case.db).keys());
            case.holds_the_old("a conflict", true);
            assert!(!case.partial().exists(), "{way:?} {key:?}: something is left of the work");
        }
    }
}

#[test]
fn conflict_after_a_kill_restores_the_database() {
    let case = into_older(conflicting("late.car", 3900), Way::Memtables).arg(&["--verify", "none"]);
    let before = files(&case.db);
    case.dies_at("batch:48");
    assert!(files(&case.db) != before, "nothing was written before the kill");
    case.fails(3, "a conflict", &[]);
    assert!(files(&case.db) == before, "{:?}", files(&case.db).keys());
}

#[test]
fn identity_cids_have_no_digest_key() {
    let mut blocks = plain().blocks[..2000].to_vec();
    // Its content is the digest of another block.
    let digest = Key::Digest.of(&blocks[3].0);
    let at = rooted(&blocks[..1500]).len();
    blocks.insert(1500, identity(RAW, &digest));
    let snapshot = of("identity.car", &blocks);
    for (nth, way) in WAYS.into_iter().enumerate() {
        for &existing in in_turn(&[false, true], nth) {
            let case = Case::of(snapshot, way, From::File).key(Key::Digest);
            let case = if existing { case.into_existing(older()) } else { case };
            case.put_old();
            let words = format!("at byte {at}: the block is in its CID, which has no digest to be its key");
            case.fails(3, &format!("{way:?}"), &[&words, "hint: use `--key cid` or `--key multihash`"]);
            case.holds_the_old("no key", true);
            case.again();
            // Under other keys it is a block like others.
            Case::of(snapshot, way, From::File).finishes();
        }
    }
}

#[test]
fn open_database_is_refused_before_reading() {
    for way in WAYS {
        let case = into_older(plain(), way);
        let node = rust_rocksdb::DB::open_default(&case.db).expect("opened");
        let hint = format!("hint: stop the node (process {})", std::process::id());
        case.is_refused(&["another process has the database open", &hint]);
        assert!(!case.partial().exists(), "something is left of the work");
        // Before the source is opened, which is not there.
        let absent = program().args(["import", "nosuch.car", "--into-existing", "--db"]).arg(&case.db).assert();
        absent.code(4).stderr(contains(&*hint));
        drop(node);
        case.finishes();
    }
}

#[test]
fn restart_removes_the_written_blocks() {
    for (way, point) in [(Way::Memtables, "batch:48"), (Way::Memtables, "checked"), (Way::Spill, "ingested")] {
        let other = Case { snapshot: small(), ..killed(plain(), way, point) };
        other.is_refused(&["contains a different unfinished import"]);
        other.clone().arg(&["--restart"]).finishes();
    }
}

#[test]
fn writes_between_runs_are_kept() {
    let points = [(Way::Memtables, "batch:48"), (Way::Memtables, "compacted"), (Way::Spill, "ingested")];
    for (nth, (way, point)) in points.into_iter().enumerate() {
        for &restart in in_turn(&[false, true], nth) {
            let mut case = killed(plain(), way, point);
            node_writes(&mut case);
            let args: &[&str] = if restart { &["--restart"] } else { &[] };
            case.clone().arg(args).finishes();
        }
    }
}

/// Opens the database as a node does, and puts a record.
fn node_writes(case: &mut Case) {
    let node = rust_rocksdb::DB::open_default(&case.db).expect("opened");
    node.put(b"\x01\x55 of the node", b"its own").expect("written");
    drop(node);
    let old = case.old.as_mut().expect("there is one");
    old.records.insert(b"\x01\x55 of the node".to_vec(), b"its own".to_vec());
}

/// Blocks of which the last one is not what its CID says.
fn damaged() -> &'static Snapshot {
    static DAMAGED: std::sync::OnceLock<&Snapshot> = std::sync::OnceLock::new();
    DAMAGED.get_or_init(|| {
        let mut blocks = plain().blocks.clone();
        blocks.last_mut().expect("a block").1[0] ^= 1;
        of("damaged.car", &blocks)
    })
}

#[test]
fn writes_during_a_restore_are_kept() {
    for (nth, point) in ["restoring", "restore", "restored"].into_iter().enumerate() {
        for &restart in in_turn(&[false, true], nth) {
            let mut case = killed(damaged(), Way::Memtables, point);
            node_writes(&mut case);
            if restart {
                Case { snapshot: plain(), ..case.clone() }.arg(&["--restart"]).finishes();
            } else {
                assert_eq!(case.run().code, Some(3), "{point}");
                case.holds_the_old(point, false);
            }
            let node = rust_rocksdb::DB::open_default(&case.db).expect("opened");
            assert_eq!(node.get(b"\x01\x55 of the node").expect("read").as_deref(), Some(&b"its own"[..]), "{point}");
            drop(node);
        }
    }
}

/// The second run dies while it opens the database or restores it, which may leave `CURRENT.bedload`.
#[test]
fn second_kill_is_restored() {
    for points in [&["batch:48", "opening"][..], &["restore"]] {
        let case = into_older(damaged(), Way::Memtables);
        points.iter().for_each(|point| case.dies_at(point));
        if points.len() == 1 {
            std::fs::write(case.db.join("CURRENT.bedload"), "MANIFEST").expect("written");
        }
        assert_eq!(case.run().code, Some(3), "{points:?}");
        case.holds_the_old("two kills", true);
    }
}

#[test]
fn read_error_leaves_the_database_unchanged() {
    let mut case = killed(plain(), Way::Memtables, "batch:48");
    node_writes(&mut case);
    let manifest = std::fs::read_to_string(case.db.join("CURRENT")).expect("CURRENT");
    let Some(failing) = failing(&case, "open", 1, rustix::io::Errno::IO, manifest.trim()) else { return };
    let before = files(&case.db);
    failing.fails(1, "a failing read", &["MANIFEST", "Input/output error"]);
    assert!(files(&case.db) == before, "something was changed");
    case.finishes();
}

/// Without the journal nothing shows whether the import or another program wrote last.
#[test]
fn damaged_journal_restores_nothing() {
    let case = Case::of(damaged(), Way::Memtables, From::File).into_existing(older());
    for line in [0, 1] {
        case.put_old();
        case.dies_at("batch:48");
        let path = case.partial().join("journal");
        let mut text = std::fs::read_to_string(&path).expect("a journal");
        let opened = text.find("\"opened\"").expect("it says that the database was opened");
        let at = if line == 0 { 20 } else { opened };
        text.replace_range(at..at + 1, "#");
        std::fs::write(&path, text).expect("written");
        let before = files(&case.db);
        case.is_refused(&[
            "nothing tells whether this import or another program changed ",
            " last: the journal is damaged",
            "hint: --restart starts over and keeps the database as it is now; to restore the state before the \
             import, first replace the files of the database with those of ",
        ]);
        assert!(files(&case.db) == before, "something was changed");
        Case { snapshot: plain(), ..case.clone() }.arg(&["--restart"]).finishes();
    }
}

#[test]
fn unopenable_database_keeps_foreign_writes() {
    for (way, point) in [(Way::Spill, "checkpoint"), (Way::Spill, "opened"), (Way::Memtables, "batch:48")] {
        let mut case = killed(plain(), way, point);
        node_writes(&mut case);
        drop(rust_rocksdb::DB::open_default(&case.db).expect("what the node wrote is in a file now"));
        let checkpoint = case.partial().join("checkpoint");
        let names: Vec<String> = files(&case.db).into_keys().collect();
        let own = names.iter().rfind(|name| name.ends_with(".sst") && !checkpoint.join(name).exists());
        let path = case.db.join(own.expect("a file of the node"));
        let bytes = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
        let before = files(&case.db);
        for args in [&[][..], &["--restart"]] {
            let ended = case.clone().arg(args).run();
            assert!(matches!(ended.code, Some(3 | 4)), "{way:?} {point} {args:?}: {ended:?}");
            let after = files(&case.db);
            assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes) || !name.ends_with(".sst")));
        }
        // Once it is mended, nothing is lost.
        std::fs::write(&path, &bytes).expect("written");
        case.clone().arg(&["--restart"]).finishes();
    }
}

#[test]
fn exchanged_database_is_not_restored() {
    for (way, point) in [(Way::Spill, "ingested"), (Way::Memtables, "batch:48"), (Way::Memtables, "compacted")] {
        let mut case = into_older(plain(), way);
        let model = Model::new(&small().blocks, Key::Cid);
        let other = Case::of(small(), way, From::File).into_existing(small());
        other.put_old();
        case.dies_at(point);
        std::fs::remove_dir_all(&case.db).expect("removed");
        std::fs::rename(&other.db, &case.db).expect("renamed");
        case.old = Some(model);
        case.finishes();
    }
}

/// The database has sequence number 0 before the import.
#[test]
fn killed_import_leaves_an_openable_database() {
    let mut died = 0;
    for number in (1..).step_by(rounds(13, 7)) {
        let case = Case { old: None, ..Case::of(small(), Way::Memory, From::File).into_existing(older()) };
        drop(rust_rocksdb::DB::open_default(&case.db).expect("an empty database"));
        let Some(killed) = killed_at_change(&case, number) else { return };
        let ended = killed.run();
        drop(rust_rocksdb::DB::open_default(&case.db).unwrap_or_else(|error| panic!("change {number}: {error}")));
        if ended.code == Some(0) {
            break;
        }
        died += 1;
    }
    assert!(died > 5, "only {died} runs died");
}

#[test]
fn damaged_database_is_restored_by_resume() {
    let points = [(Way::Memtables, "batch:48"), (Way::Memtables, "checked"), (Way::Spill, "ingested")];
    for (nth, (way, point)) in points.into_iter().enumerate() {
        for &damage in in_turn(&["MANIFEST-", "CURRENT", ".sst"], nth) {
            let case = killed(plain(), way, point);
            let of_it = |name: &String| name.contains(damage) && !case.partial().join("checkpoint").join(name).exists();
            let mut names: Vec<String> = files(&case.db).into_keys().collect();
            names.retain(|name| of_it(name) || (damage == "CURRENT" && name == damage));
            let name = names.last().expect("a file of the import");
            match damage {
                "CURRENT" => std::fs::write(case.db.join(name), "MANIFEST-000999\n").expect("written"),
                // All of them: the last one may be of a compaction that the kill has cut, and not of the database.
                _ => names.iter().for_each(|name| std::fs::remove_file(case.db.join(name)).expect("removed")),
            }
            // Once more a run dies, on its way back.
            for point in ["restoring", "restore", "restored"] {
                assert_eq!(case.dying_at(point).run().code, Some(137), "{way:?} {name} {point}");
            }
            case.finishes();
        }
    }
}

#[test]
fn damaged_checkpoint_is_never_restored() {
    let case = Case::plain(Way::Memtables).into_existing(older());
    for name in ["CURRENT", "MANIFEST-", ".log", "OPTIONS-", "sums"] {
        case.put_old();
        case.dies_at("batch:48");
        let mut paths = list(&case.partial().join("checkpoint")).into_iter();
        let path = paths.find(|path| path.to_str().expect("text").contains(name)).expect("it is there");
        flip(&path, path.metadata().expect("a file").len() as usize - 2, 1);
        case.fails(4, name, &["checkpoint: the unfinished import is damaged", "hint: pass --restart to delete it"]);
        case.holds_the_old(name, false);
        case.clone().arg(&["--restart"]).run();
        case.holds_everything();
    }
}

#[test]
fn import_record_is_replaced_atomically() {
    let case = into_older(plain(), Way::Spill);
    case.finishes();
    let record = std::fs::read(case.db.join("BEDLOAD.json")).expect("a record");
    let old = Some(Model::new(plain().blocks.iter().chain(&older().blocks), Key::Cid));
    let more = Case { snapshot: small(), old, ..case.clone() };
    // It dies when the new record is there, and then fails: the old one is back.
    assert_eq!(more.dying_at("recorded").run().code, Some(137));
    assert!(std::fs::read(case.db.join("BEDLOAD.json")).expect("a record") != record);
    more.finishes();
    assert!(!more.db.join("BEDLOAD.json.bedload").exists());
}

#[test]
fn damage_after_completion_keeps_the_checkpoint() {
    for way in [Way::Spill, Way::Memtables] {
        let case = killed(plain(), way, "complete");
        let current = std::fs::read(case.db.join("CURRENT")).expect("a file");
        let checkpoint = case.partial().join("checkpoint");
        for damage in [b"" as &[u8], b"MANIFEST-999999\n"] {
            std::fs::write(case.db.join("CURRENT"), damage).expect("written");
            for case in [case.clone(), case.clone().arg(&["--restart"])] {
                let damaged = "does not open any more: it was damaged after the import was complete";
                case.is_refused(&[damaged, "hint: to restore the state before the import"]);
                assert!(checkpoint.join("CURRENT").exists(), "{way:?}: the checkpoint is gone");
            }
        }
        std::fs::remove_file(case.db.join("CURRENT")).expect("it goes");
        case.is_refused(&[checkpoint.to_str().expect("text")]);
        std::fs::write(case.db.join("CURRENT"), current).expect("written");
        let more: &[&str] = if way == Way::Spill { &["--restart"] } else { &[] };
        case.arg(more).finishes();
    }
}
