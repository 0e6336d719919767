//! Results of an attack, checked without the library under test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::common::crash::{Ended, ended_within};

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
pub struct Wanted {
    file: PathBuf,
}

impl Wanted {
    /// All of `must`, and nothing but those and `may`.
    pub fn new(file: PathBuf, must: &Families, may: &Families) -> Self {
        let mut bytes = Vec::new();
        for (all, is_must) in [(may, 0u8), (must, 1)] {
            for (family, records) in all {
                for (key, value) in records {
                    bytes.push(is_must);
                    for field in [family.as_bytes(), key, value] {
                        bytes.extend((field.len() as u32).to_le_bytes());
                        bytes.extend(field);
                    }
                }
            }
        }
        std::fs::write(&file, bytes).expect("room for a model");
        Self { file }
    }

    /// Opens the database with RocksDB, in a process that may hang or die, and compares every record.
    pub fn check_database(&self, db: &Path) -> Judged<()> {
        let mut reader = Command::new(std::env::current_exe().expect("a name"));
        reader.arg("--compare").arg(db).arg(&self.file).stdin(Stdio::null());
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

/// `--compare DB FILE`: what of the file is in the database, as JSON.
pub fn compare(db: &Path, file: &Path) -> Value {
    let (mut must, mut may) = (Families::new(), Families::new());
    let bytes = std::fs::read(file).expect("a model");
    let mut rest = &bytes[..];
    while let Some((is_must, mut fields)) = rest.split_first() {
        let mut field = || {
            let (len, more) = fields.split_first_chunk().expect("a length");
            let (field, more) = more.split_at(u32::from_le_bytes(*len) as usize);
            fields = more;
            field.to_vec()
        };
        let family = String::from_utf8(field()).expect("text");
        let all = if *is_must == 1 { &mut must } else { &mut may };
        let (key, value) = (field(), field());
        all.entry(family).or_default().insert(key, value);
        rest = fields;
    }
    match records(db) {
        Err((what, error)) => json!({ what: error.to_string() }),
        Ok(found) => {
            let (mut missing, mut different, mut more) = (0, 0, 0);
            for (family, records) in &must {
                let there = found.get(family);
                missing += records.keys().filter(|&key| there.is_none_or(|there| !there.contains_key(key))).count();
            }
            for (family, records) in &found {
                for (key, value) in records {
                    let of = |all: &Families| Some(all.get(family)?.get(key)? == value);
                    match (of(&must), of(&may)) {
                        (Some(true), _) | (None, Some(true)) => {}
                        (None, None) => more += 1,
                        _ => different += 1,
                    }
                }
            }
            json!({ "missing": missing, "different": different, "more": more })
        }
    }
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
