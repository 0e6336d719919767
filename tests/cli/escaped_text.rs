//! Text from outside, such as file names and the record of a database, is escaped before a terminal shows it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::common::car::*;
use crate::common::run::Place;

/// Sets a title, clears, colours, forges a line, and turns text around.
const HOSTILE: &str = "x\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\r\nerror: forged\u{7f}\u{202e}\u{2066}\u{200b}\u{8}";

/// [`HOSTILE`] as a string of JSON or TOML.
const ESCAPED: &str = r"x\u001b]0;title\u0007\u001b[2J\u009b31m\r\nerror: forged\u007f\u202e\u2066\u200b\b";

fn bedload(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = crate::common::run::bedload();
    command.args(args.iter().map(|arg| arg.as_ref()));
    command.stdin(Stdio::null()).output().expect("it runs")
}

/// Runs it; what it says steers nothing, and is in lines of its own.
#[track_caller]
fn run(args: &[&dyn AsRef<std::ffi::OsStr>], code: i32) -> String {
    let Output { status, stdout, stderr } = bedload(args);
    let shown: Vec<String> = args.iter().map(|arg| arg.as_ref().to_string_lossy().escape_debug().to_string()).collect();
    let (stdout, stderr) = (String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"));
    assert_eq!(status.code(), Some(code), "{shown:?}\n{stdout:?}\n{stderr:?}");
    for text in [&stdout, &stderr] {
        let steers = |c: &char| {
            (c.is_control() && *c != '\n' && *c != '\t') || matches!(c, '\u{202e}' | '\u{2066}' | '\u{200b}')
        };
        assert_eq!(text.chars().find(steers), None, "{shown:?}:\n{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("error: forged")), "{shown:?}: a forged line:\n{text:?}");
    }
    format!("{stdout}{stderr}")
}

struct Scene {
    place: Place,
    car: OsString,
    db: OsString,
    preset: OsString,
    root: String,
}

/// A snapshot, a preset and a database with such names.
fn scene() -> Scene {
    let place = Place::in_memory();
    let blocks: Vec<Block> = (0..500).map(|i| block(&noise(i, 300))).collect();
    let car = place.file(&format!("{HOSTILE}.car"), &rooted(&blocks)).into_os_string();
    let preset = format!(
        "name = \"{ESCAPED}\"\nsummary = \"{ESCAPED}\"\nloader = \"ingest\"\n[node.table]\n\
         block_size = [\"32K\", \"{ESCAPED}\"]\n"
    );
    let preset = place.file(&format!("{HOSTILE}.toml"), preset.as_bytes()).into_os_string();
    let db = place.path(HOSTILE).into_os_string();
    let root = cid::Cid::try_from(&blocks[0].0[..]).expect("a CID").to_string();
    run(&[&"import", &car, &"--db", &db, &"--preset", &preset, &"--progress", &"lines"], 0);
    Scene { place, car, db, preset, root }
}

#[test]
fn names_of_files_and_presets_are_escaped() {
    let Scene { place, car, db, preset, root } = scene();
    // The table breaks lines at spaces.
    let said = run(&[&"stat", &"--db", &db], 0).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(r"x\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{d}\u{a}error: forged\u{7f}"), "{said}");
    for more in [&[][..], &["--json"], &["--progress", "json"], &["--progress", "bar"], &["--color", "never"]] {
        let with = |args: &[&dyn AsRef<std::ffi::OsStr>], code| {
            run(&args.iter().copied().chain(more.iter().map(|arg| arg as _)).collect::<Vec<_>>(), code)
        };
        with(&[&"import", &car, &"--db", &db], 4);
        with(&[&"import", &car, &"--db", &place.path("new"), &"--dry-run", &"--preset", &preset], 0);
        with(&[&"stat", &"--db", &db, &"--digest"], 0);
        with(&[&"verify", &"--db", &db, &"--against", &car], 0);
        with(&[&"walk", &"--db", &db], 0);
        with(&[&"get", &"--db", &db, &root], 0);
        with(&[&"get", &"--db", &db, &HOSTILE], 2);
        with(&[&"inspect", &car], 0);
        with(&[&"inspect", &"--full", &car], 0);
        with(&[&"inspect", &place.path(&format!("no {HOSTILE}"))], 3);
        let out = place.path(&format!("out{HOSTILE}.car"));
        with(&[&"export", &"--db", &db, &out, &"--all", &"--force"], 0);
        with(&[&"generate", &out, &"--size", &"20K", &"--force"], 0);
        with(&[&"presets", &"explain", &preset], 0);
        with(&[&"presets", &"diff", &preset, &"ingest"], 0);
        with(&[&"presets", &"explain", &HOSTILE], 2);
        with(&[&"presets", &"explain", &"--set", &format!("load.cf.{HOSTILE}=1")], 2);
        with(&[&"presets", &"explain", &"--set", &format!("load.cf.num_levels={HOSTILE}")], 2);
        with(&[&"import", &car, &"--db", &place.path("new"), &format!("--{HOSTILE}")], 2);
        with(&[&"import", &car, &"--db", &place.path("new"), &"--key", &HOSTILE], 2);
        with(&[&HOSTILE], 2);
    }
    run(&[&"presets", &"show", &preset], 0);
}

#[test]
fn doctor_and_bench_escape_names() {
    let Scene { place, car, preset, .. } = scene();
    let dir = place.path(&format!("dir{HOSTILE}"));
    std::fs::create_dir(&dir).expect("a folder");
    run(&[&"doctor", &"--dir", &dir, &car, &"--preset", &preset], 0);
    let out = place.path(&format!("results{HOSTILE}"));
    let bench: [&dyn AsRef<std::ffi::OsStr>; 9] =
        [&"bench", &car, &"--runs", &"1", &"--warmup", &"0", &"--dir", &dir, &"--out"];
    run(&bench.into_iter().chain([&out as _, &"--presets" as _, &preset as _]).collect::<Vec<_>>(), 0);
    let reports = std::fs::read_dir(&out).expect("results").flatten().map(|entry| entry.path());
    let mut read = 0;
    for path in reports.filter(|path| path.extension().is_some_and(|it| it == "md" || it == "html" || it == "csv")) {
        let text = std::fs::read_to_string(&path).expect("text");
        let steers = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r') || *c == '\u{202e}');
        assert_eq!(steers, None, "{}", path.display());
        read += 1;
    }
    assert!(read >= 2, "no reports");
}

#[test]
fn database_text_is_escaped() {
    let Scene { place, car, db, .. } = scene();
    let db = Path::new(&db);
    // The record.
    let record = db.join("BEDLOAD.json");
    let text = std::fs::read_to_string(&record).expect("a record");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for pointer in ["/source/path", "/preset", "/versions/bedload", "/versions/rocksdb", "/db"] {
        if let Some(value) = json.pointer_mut(pointer) {
            *value = HOSTILE.into();
        }
    }
    std::fs::write(&record, json.to_string()).expect("written");
    // `verify` finds that the record was changed.
    for (command, code) in [("stat", 0), ("verify", 3), ("walk", 0)] {
        run(&[&command, &"--db", &db], code);
        run(&[&command, &"--db", &db, &"--json"], code);
    }
    for pointer in ["/digest", "/key", "/column_family"] {
        let mut json = json.clone();
        *json.pointer_mut(pointer).expect("it is there") = HOSTILE.into();
        std::fs::write(&record, json.to_string()).expect("written");
        for command in ["stat", "verify", "walk"] {
            for more in ["--color=never", "--json"] {
                let args: [&dyn AsRef<std::ffi::OsStr>; 4] = [&command, &"--db", &db, &more];
                let code = bedload(&args).status.code().expect("an exit");
                run(&args, code);
            }
        }
    }
    std::fs::write(&record, &text).expect("written");

    // The OPTIONS file: values, and what RocksDB says of them.
    let options = db.read_dir().expect("a folder").flatten().map(|entry| entry.path());
    let options = options
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-")))
        .max()
        .expect("an OPTIONS file");
    let text = std::fs::read_to_string(&options).expect("text");
    let one_line = HOSTILE.replace(['\r', '\n'], " ");
    for (from, to) in [
        ("  num_levels=7", format!("  num_levels={one_line}")),
        ("  comparator=leveldb.BytewiseComparator", format!("  comparator={one_line}")),
        ("  rocksdb_version=11", format!("  rocksdb_version={one_line}")),
        ("  num_levels=", format!("  {one_line}=")),
        ("[Version]", format!("[{one_line}]")),
    ] {
        assert!(text.contains(from), "no {from} in the OPTIONS file");
        std::fs::write(&options, text.replace(from, &to)).expect("written");
        for command in ["stat", "verify", "walk"] {
            let args: [&dyn AsRef<std::ffi::OsStr>; 3] = [&command, &"--db", &db];
            let code = bedload(&args).status.code().expect("an exit");
            run(&args, code);
        }
        let new = place.path("by-options");
        let args: [&dyn AsRef<std::ffi::OsStr>; 7] =
            [&"import", &car, &"--db", &new, &"--options-file", &options, &"--dry-run"];
        let code = bedload(&args).status.code().expect("an exit");
        run(&args, code);
    }
}

#[test]
fn text_of_an_unfinished_import_is_escaped() {
    let Scene { place, car, preset, .. } = scene();
    let db = place.path(&format!("new{HOSTILE}"));
    let die = crate::common::run::bedload()
        .args(["import".as_ref(), car.as_os_str(), "--db".as_ref(), db.as_os_str(), "--preset".as_ref()])
        .arg(&preset)
        .env("BEDLOAD_ABORT_AT", "built")
        .output()
        .expect("it runs");
    assert_eq!(die.status.code(), Some(137));
    let said = run(&[&"import", &car, &"--db", &db], 4);
    assert!(said.contains("holds an unfinished import of something else: preset was x\\u{1b}"), "{said}");
    // The holder of the lock.
    let mut partial = db.clone().into_os_string();
    partial.push(".partial");
    let lock = std::fs::File::options().write(true).open(Path::new(&partial).join("lock")).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("held");
    std::io::Write::write_all(&mut &lock, HOSTILE.repeat(3).as_bytes()).expect("written");
    let said = run(&[&"import", &car, &"--db", &db, &"--preset", &preset], 4);
    assert!(said.contains("another import is working on it (x\\u{1b}"), "{said}");
    drop(lock);
    // A source that is cut.
    let cut = place.path(&format!("cut{HOSTILE}.car"));
    let bytes = std::fs::read(&car).expect("a snapshot");
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).expect("written");
    run(&[&"import", &cut, &"--db", &place.path("of-cut")], 3);
    run(&[&"inspect", &"--full", &cut], 3);
}
