//! Helpers that publish, seed and read bundles.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::crash::{Ended, Snapshot, ended};
use super::model::{Key, Model, records};
pub use super::run::partial;
use super::run::{Place, bedload, import, json, program};

/// Arguments that make many files of a small snapshot.
pub const SMALL_FILES: [&str; 4] = ["--set", "load.ingest.sst_size=1M", "--threads", "2"];

/// A run of a command that makes or takes bundles, with a report in JSON.
pub struct Run {
    command: std::process::Command,
    /// The database of a seed.
    db: Option<PathBuf>,
}

impl Run {
    fn new(command: &str, args: &[&OsStr]) -> Self {
        let mut run = bedload();
        run.arg(command).args(args).args(["--json", "--progress", "off"]);
        Self { command: run, db: None }
    }

    pub fn arg(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Credentials and the address of a store.
    pub fn at(self, endpoint: &str) -> Self {
        let run = self.arg(&["--endpoint", endpoint]).env("AWS_ACCESS_KEY_ID", "a-key");
        run.env("AWS_SECRET_ACCESS_KEY", "a-hidden-secret")
    }

    pub fn spawn(mut self) -> std::process::Child {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().expect("it starts")
    }

    #[track_caller]
    pub fn run(self) -> Ended {
        ended(self.spawn())
    }

    #[track_caller]
    pub fn succeeds(self) -> Ended {
        let ended = self.run();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended
    }

    /// The seeded database holds exactly the blocks of `snapshot`.
    #[track_caller]
    pub fn holds(self, snapshot: &Snapshot) -> Ended {
        let db = self.db.clone().expect("a seed");
        let ended = self.succeeds();
        holds(&db, snapshot);
        ended
    }

    #[track_caller]
    pub fn dies_at(self, point: &str) {
        let ended = self.env("BEDLOAD_ABORT_AT", point).run();
        assert_eq!(ended.code, Some(137), "{point}: {}", ended.stderr);
    }

    /// Ends with this exit code, `words` in its error, and a hint. A seed that begins now ingests nothing.
    #[track_caller]
    pub fn refused(self, code: i32, words: &str) -> Ended {
        let places = self.db.iter().flat_map(|db| [db.clone(), partial(db).join("db")]);
        let absent: Vec<PathBuf> = places.filter(|path| path.symlink_metadata().is_err()).collect();
        let ended = self.run();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.text("/error").contains(words), "`{words}` is not in {ended:?}");
        assert!(!ended.text("/hint").is_empty());
        for path in absent {
            assert!(path.symlink_metadata().is_err(), "{} was made: {ended:?}", path.display());
        }
        ended
    }

    /// Is refused before a seed writes or fetches anything.
    #[track_caller]
    pub fn refused_at_once(self, code: i32, words: &str) -> Ended {
        let db = self.db.clone().expect("a seed");
        let ended = self.refused(code, words);
        assert!(!partial(&db).exists(), "it began: {ended:?}");
        ended
    }
}

pub fn bundle(db: &Path, to: impl AsRef<OsStr>) -> Run {
    Run::new("bundle", &[db.as_ref(), "--to".as_ref(), to.as_ref()]).arg(&["--threads", "2"])
}

pub fn seed(from: impl AsRef<OsStr>, db: &Path) -> Run {
    let run = Run::new("seed", &[from.as_ref(), "--db".as_ref(), db.as_ref()]).arg(&["--threads", "2"]);
    Run { db: Some(db.to_owned()), ..run }
}

/// Importing one shard of `source` into `db`, in some files.
pub fn shard(source: impl AsRef<OsStr>, shard: &str, db: &Path) -> Run {
    Run::new("import", &[source.as_ref(), "--db".as_ref(), db.as_ref()]).arg(&["--shard", shard]).arg(&SMALL_FILES)
}

pub fn join(place: impl AsRef<OsStr>) -> Run {
    Run::new("bundle", &["--join".as_ref(), place.as_ref()])
}

/// An import of `snapshot`, in some files.
pub fn imported(place: &Place, snapshot: &Snapshot) -> PathBuf {
    let done = import(place, &snapshot.file).args(&SMALL_FILES).run();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.db
}

/// An import of `snapshot` that is published in a directory.
pub fn published(place: &Place, snapshot: &Snapshot) -> PathBuf {
    let (db, to) = (imported(place, snapshot), place.path("bundles"));
    bundle(&db, &to).succeeds();
    to
}

/// A place with a published import of `snapshot`, its bundles, and a path for a database that is seeded.
pub fn bundled(snapshot: &Snapshot) -> (Place, PathBuf, PathBuf) {
    let place = Place::new();
    let (to, y) = (published(&place, snapshot), place.path("y"));
    (place, to, y)
}

pub fn latest(to: &Path) -> String {
    std::fs::read_to_string(to.join("latest")).expect("a pointer").trim_end().to_owned()
}

pub fn described(to: &Path) -> Value {
    let text = std::fs::read(to.join(latest(to)).join("bundle.json")).expect("a description");
    serde_json::from_slice(&text).expect("JSON")
}

/// Publishes an altered description of a directory under its right id.
pub fn alter(to: &Path, alter: impl FnOnce(&mut Value)) {
    let mut described = described(to);
    alter(&mut described);
    publish_text(to, &serde_json::to_vec_pretty(&described).expect("JSON"));
}

/// Makes these bytes a file of the newest bundle, described as the file of this number. Returns their BLAKE3.
pub fn put_file(to: &Path, number: usize, bytes: &[u8]) -> String {
    let sum = blake3::hash(bytes).to_hex().to_string();
    std::fs::write(to.join("files").join(format!("{sum}.sst")), bytes).expect("written");
    alter(to, |described| {
        let file = &mut described["files"][number];
        (file["name"], file["blake3"], file["bytes"]) =
            (format!("{sum}.sst").into(), (*sum).into(), bytes.len().into());
    });
    sum
}

pub fn make_pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
}

/// Publishes this text as the newest description of a directory, under its right id.
pub fn publish_text(to: &Path, text: &[u8]) {
    let id = blake3::hash(text).to_hex().to_string();
    std::fs::create_dir_all(to.join(&id)).expect("a folder");
    std::fs::write(to.join(&id).join("bundle.json"), text).expect("written");
    std::fs::write(to.join("latest"), id).expect("written");
}

/// [`described`] without names and BLAKE3s of the files, because RocksDB puts a random identity into each.
pub fn content(to: &Path) -> Value {
    let mut described = described(to);
    for file in described["files"].as_array_mut().expect("files") {
        let file = file.as_object_mut().expect("a file");
        assert!(file.remove("name").is_some() && file.remove("blake3").is_some());
    }
    described
}

pub fn files(to: &Path) -> Vec<PathBuf> {
    let described = described(to);
    let names = described["files"].as_array().expect("files").iter();
    names.map(|file| to.join("files").join(file["name"].as_str().expect("a name"))).collect()
}

/// Checks that every file and bundle named in the directory exists. Returns the number of bundles.
#[track_caller]
pub fn names_only_what_is_there(to: &Path) -> usize {
    let (mut bundles, mut ids) = (0, BTreeSet::new());
    for entry in to.read_dir().into_iter().flatten().flatten() {
        let Ok(text) = std::fs::read(entry.path().join("bundle.json")) else { continue };
        let id = entry.file_name().to_string_lossy().into_owned();
        assert_eq!(blake3::hash(&text).to_hex().as_str(), id, "a description under another id");
        ids.insert(id);
        let described: Value = serde_json::from_slice(&text).expect("a whole description");
        for file in described["files"].as_array().expect("files") {
            let path = to.join("files").join(file["name"].as_str().expect("a name"));
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(Value::from(blake3::hash(&bytes).to_hex().as_str()), file["blake3"], "{}", path.display());
        }
        bundles += 1;
    }
    if to.join("latest").exists() {
        assert!(ids.contains(&latest(to)), "the pointer leads nowhere");
    }
    bundles
}

/// The database holds exactly the blocks of a CAR, and is valid.
#[track_caller]
pub fn holds(db: &Path, snapshot: &Snapshot) {
    let model = Model::new(&snapshot.blocks, Key::Cid);
    assert!(records(db) == model.records, "the database holds other records than the model");
    is_valid(db);
    assert!(!partial(db).exists(), "something is left of the work");
}

#[track_caller]
pub fn is_valid(db: &Path) {
    let report = json(program().arg("verify").arg(db), 0);
    assert_eq!(report["recorded"]["confirmed"], true, "{report}");
}

/// An import of `snapshot` that publishes while it builds; where `db` is none, no database stays.
pub fn import_to(snapshot: &Snapshot, to: impl AsRef<OsStr>, db: Option<&Path>, work: &Path) -> Run {
    let args = [snapshot.file.as_ref(), "--bundle".as_ref(), to.as_ref(), "--work-dir".as_ref(), work.as_ref()];
    let mut run = Run::new("import", &args).arg(&SMALL_FILES);
    run.command.args(db.into_iter().flat_map(|db| [OsStr::new("--db"), db.as_ref()]));
    run
}
