//! Results of an attack, checked without the library under test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::common::crash::{Ended, ended_within};
use super::common::log::hex;

/// Records of column families.
pub type Families = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Time limit of a run: hundreds of times its time on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An acceptable result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// An error that says what is wrong; then the right records with `--restart`, or with a valid source or disk.
    Refused,
    /// The right records, without help.
    Resumed,
    /// The changed bytes are not read.
    Unchanged,
    /// A finished database is damaged, and `verify` says so.
    Found,
    /// Exactly the content of the changed source, in which no hash covers these bits.
    Uncovered,
}

/// A result that must never occur.
#[derive(Debug, Clone, Copy)]
pub enum Harm {
    // The column after those of the outcomes.
    Lost = Outcome::Uncovered as isize + 1,
    Wrong,
    Hung,
    Signal,
    DoesNotOpen,
    /// An undocumented exit code or hint, or work that cannot be resumed.
    WrongReport,
}

#[derive(Debug)]
pub struct Failure {
    pub harm: Harm,
    pub text: String,
}

pub type Judged<T> = Result<T, Failure>;

pub fn fail<T>(harm: Harm, text: impl Into<String>) -> Judged<T> {
    Err(Failure { harm, text: text.into() })
}

/// The outcome of a refused import, after which nothing exists under the name of its database.
pub fn refused(db: &Path) -> Judged<Outcome> {
    match db.symlink_metadata() {
        Ok(_) => fail(Harm::Wrong, "refused, and something exists under the final name"),
        Err(_) => Ok(Outcome::Refused),
    }
}

/// Waits for a run that must end by itself, with one of the documented exit codes.
pub fn ends(child: std::process::Child, codes: &[i32]) -> Judged<Ended> {
    let (ended, hung) = ended_within(child, PATIENCE);
    if hung {
        return fail(Harm::Hung, format!("hung for {PATIENCE:?}: {ended:?}"));
    }
    match ended.code {
        None => fail(Harm::Signal, format!("died by a signal: {ended:?}")),
        Some(code) if !codes.contains(&code) => fail(Harm::WrongReport, format!("exit code {code}: {}", ended.stderr)),
        Some(_) => Ok(ended),
    }
}

/// The records that a database must hold, as a file that another process can read.
pub struct Wanted(PathBuf);

impl Wanted {
    /// All of `must`, and nothing but those and `may`.
    pub fn new(file: PathBuf, must: &Families, may: &Families) -> Self {
        let mut text = String::new();
        for (kind, families) in [("must", must), ("may", may)] {
            for (key, value) in flat(families) {
                text += &format!("{kind} {key} {value}\n");
            }
        }
        std::fs::write(&file, text).expect("room for a model");
        Self(file)
    }

    /// Opens the database with RocksDB, in a process that may hang or die, and compares every record.
    pub fn check_database(&self, db: &Path) -> Judged<()> {
        let mut reader = Command::new(std::env::current_exe().expect("a name"));
        reader.arg("--compare").arg(db).arg(&self.0).stdin(Stdio::null());
        let ended = ends(reader.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"), &[0])?;
        let has = |name: &str| ended.json.get(name).is_some_and(|found| *found != 0);
        let harm = match () {
            () if !ended.json.is_object() || has("closed") => Harm::DoesNotOpen,
            () if has("unreadable") || has("missing") => Harm::Lost,
            () if has("different") || has("more") => Harm::Wrong,
            () => return Ok(()),
        };
        fail(harm, format!("{} of {}: {}", ended.json, db.display(), ended.stderr))
    }
}

/// Records as text: the family and the key, and the hash of the value.
fn flat(families: &Families) -> BTreeMap<String, String> {
    let records = families.iter().flat_map(|(family, records)| records.iter().map(move |record| (family, record)));
    records.map(|(family, (key, value))| (format!("{family}:{}", hex(key)), hex(&Sha256::digest(value)))).collect()
}

/// `--compare DB FILE`: what of the file is in the database, as JSON.
pub fn compare(db: &Path, file: &Path) -> Value {
    let text = std::fs::read_to_string(file).expect("a model");
    let of_kind = |kind: &str| -> BTreeMap<&str, &str> {
        text.lines().filter_map(|line| line.strip_prefix(kind)?.split_once(' ')).collect()
    };
    let (must, may) = (of_kind("must "), of_kind("may "));
    let found = match records(db) {
        Err((what, error)) => return json!({ what: error.to_string() }),
        Ok(found) => flat(&found),
    };
    let missing = must.keys().filter(|key| !found.contains_key(**key)).count();
    let (mut different, mut more) = (0, 0);
    for (key, value) in &found {
        let of = |all: &BTreeMap<&str, &str>| Some(*all.get(&**key)? == value);
        match (of(&must), of(&may)) {
            (Some(true), _) | (None, Some(true)) => {}
            (None, None) => more += 1,
            _ => different += 1,
        }
    }
    json!({ "missing": missing, "different": different, "more": more })
}

/// All records, read with RocksDB itself; nothing is written beside them. An error says what is `closed` or `unreadable`.
fn records(db: &Path) -> Result<Families, (&'static str, rust_rocksdb::Error)> {
    let closed = |error| ("closed", error);
    let logs = tempfile::tempdir().expect("a folder");
    let mut options = rust_rocksdb::Options::default();
    options.set_db_log_dir(logs.path());
    let names = rust_rocksdb::DB::list_cf(&options, db).map_err(closed)?;
    let open = rust_rocksdb::DB::open_cf_for_read_only(&options, db, &names, false).map_err(closed)?;
    let mut found = Families::new();
    for name in names {
        let family = open.cf_handle(&name).expect("it was listed");
        let all = open.iterator_cf(family, rust_rocksdb::IteratorMode::Start);
        let pairs = all.map(|record| record.map(|(key, value)| (key.to_vec(), value.to_vec())));
        found.insert(name, pairs.collect::<Result<_, _>>().map_err(|error| ("unreadable", error))?);
    }
    Ok(found)
}
