//! A source, a choice or a directory that is another one when an import goes on.

use std::path::Path;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::common::crash::*;
use crate::common::run::Place;

/// A snapshot of one's own that may be changed, and a case that imports it.
pub fn own_copy(place: &Place, way: Way) -> (Case, std::path::PathBuf) {
    own_copy_of(plain(), place, way)
}

pub fn own_copy_of(snapshot: &Snapshot, place: &Place, way: Way) -> (Case, std::path::PathBuf) {
    let path = place.file("own.car", &snapshot.bytes);
    let Snapshot { name, bytes, blocks, digest, read, records, .. } = snapshot;
    let (bytes, blocks, digest) = (bytes.clone(), blocks.clone(), digest.clone());
    let own = Snapshot { name, file: path.clone(), bytes, digest, blocks, read: *read, records: *records };
    let snapshot = Box::leak(Box::new(own));
    (Case::new(&place.path(""), snapshot, way, From::File), path)
}

/// Puts another file in its place, with the same times.
pub fn replace_and_put_times_back(path: &Path, bytes: &[u8]) {
    let times = path.metadata().expect("a file").modified().expect("a time");
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).expect("written");
    std::fs::File::options().write(true).open(&new).and_then(|file| file.set_modified(times)).expect("set");
    std::fs::rename(&new, path).expect("renamed");
}

/// Changes one byte of a value in the middle and puts size and times back.
fn change_and_put_times_back(path: &Path) {
    let times = path.metadata().expect("a file");
    let mut bytes = std::fs::read(path).expect("a file");
    let at = bytes.len() / 2;
    bytes[at..at + 4].iter_mut().for_each(|byte| *byte ^= 0x55);
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at..at + 4], at as u64).expect("written");
    file.set_modified(times.modified().expect("a time")).expect("set");
}

#[test]
fn a_source_that_changes_between_hashing_and_building_is_noticed() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill, Way::Memtables] {
        let (case, path) = own_copy(&place, way);
        let point = if way == Way::Memory { "held" } else { "read-done" };
        let ended = case.stopped_at(point, || change_and_put_times_back(&path));
        assert_eq!(ended.code, Some(4), "{way:?}: {ended:?}");
        ended.says(&["own.car", "it changed while it was being read", "hint: start over with --restart"]);
        case.nothing_under_the_name("a changed source");
        case.again();
    }
}

#[test]
fn a_file_that_is_standard_input_and_changes_while_it_is_read_is_noticed() {
    for (way, point, verify) in [
        (Way::Spill, "read:2", "none"),
        (Way::Spill, "read:2", "hash"),
        (Way::Spill, "read-done", "none"),
        (Way::Memory, "held", "none"),
        (Way::Memtables, "batch:2", "none"),
    ] {
        let place = Place::in_memory();
        let (mut case, path) = own_copy(&place, way);
        case.from = From::Stdin;
        let case = case.arg(&["--verify", verify]);
        let ended = case.stopped_at(point, || change_and_put_times_back(&path));
        assert_eq!(ended.code, Some(4), "{way:?}, {point}, {verify}: {ended:?}");
        ended.says(&["-: it changed while it was being read", "hint: start over with --restart"]);
        case.nothing_under_the_name("a changed source");
    }
}

/// The same snapshot with the first section of each length in place of all others of that length.
fn with_repeated_sections(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut first = std::collections::HashMap::new();
    // The header is read as a section, too, and nothing else is as long.
    let mut at = 0;
    while let Ok((len, rest)) = unsigned_varint::decode::usize(&bytes[at..]) {
        let end = bytes.len() - rest.len() + len;
        let from = *first.entry(end - at).or_insert(at);
        bytes.copy_within(from..from + end - at, at);
        at = end;
    }
    bytes
}

#[test]
fn sections_that_change_between_hashing_and_building_are_no_fault_of_the_keys() {
    let place = Place::in_memory();
    for way in [Way::Memory, Way::Spill, Way::Source, Way::Memtables] {
        let (case, path) = own_copy(&place, way);
        let point = if way == Way::Memory { "held" } else { "read-done" };
        let repeated = with_repeated_sections(&case.snapshot.bytes);
        assert_ne!(repeated, case.snapshot.bytes);
        let ended = case.stopped_at(point, || {
            let file = std::fs::File::options().write(true).open(&path).expect("a file");
            std::os::unix::fs::FileExt::write_all_at(&file, &repeated, 0).expect("written");
        });
        assert_eq!(ended.code, Some(4), "{way:?}: {ended:?}");
        ended.says(&["own.car", "it changed while it was being read", "hint: start over with --restart"]);
        case.nothing_under_the_name("a changed source");
        std::fs::write(&path, &case.snapshot.bytes).expect("written");
        case.again();
    }
}

/// The same snapshot with another block of the same length in place of the hundredth.
pub fn with_another_block(bytes: &[u8]) -> Vec<u8> {
    let [old, new] = [100, 777_777]
        .map(|seed| crate::common::car::section(&crate::common::car::block(&crate::common::car::noise(seed, 1700))));
    let at = bytes.windows(old.len()).position(|window| window == old).expect("the block");
    [&bytes[..at], &new, &bytes[at + old.len()..]].concat()
}

#[test]
fn a_replaced_source_is_not_resumed_as_the_same() {
    let place = Place::in_memory();
    for (way, point) in [(Way::Spill, "read:3"), (Way::Spill, "read-done"), (Way::Memory, "built")] {
        let (case, path) = own_copy(&place, way);
        case.dies_at(point);
        // A change in what was taken.
        replace_and_put_times_back(&path, &with_another_block(&case.snapshot.bytes));
        case.is_refused(&[UNFINISHED]);
        // A copy of the same source is the same.
        replace_and_put_times_back(&path, &case.snapshot.bytes);
        case.finishes();
        case.again();
    }
}

pub const UNFINISHED: &str = "the source is not the one that the unfinished import has read";

#[test]
fn a_copy_that_is_read_in_other_pieces_goes_on_behind_the_last_of_them() {
    use crate::common::car::{block, noise, rooted};
    let place = Place::in_memory();
    // The buffer of a block that is longer than a chunk is used again: from then on pieces are as long, and which thread
    // has it is chance. A single reader has it for all the rest, so its last piece reaches the end of the file from far.
    let blocks: Vec<_> = (0..6000).map(|i| block(&noise(i, if i == 0 { 3 << 20 } else { 1000 }))).collect();
    let snapshot = Snapshot::of_blocks("one-large.car", rooted(&blocks), &blocks);
    let (case, path) = own_copy_of(&snapshot, &place, Way::Spill);
    let mut case = case.env("BEDLOAD_DURABLE_BYTES", "1");
    case.args[3] = "24MiB".into();
    case.dies_at("read-done");
    let points = case.journal().iter().filter(|line| line["entry"] == "read").count();
    case.again();
    assert!(points > 2, "only {points} points");
    for point in 1..=points {
        let died = case.dying_at(&format!("read:{point}")).run();
        // How many points there are is chance, too.
        assert!(died.code == Some(137) || point > 2, "{point}: {died:?}");
        if died.code == Some(137) {
            replace_and_put_times_back(&path, &case.snapshot.bytes);
            case.finishes();
        }
        case.again();
    }
}

#[test]
fn a_source_that_is_renamed_over_while_it_is_opened_is_not_known_by_the_name() {
    let place = Place::in_memory();
    for (way, name) in [(Way::Memory, "plain"), (Way::Spill, "plain"), (Way::Memory, "zstd"), (Way::Ranges, "log")] {
        let (case, path) = own_copy_of(if name == "log" { log() } else { plain() }, &place, way);
        let own =
            if name == "zstd" { crate::common::car::zstd(&case.snapshot.bytes) } else { case.snapshot.bytes.clone() };
        let mut other = case.snapshot.bytes.clone();
        if name == "log" {
            other[100_000] ^= 1;
        } else {
            other = with_another_block(&other);
        }
        std::fs::write(&path, &own).expect("written");
        let ended = case.stopped_at("source-opened", || replace_and_put_times_back(&path, &other));
        assert_eq!(ended.code, Some(4), "{way:?}, {name}: {ended:?}");
        ended.says(&["own.car", "it changed while it was being read", "hint: start over with --restart"]);
        case.nothing_under_the_name("a replaced source");
        case.again();
        if way != Way::Spill {
            continue;
        }
        replace_and_put_times_back(&path, &own);
        let died = case.dying_at("read:3").stopped_at("source-opened", || replace_and_put_times_back(&path, &other));
        assert_eq!(died.code, Some(137), "{died:?}");
        case.is_refused(&[UNFINISHED]);
        replace_and_put_times_back(&path, &own);
        case.finishes();
        case.again();
    }
}

#[test]
fn a_report_replaces_neither_its_source_nor_an_older_report_before_there_is_one() {
    let place = Place::in_memory();
    let (case, path) = own_copy(&place, Way::Memory);
    let report = |case: &Case, path: &Path| case.clone().arg(&["--report", path.to_str().expect("text")]);
    let link = place.path("link.car");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for name in [&path, &link] {
        let ended = report(&case, name).run();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        ended.says(&["the report would replace the source", "hint: "]);
        assert!(std::fs::read(&path).expect("a file") == case.snapshot.bytes, "the snapshot has changed");
        assert!(!case.db.exists() && !case.partial().exists(), "work has begun");
    }
    let old = place.file("old.json", b"{}");
    std::fs::write(&path, b"no snapshot").expect("written");
    assert_eq!(report(&case, &old).run().code, Some(3));
    // The error takes the place of a report that would be taken for that of this import.
    let failed: serde_json::Value = serde_json::from_slice(&std::fs::read(&old).expect("a file")).expect("JSON");
    assert_eq!((&failed["schema"], &failed["exit"]), (&"bedload-error-1".into(), &3.into()), "{failed}");
    std::fs::write(&old, b"{}").expect("written");
    std::fs::write(&path, &case.snapshot.bytes).expect("written");
    assert_eq!(report(&case, &old).dying_at("built").run().code, Some(137));
    assert_eq!(std::fs::read(&old).expect("a file"), b"{}");
    let ended = report(&case, &old).finishes();
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&old).expect("a file")).expect("JSON");
    assert_eq!(written, ended.json);
    let left: Vec<_> =
        list(&place.path("")).into_iter().filter(|path| path.to_string_lossy().contains(".bedload-")).collect();
    assert_eq!(left, [] as [std::path::PathBuf; 0], "files are left");
}

#[test]
fn another_source_is_refused_and_both_sides_are_named() {
    let place = Place::in_memory();
    let file = place.file("s.car", &plain().bytes);
    let mut case = Case::new(&place.path(""), plain(), Way::Spill, From::Pipe);
    // As a file of its own that can be changed.
    case.args.insert(0, file.clone().into());
    let import = |case: &Case| {
        let mut command = crate::common::run::bedload();
        command.arg("import").args(&case.args).arg("--db").arg(&case.db).args(["--json", "--progress", "off"]);
        command.envs(case.env.iter().cloned());
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        ended(command.stderr(std::process::Stdio::piped()).spawn().expect("it starts"))
    };
    assert_eq!(import(&case.dying_at("read:2")).code, Some(137));
    let modified = file.metadata().expect("there").modified().expect("a time");
    let set_time = |time| std::fs::File::options().write(true).open(&file).expect("opened").set_modified(time);
    let refused = |what: &str, text: &[&str]| {
        let ended = import(&case);
        assert_eq!(ended.code, Some(4), "{what}: {ended:?}");
        ended.says(&["holds an unfinished import of something else", "--restart"]);
        ended.says(text);
        std::fs::write(&file, &plain().bytes).expect("written");
        set_time(modified).expect("set");
    };
    let len = plain().bytes.len();
    let mut longer = plain().bytes.clone();
    longer.extend(crate::common::car::section(&crate::common::car::block(b"one more")));
    std::fs::write(&file, &longer).expect("written");
    refused("size", &["the source was ", "s.car (8,289,021 bytes, ", "s.car (8,289,068 bytes, "]);
    set_time(modified - Duration::from_secs(2)).expect("set");
    refused("time", &["the source was ", "s.car (8,289,021 bytes, "]);
    let changed_at = |at: usize| {
        let mut bytes = plain().bytes.clone();
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).expect("written");
        set_time(modified).expect("set");
    };
    changed_at(5000);
    refused("head", &["with another beginning"]);
    changed_at(len - 5);
    refused("tail", &["with another end"]);

    // As it was it goes on.
    let ended = import(&case);
    case.has_finished(&ended);
}

#[test]
fn another_way_of_importing_is_refused_and_both_sides_are_named() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    case.dies_at("read:2");
    let with = |args: &[&str]| case.clone().arg(args);
    with(&["--preset", "ingest-small"]).is_refused(&["preset was ingest, is ingest-small", "--restart"]);
    with(&["--set", "node.table.block_size=32K"]).is_refused(&["node.table.block_size was 16384, is 32768"]);
    with(&["--key", "digest"]).is_refused(&["key was cid, is digest"]);
    with(&["--column-family", "other"]).is_refused(&["column family was default, is other"]);
    with(&["--verify", "none"]).is_refused(&["verify was true, is false"]);
    with(&["--null-padding", "eof"]).is_refused(&["null padding was error, is eof"]);
    with(&["--work-dir", place.path("elsewhere").to_str().expect("text")]).is_refused(&["work dir was nothing, is "]);
    let mut other = case.clone();
    other.args[1] = "memory".into();
    other.is_refused(&["plan was spill, is memory"]);

    case.edit_journal(|line| {
        if line["entry"] == "start" {
            line["identity"]["tool"] = "0.0.1".into();
        }
    });
    case.is_refused(&[&format!("tool was 0.0.1, is {}", env!("CARGO_PKG_VERSION"))]);
    assert!(case.partial().join("spill").exists(), "a refusal must not touch anything");
    with(&["--restart"]).finishes();
}

#[test]
fn a_journal_of_another_version_is_refused_and_left_as_it_is() {
    let place = Place::in_memory();
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    case.dies_at("read:2");
    let refused = "another version of bedload began the unfinished import: its journal has the form 0, this program \
                   reads the form 8";
    // The form that named no version; and one whose other lines are unknown as well.
    let forms: [fn(&mut serde_json::Value); 2] = [
        |line| {
            line.as_object_mut().expect("an entry").remove("version");
        },
        |line| line["identity"] = "known to another program".into(),
    ];
    for form in forms {
        case.edit_journal(|line| {
            if line["entry"] == "start" {
                form(line);
            }
        });
        let journal = std::fs::read(case.partial().join("journal")).expect("a journal");
        case.is_refused(&[refused, "--restart"]);
        assert_eq!(std::fs::read(case.partial().join("journal")).expect("a journal"), journal);
        assert!(case.partial().join("spill").exists(), "a refusal must not touch anything");
    }
    case.arg(&["--restart"]).finishes();
}

#[test]
fn restart_removes_what_another_work_directory_holds() {
    let place = Place::in_memory();
    let work = place.path("work");
    let case = Case::new(&place.path(""), plain(), Way::Spill, From::File);
    case.clone().arg(&["--work-dir", work.to_str().expect("text")]).dies_at("read:2");
    assert_eq!(list(&work).len(), 1);
    case.clone().arg(&["--restart"]).finishes();
    assert_eq!(list(&work).len(), 0, "partitions are left in the old work directory");
}

#[test]
fn two_databases_of_one_name_share_a_work_directory() {
    let place = Place::in_memory();
    let work = place.path("work");
    let [one, two] = [(plain(), "one"), (mixed(), "two")].map(|(snapshot, name)| {
        let dir = place.path(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        Case::new(&dir, snapshot, Way::Spill, From::File).arg(&["--work-dir", work.to_str().expect("text")])
    });
    one.dies_at("read:3");
    two.dies_at("read-done");
    one.finishes();
    two.finishes();
    assert_eq!(list(&work).len(), 0, "partitions are left");
}

#[test]
fn a_pipe_that_brings_something_else_is_refused() {
    let place = Place::in_memory();
    let mut other = plain().bytes.clone();
    other[1 << 20] ^= 1;
    let mut other_roots = crate::common::car::header(&[]);
    let blocks_at =
        crate::common::car::header(&[crate::common::car::block(&crate::common::car::noise(0, 200)).0]).len();
    other_roots.extend(&plain().bytes[blocks_at..]);
    let short = &plain().bytes[..1 << 20];
    for (way, point) in [
        (Way::Spill, "read:3"),
        (Way::Spill, "read-done"),
        (Way::Spill, "built:2"),
        (Way::Spill, "ingested"),
        (Way::Memory, "ingested"),
    ] {
        let case = Case::new(&place.path(""), plain(), way, From::Pipe);
        case.dies_at(point);
        for (bytes, words) in [
            (&other[..], "the source is not the one that the unfinished import has read"),
            (short, "the source is not the one that the unfinished import has read"),
            (&other_roots, "the source was - (a pipe), is - (a pipe) with another header"),
        ] {
            let ended = ended(case.start_with(bytes));
            assert_eq!(ended.code, Some(4), "{way:?}, {point}: {ended:?}");
            ended.says(&[words, "--restart"]);
        }
        case.finishes();
        case.again();
    }
    // In memory everything is read and checked again; another whole snapshot must still not be mixed in.
    let case = Case::new(&place.path(""), plain(), Way::Memory, From::Pipe);
    case.dies_at("built");
    let blocks: Vec<_> = (0..9000).map(|i| crate::common::car::block(&crate::common::car::noise(i, 900))).collect();
    let root = crate::common::car::block(&crate::common::car::noise(0, 200)).0;
    let ended = ended(case.start_with(&crate::common::car::car(&[root], &blocks)));
    assert_eq!(ended.code, Some(4), "{ended:?}");
    case.finishes();
}

#[test]
fn a_report_replaces_nothing_that_its_import_reads_or_makes() {
    let place = Place::in_memory();
    let (case, path) = own_copy(&place, Way::Memory);
    let case = case.into_existing(older());
    case.put_old();
    let preset = place.file("own.toml", b"extends = \"ingest\"\n");
    let link = place.path("link");
    std::os::unix::fs::symlink(&case.db, &link).expect("a link");
    let db = case.db.clone();
    let before = |name: &Path| std::fs::read(name).ok();
    let (current, record) = (before(&db.join("CURRENT")), before(&db.join("BEDLOAD.json")));
    let names =
        [db.join("CURRENT"), db.join("new.json"), link.join("BEDLOAD.json"), case.partial(), case.partial().join("r")];
    for name in names.into_iter().chain([preset.clone()]) {
        let mut case = case.clone().arg(&["--report", name.to_str().expect("text")]);
        if name == preset {
            case = case.arg(&["--preset", preset.to_str().expect("text")]);
        }
        let ended = case.run();
        assert_eq!(ended.code, Some(2), "{name:?}: {ended:?}");
        ended.says(&["the report would replace the ", ", or a file in it", "hint: choose another name for --report"]);
        assert!(!case.partial().exists(), "{name:?}: work has begun");
    }
    assert_eq!((before(&db.join("CURRENT")), before(&db.join("BEDLOAD.json"))), (current, record));
    // A source that comes from standard input may be a file.
    let output = crate::common::run::bedload()
        .args(["import", "-", "--db"])
        .arg(place.path("new"))
        .arg("--report")
        .arg(&path)
        .stdin(std::fs::File::open(&path).expect("a file"))
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(&path).expect("a file") == case.snapshot.bytes, "the snapshot has changed");
    case.finishes();
}

/// Two blocks of which both records have the same digest without a key: the first one, and where the bits are that differ.
fn colliding_block() -> (Vec<u8>, [usize; 2]) {
    const KEY: usize = 38;
    let secret = twox_hash::xxhash3_128::Hasher::with_seed(KEY as u64).into_secret();
    let mut data = crate::common::car::noise(77, 400);
    // A multiplication by zero hides the upper half of a word, and two carries out of 64 bits are lost.
    let flipped = [2, 3].map(|stripe| {
        let at = stripe * 64 - KEY;
        data[at..at + 4].copy_from_slice(&secret[stripe * 8..stripe * 8 + 4]);
        at + 7
    });
    (data, flipped)
}

/// The records that were stored were compared with those that were verified by a checksum that anybody can forge.
#[test]
fn forged_blocks_are_noticed() {
    let place = Place::in_memory();
    let (data, flipped) = colliding_block();
    let mut blocks = plain().blocks[..2000].to_vec();
    blocks.insert(1000, crate::common::car::block(&data));
    let forged = flipped.into_iter().fold(data.clone(), |mut forged, at| {
        forged[at] ^= 0x80;
        forged
    });
    let digest_of = |data: &[u8]| {
        let mut digest = bedload::testing::hash::content_digest::ContentDigest::default();
        digest.add_record(&blocks[1000].0, data);
        digest
    };
    assert_eq!(digest_of(&data), digest_of(&forged), "the digest without a key");
    let bytes = crate::common::car::car(&[blocks[0].0.clone()], &blocks);
    let block_at = bytes.windows(data.len()).position(|window| window == data).expect("the block");
    let snapshot = Snapshot::of_blocks("forged.car", bytes, &blocks);
    // Nothing shows whether the source or the references to it are wrong.
    for (way, point, words) in [
        (Way::Memory, "held", ["own.car: it changed while it was being read: partition "]),
        (Way::Source, "read-done", ["the unfinished import is damaged: partition "]),
    ] {
        let (case, path) = own_copy_of(&snapshot, &place, way);
        let ended = case.stopped_at(point, || {
            let file = std::fs::File::options().read(true).write(true).open(&path).expect("a file");
            let len = snapshot.bytes.len();
            let (protection, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            // SAFETY: the file has these bytes, and nothing refers to them in this process. A map leaves the times of a file in
            // memory as they are.
            unsafe {
                let map = mmap(std::ptr::null_mut(), len, protection, shared, &file, 0).expect("a map");
                flipped.iter().for_each(|at| *map.cast::<u8>().add(block_at + at) ^= 0x80);
                munmap(map, len).expect("unmapped");
            }
        });
        assert_eq!(ended.code, Some(4), "{way:?}: {ended:?}");
        ended.says(&words);
        ended.says(&[" records, which are not the ", " that were verified", "--restart"]);
        case.nothing_under_the_name("a forged block");
        case.again();
    }
}

/// The key in the first entry of the journal.
fn digest_key_of(case: &Case) -> Option<String> {
    let text = std::fs::read_to_string(case.partial().join("journal")).expect("text");
    let start: serde_json::Value = serde_json::from_str(&text.lines().next().expect("a line")[17..]).expect("an entry");
    start["digest_key"].as_str().map(str::to_owned)
}

#[test]
fn digest_key_exists_only_for_two_readings() {
    let place = Place::in_memory();
    for (name, snapshot, way, has_key) in [
        ("memory", plain(), Way::Memory, true),
        ("source", plain(), Way::Source, true),
        ("spill", plain(), Way::Spill, false),
        ("compressed", forest(), Way::Memory, false),
    ] {
        let dir = place.path(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        let case = Case::new(&dir, snapshot, way, From::File);
        case.dies_at("start");
        assert_eq!(digest_key_of(&case).is_some(), has_key, "{name}");
        case.again();
    }
}

#[test]
fn journals_with_keys_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::in_memory();
    let mut keys = std::collections::BTreeSet::new();
    for name in ["one", "two"] {
        let dir = place.path(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        let case = Case::new(&dir, plain(), Way::Memory, From::File);
        case.dies_at("held");
        let mode = case.partial().join("journal").metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = digest_key_of(&case).expect("a key");
        assert_eq!(key.len(), 64, "{key}");
        keys.insert(key.clone());
        // Nothing else has it, and the work that it protects is resumed.
        let ended = case.run();
        case.has_finished(&ended);
        let record = std::fs::read_to_string(case.db.join("BEDLOAD.json")).expect("a record");
        assert!(!format!("{record}{}{}", ended.json, ended.stderr).contains(&key), "the key is shown");
    }
    assert_eq!(keys.len(), 2, "each import has its own");
}
