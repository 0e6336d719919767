//! Helpers that publish, seed and read bundles.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::crash::Snapshot;
use super::model::{Key, Model, records};
use super::run::{Done, Place, import, json, program};
pub use super::run::{Run, partial};

/// Arguments that make many files of a small snapshot.
pub const SMALL_FILES: [&str; 4] = ["--set", "load.ingest.sst_size=1M", "--threads", "2"];

pub fn bundle(db: &Path, to: impl AsRef<OsStr>) -> Run {
    let args = [db.as_ref(), "--to".as_ref(), to.as_ref()];
    Run::new("bundle", &args, "".as_ref()).args(&["--threads", "2"])
}

pub fn seed(from: impl AsRef<OsStr>, db: &Path) -> Run {
    Run::new("seed", &[from.as_ref(), "--db".as_ref(), db.as_ref()], db).args(&["--threads", "2"])
}

/// Importing one shard of `source` into `db`, in some files.
pub fn shard(source: impl AsRef<OsStr>, shard: &str, db: &Path) -> Run {
    let args = [source.as_ref(), "--db".as_ref(), db.as_ref(), "--shard".as_ref(), shard.as_ref()];
    Run::new("import", &args, "".as_ref()).args(&SMALL_FILES)
}

pub fn join(place: impl AsRef<OsStr>) -> Run {
    Run::new("bundle", &["--join".as_ref(), place.as_ref()], "".as_ref())
}

impl Run {
    /// The seeded database holds exactly the blocks of `snapshot`.
    #[track_caller]
    pub fn seeds(self, snapshot: &Snapshot) -> Done {
        let done = self.succeeds();
        holds(&done.db, snapshot);
        done
    }
}

/// An import of `snapshot`, in some files.
pub fn imported(place: &Place, snapshot: &Snapshot) -> PathBuf {
    import(place, &snapshot.file).args(&SMALL_FILES).succeeds().db
}

/// An import of `snapshot` that is published in a directory.
pub fn published(place: &Place, snapshot: &Snapshot) -> PathBuf {
    let (db, to) = (imported(place, snapshot), place.path("bundles"));
    bundle(&db, &to).succeeds();
    to
}

/// A place with a published import of `snapshot`, its bundles, and a path for a database that is seeded.
pub fn bundled(snapshot: &Snapshot) -> (Place, PathBuf, PathBuf) {
    let place = Place::in_memory();
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

/// The database holds exactly the blocks of a CAR.
#[track_caller]
pub fn holds(db: &Path, snapshot: &Snapshot) {
    let model = Model::new(&snapshot.blocks, Key::Cid);
    assert!(records(db) == model.records, "the database holds other records than the model");
    assert!(!partial(db).exists(), "something is left of the work");
}

#[track_caller]
pub fn is_valid(db: &Path) {
    let report = json(program().arg("verify").arg(db), 0);
    assert_eq!(report["recorded"]["confirmed"], true, "{report}");
}

/// An import of `snapshot` that publishes while it builds; where `db` is none, no database stays.
pub fn import_to(snapshot: &Snapshot, to: impl AsRef<OsStr>, db: Option<&Path>, work: &Path) -> Run {
    let mut args = vec![snapshot.file.as_ref(), "--bundle".as_ref(), to.as_ref(), "--work-dir".as_ref(), work.as_ref()];
    args.extend(db.into_iter().flat_map(|db| [OsStr::new("--db"), db.as_ref()]));
    Run::new("import", &args, "".as_ref()).args(&SMALL_FILES)
}
