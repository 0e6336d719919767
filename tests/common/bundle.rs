//! Helpers that publish, seed and read bundles.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::crash::{Ended, Snapshot, ended};
use super::model::{Key, Model, records};
use super::run::{Place, bedload, import};

/// Arguments that make many files of a small snapshot.
pub const SMALL_FILES: [&str; 4] = ["--set", "load.ingest.sst_size=1M", "--threads", "2"];

/// A run of `bundle` or `seed`.
pub struct Run(std::process::Command);

impl Run {
    pub fn of(command: std::process::Command) -> Self {
        Self(command)
    }

    pub fn arg(mut self, args: &[&str]) -> Self {
        self.0.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    /// Credentials and the address of a store.
    pub fn at(self, endpoint: &str) -> Self {
        let run = self.arg(&["--endpoint", endpoint]).env("AWS_ACCESS_KEY_ID", "a-key");
        run.env("AWS_SECRET_ACCESS_KEY", "a-hidden-secret")
    }

    pub fn spawn(mut self) -> std::process::Child {
        self.0.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.0.spawn().expect("it starts")
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

    /// Dies at a named point.
    #[track_caller]
    pub fn dies_at(self, point: &str) {
        let ended = self.env("BEDLOAD_ABORT_AT", point).run();
        assert_eq!(ended.code, Some(137), "{point}: {}", ended.stderr);
    }

    /// Ends with this exit code, `words` in its error, and a hint.
    #[track_caller]
    pub fn refused(self, code: i32, words: &str) -> Ended {
        let ended = self.run();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.text("/error").contains(words), "`{words}` is not in {ended:?}");
        assert!(!ended.text("/hint").is_empty());
        ended
    }
}

/// Publishing `db`.
pub fn bundle(db: &Path, to: impl AsRef<OsStr>) -> Run {
    let mut command = bedload();
    command.arg("bundle").arg(db).arg("--to").arg(to).args(["--json", "--progress", "off", "--threads", "2"]);
    Run(command)
}

/// Seeding `db`.
pub fn seed(from: impl AsRef<OsStr>, db: &Path) -> Run {
    let mut command = bedload();
    command.arg("seed").arg(from).arg("--db").arg(db).args(["--json", "--progress", "off", "--threads", "2"]);
    Run(command)
}

/// Importing one shard of `source` into `db`, in some files.
pub fn shard(source: impl AsRef<OsStr>, shard: &str, db: &Path) -> Run {
    let mut command = bedload();
    command.arg("import").arg(source).args(["--shard", shard]).arg("--db").arg(db);
    command.args(["--json", "--progress", "off"]).args(SMALL_FILES);
    Run(command)
}

/// Joining the parts in `place`.
pub fn join(place: impl AsRef<OsStr>) -> Run {
    let mut command = bedload();
    command.args(["bundle", "--join"]).arg(place).args(["--json", "--progress", "off"]);
    Run(command)
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

/// The id of the newest bundle of a directory.
pub fn latest(to: &Path) -> String {
    std::fs::read_to_string(to.join("latest")).expect("a pointer").trim_end().to_owned()
}

/// The description of the newest bundle of a directory.
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

/// Paths of the files of the newest bundle.
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
    let output = bedload().arg("verify").arg(db).arg("--json").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["recorded"]["confirmed"], true, "{report}");
}

/// Nothing exists under the name, and nothing was ingested.
#[track_caller]
pub fn nothing_is_ingested(db: &Path) {
    assert!(db.symlink_metadata().is_err(), "something stands under the final name");
    let staging = partial(db).join("db");
    assert!(staging.symlink_metadata().is_err(), "a database was begun");
}

pub fn partial(db: &Path) -> PathBuf {
    let mut name = db.file_name().expect("a name").to_owned();
    name.push(".partial");
    db.with_file_name(name)
}

/// An import of `snapshot` that publishes while it builds; where `db` is none, no database stays.
pub fn import_to(snapshot: &Snapshot, to: impl AsRef<OsStr>, db: Option<&Path>, work: &Path) -> Run {
    let mut command = bedload();
    command.arg("import").arg(&snapshot.file).arg("--bundle").arg(to).arg("--work-dir").arg(work);
    command.args(["--json", "--progress", "off"]).args(SMALL_FILES);
    if let Some(db) = db {
        command.arg("--db").arg(db);
    }
    Run(command)
}
