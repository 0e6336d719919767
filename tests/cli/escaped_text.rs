//! Text from outside, such as file names and the record of a database, is escaped before a terminal shows it.

use std::path::PathBuf;

use crate::cli::{Ended, output};
use crate::common::car::*;
use crate::common::run::{Place, bedload, partial};

/// Sets a title, clears, colours, forges a line, and turns text around.
const HOSTILE: &str = "x\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\r\nerror: forged\u{7f}\u{202e}\u{2066}\u{200b}\u{8}";

/// [`HOSTILE`] as a string of JSON or TOML.
const ESCAPED: &str = r"x\u001b]0;title\u0007\u001b[2J\u009b31m\r\nerror: forged\u007f\u202e\u2066\u200b\b";

/// Runs the program, whose output has no control characters except line ends.
#[track_caller]
fn run(args: &[&str]) -> Ended {
    let ended = output(bedload().args(args));
    for text in [&ended.stdout, &ended.stderr] {
        let is_direction = |c: char| matches!(c, '\u{202e}' | '\u{2066}' | '\u{200b}');
        let steers = |c: &char| (c.is_control() && *c != '\n' && *c != '\t') || is_direction(*c);
        assert_eq!(text.chars().find(steers), None, "{args:?}:\n{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("error: forged")), "{args:?}: a forged line:\n{text:?}");
    }
    ended
}

/// Runs the program and expects an exit code. Returns all that it says.
#[track_caller]
fn ends(args: &[&str], code: i32) -> String {
    let ended = run(args);
    assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
    ended.stdout + &ended.stderr
}

struct Scene {
    place: Place,
    car: String,
    db: String,
    preset: String,
    root: String,
}

impl Scene {
    /// A snapshot, a preset and a database with such names.
    fn new() -> Self {
        let place = Place::in_memory();
        let blocks: Vec<Block> = (0..500).map(|i| block(&noise(i, 300))).collect();
        let car = text(place.file(&format!("{HOSTILE}.car"), &rooted(&blocks)));
        let preset = format!(
            "name = \"{ESCAPED}\"\nsummary = \"{ESCAPED}\"\nloader = \"ingest\"\n[node.table]\n\
             block_size = [\"32K\", \"{ESCAPED}\"]\n"
        );
        let preset = text(place.file(&format!("{HOSTILE}.toml"), preset.as_bytes()));
        let db = text(place.path(HOSTILE));
        let root = cid::Cid::try_from(&blocks[0].0[..]).expect("a CID").to_string();
        ends(&["import", &car, "--db", &db, "--preset", &preset, "--progress", "lines"], 0);
        Self { place, car, db, preset, root }
    }

    fn path(&self, name: &str) -> String {
        text(self.place.path(name))
    }
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("text")
}

#[test]
fn names_of_files_and_presets_are_escaped() {
    let scene = Scene::new();
    let Scene { car, db, preset, root, .. } = &scene;
    // The table breaks lines at spaces.
    let said = ends(&["stat", "--db", db], 0).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(r"x\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{d}\u{a}error: forged\u{7f}"), "{said}");
    let (new, absent) = (scene.path("new"), scene.path(&format!("no {HOSTILE}")));
    let out = scene.path(&format!("out{HOSTILE}.car"));
    for more in [&[][..], &["--json"], &["--progress", "json"], &["--progress", "bar"], &["--color", "never"]] {
        for (args, code) in [
            (&["import", car, "--db", db][..], 4),
            (&["import", car, "--db", &new, "--dry-run", "--preset", preset], 0),
            (&["stat", "--db", db, "--digest"], 0),
            (&["verify", "--db", db, "--against", car], 0),
            (&["walk", "--db", db], 0),
            (&["get", "--db", db, root], 0),
            (&["get", "--db", db, HOSTILE], 2),
            (&["inspect", car], 0),
            (&["inspect", "--full", car], 0),
            (&["inspect", &absent], 3),
            (&["export", "--db", db, &out, "--all", "--force"], 0),
            (&["generate", &out, "--size", "20K", "--force"], 0),
            (&["presets", "explain", preset], 0),
            (&["presets", "diff", preset, "ingest"], 0),
            (&["presets", "explain", HOSTILE], 2),
            (&["presets", "explain", "--set", &format!("load.cf.{HOSTILE}=1")], 2),
            (&["presets", "explain", "--set", &format!("load.cf.num_levels={HOSTILE}")], 2),
            (&["import", car, "--db", &new, &format!("--{HOSTILE}")], 2),
            (&["import", car, "--db", &new, "--key", HOSTILE], 2),
            (&[HOSTILE], 2),
        ] {
            ends(&[args, more].concat(), code);
        }
    }
    ends(&["presets", "show", preset], 0);
}

#[test]
fn doctor_and_bench_escape_names() {
    let scene = Scene::new();
    let Scene { car, preset, .. } = &scene;
    let (dir, out) = (scene.path(&format!("dir{HOSTILE}")), scene.path(&format!("results{HOSTILE}")));
    std::fs::create_dir(&dir).expect("a folder");
    ends(&["doctor", "--dir", &dir, car, "--preset", preset], 0);
    let few = ["bench", car, "--runs", "1", "--warmup", "0"];
    ends(&[&few[..], &["--dir", &dir, "--out", &out, "--presets", preset]].concat(), 0);
    let mut read = 0;
    for name in super::names(out.as_ref()) {
        if name.ends_with(".md") {
            let text = std::fs::read_to_string(PathBuf::from(&out).join(&name)).expect("text");
            let steers = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r') || *c == '\u{202e}');
            assert_eq!(steers, None, "{name}");
            read += 1;
        }
    }
    assert_eq!(read, 1, "no report");
}

#[test]
fn database_text_is_escaped() {
    let scene = Scene::new();
    let db = &*scene.db;
    let record = PathBuf::from(db).join("BEDLOAD.json");
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
        ends(&[command, "--db", db], code);
        ends(&[command, "--db", db, "--json"], code);
    }
    for pointer in ["/digest", "/key", "/column_family"] {
        let mut json = json.clone();
        *json.pointer_mut(pointer).expect("it is there") = HOSTILE.into();
        std::fs::write(&record, json.to_string()).expect("written");
        for command in ["stat", "verify", "walk"] {
            for more in ["--color=never", "--json"] {
                assert!(run(&[command, "--db", db, more]).code.is_some());
            }
        }
    }
    std::fs::write(&record, &text).expect("written");

    // The OPTIONS file: values, and what RocksDB says of them.
    let name =
        super::names(db.as_ref()).into_iter().rfind(|name| name.starts_with("OPTIONS-")).expect("an OPTIONS file");
    let options = format!("{db}/{name}");
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
            assert!(run(&[command, "--db", db]).code.is_some());
        }
        let new = scene.path("by-options");
        let args = ["import", &scene.car, "--db", &new, "--options-file", &options, "--dry-run"];
        assert!(run(&args).code.is_some());
    }
}

#[test]
fn text_of_an_unfinished_import_is_escaped() {
    let scene = Scene::new();
    let Scene { car, preset, .. } = &scene;
    let db = scene.path(&format!("new{HOSTILE}"));
    let import = ["import", car, "--db", &db, "--preset", preset];
    assert_eq!(output(bedload().args(import).env("BEDLOAD_ABORT_AT", "built")).code, Some(137));
    let said = ends(&import[..4], 4);
    assert!(said.contains("contains a different unfinished import: preset was x\\u{1b}"), "{said}");
    // The holder of the lock.
    let lock = std::fs::File::options().write(true).open(partial(db.as_ref()).join("lock")).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    std::io::Write::write_all(&mut &lock, HOSTILE.repeat(3).as_bytes()).expect("written");
    let said = ends(&import, 4);
    assert!(said.contains("another import is working on it (x\\u{1b}"), "{said}");
    drop(lock);
    // A source that is cut.
    let bytes = std::fs::read(car).expect("a snapshot");
    let cut = text(scene.place.file(&format!("cut{HOSTILE}.car"), &bytes[..bytes.len() - 7]));
    ends(&["import", &cut, "--db", &scene.path("of-cut")], 3);
    ends(&["inspect", "--full", &cut], 3);
}
