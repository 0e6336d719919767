//! The results of a comparison. A comparison that was stopped resumes from them.
//!
//! ```text
//! <out>/bench.json     the identity of the comparison, written first; only the same comparison may resume
//!       runs.ndjson    one run a line, appended and synced when it ends
//!       results.json   the whole report; it and the files below are replaced by a rename after every run
//!       report.md
//!       keys-*.txt     the keys that are looked up
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Result, StateKind};
use crate::os::files::{create_last_dir, read_regular, resolved, write_synced};
use crate::report::bench::{BenchReport, BenchRun, markdown};
use crate::rocks::is_database;
use crate::text::size::human;

/// The largest results that are read, in bytes: thousands of runs.
pub(super) const MOST_BYTES: u64 = 64 << 20;

/// The file with the identity of the comparison.
const IDENTITY: &str = "bench.json";
const LOG: &str = "runs.ndjson";

/// The files that are replaced after every run.
const OUTPUTS: [&str; 2] = ["results.json", "report.md"];

/// The largest log of runs, in bytes.
const MAX_LOG: u64 = 1 << 30;

pub(super) struct ResultStore {
    dir: PathBuf,
    log: File,
}

impl ResultStore {
    /// Opens the directory for the comparison with this identity, and reads the finished runs. A line that was being
    /// written at a power cut is cut off.
    ///
    /// # Errors
    /// [`Error::State`]: it has another comparison, or a line is not a run; [`Error::Io`]: the directory is unusable.
    pub fn open(dir: &Path, identity: &Map<String, Value>) -> Result<(Self, Vec<BenchRun>)> {
        if let Some(above) = resolved(dir).ancestors().find(|above| is_database(above)) {
            let hint = "choose another --out";
            return Err(Error::state(dir, StateKind::Other, format!("is in the database {}", above.display()), hint));
        }
        create_last_dir(dir)?;
        claim(dir, identity)?;
        let path = dir.join(LOG);
        let state = |reason: String, hint: &str| Error::state(path.clone(), StateKind::Other, reason, hint);
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(Error::io("open", &path))?;
        let mut text = Vec::new();
        (&mut file).take(MAX_LOG + 1).read_to_end(&mut text).map_err(Error::io("read", &path))?;
        if text.len() as u64 > MAX_LOG {
            let reason = format!("is longer than {}: bedload did not write it", human(MAX_LOG));
            return Err(state(reason, "move the folder away"));
        }
        let (mut runs, mut whole) = (Vec::new(), 0);
        for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let Some(run) = line.strip_suffix(b"\n") else { break };
            runs.push(serde_json::from_slice(run).map_err(|error| {
                state(format!("line {} is not a run: {error}", index + 1), "move the folder away, or remove that line")
            })?);
            whole += line.len() as u64;
        }
        if whole < text.len() as u64 {
            file.set_len(whole).map_err(Error::io("truncate", &path))?;
        }
        Ok((Self { dir: dir.to_owned(), log: file }, runs))
    }

    /// Appends a run and syncs it.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn append(&mut self, run: &BenchRun) -> Result<()> {
        let mut write = || {
            let mut line = serde_json::to_vec(run)?;
            line.push(b'\n');
            self.log.write_all(&line)?;
            self.log.sync_data()
        };
        write().map_err(Error::io("write", self.dir.join(LOG)))
    }

    /// Writes the report in all formats.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn save(&self, report: &BenchReport) -> Result<()> {
        let texts = [to_json(&self.dir, report)?, markdown(report).into()];
        OUTPUTS.iter().zip(texts).try_for_each(|(name, text)| write_synced(&self.dir, name, &text))
    }
}

/// Reads a saved comparison: `results.json`, or its directory.
///
/// # Errors
/// [`Error::Io`]: it is missing; [`Error::Usage`]: it is another kind of file.
pub fn load(path: &Path) -> Result<BenchReport> {
    let file = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    let bytes = read_regular(&file, MOST_BYTES).map_err(Error::io("read", &file))?;
    serde_json::from_slice(&bytes).map_err(|error| Error::Usage {
        reason: format!("{} is not a saved comparison: {error}", file.display()),
        hint: "pass results.json or the --out directory of `bedload bench`".into(),
    })
}

fn differences(there: &Map<String, Value>, here: &Map<String, Value>) -> Vec<String> {
    let names = here.keys().chain(there.keys().filter(|name| !here.contains_key(*name)));
    let describe = |name: &String| {
        let [there, here] = [there, here].map(|map| map.get(name).unwrap_or(&Value::Null));
        let (was, is) = (in_words(there), in_words(here));
        let label = name.replace('_', " ");
        match (there == here, was == is) {
            (true, _) => None,
            (false, false) => Some(format!("{label}: {was} saved, {is} requested")),
            (false, true) => Some(format!("{label}: {is}, with other options")),
        }
    };
    names.filter_map(describe).collect()
}

/// Formats a value of an identity; a variant as its name.
fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(in_words).collect::<Vec<_>>().join(", "),
        Value::Object(map) => map.get("name").map_or_else(|| value.to_string(), in_words),
        Value::Number(number) => number.to_string(),
    }
}

/// Writes the identity, or compares it with the one that an earlier run wrote.
fn claim(dir: &Path, identity: &Map<String, Value>) -> Result<()> {
    let path = dir.join(IDENTITY);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if let Some(there) = OUTPUTS.iter().map(|name| dir.join(name)).find(|file| file.exists()) {
                let hint = "move it away, or choose another --out";
                return Err(Error::state(there, StateKind::Exists, "is not of this comparison", hint));
            }
            return write_synced(dir, IDENTITY, &to_json(&path, identity)?);
        }
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let differences = differences(&serde_json::from_slice(&bytes).unwrap_or_default(), identity);
    if differences.is_empty() {
        return Ok(());
    }
    let reason = format!("contains a comparison with other settings: {}", differences.join("; "));
    let hint = "repeat the command of that comparison to resume it, or choose another --out";
    Err(Error::state(dir.to_owned(), StateKind::Exists, reason, hint))
}

/// Serialises a value for the file at `path`.
fn to_json(path: &Path, value: &impl serde::Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).map_err(|error| Error::io("write", path)(error.into()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    fn identity(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    fn open(dir: &Path, presets: &str) -> Result<(ResultStore, Vec<BenchRun>)> {
        ResultStore::open(dir, &identity(serde_json::json!({ "snapshot": "a.car", "presets": presets })))
    }

    #[test]
    fn torn_lines_are_cut_off() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut store, runs) = open(dir.path(), "a").expect("a new one");
        assert_eq!(runs, []);
        let all = [run("a", 0, 1.0, 1.0), run("b", 0, 2.0, 1.0)];
        all.iter().for_each(|run| store.append(run).expect("room"));
        store.log.write_all(b"{\"schema\": \"bedl").expect("room");
        let (mut store, runs) = open(dir.path(), "a").expect("the same");
        assert_eq!(runs, all);
        store.append(&run("a", 1, 3.0, 1.0)).expect("room");
        let (_, runs) = open(dir.path(), "a").expect("the same");
        assert_eq!(runs[2..], [run("a", 1, 3.0, 1.0)]);
    }

    #[test]
    fn foreign_results_are_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("report.md"), "mine").expect("room");
        let error = open(dir.path(), "a").map(drop).expect_err("another file").to_string();
        assert!(error.ends_with("report.md: is not of this comparison"), "{error}");
        assert!(!dir.path().join("bench.json").exists());
    }

    #[test]
    fn other_comparisons_and_lines_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        open(dir.path(), "a,b").map(drop).expect("a new one");
        let error = open(dir.path(), "a,c").map(drop).expect_err("another comparison").to_string();
        assert!(
            error.ends_with("contains a comparison with other settings: presets: a,b saved, a,c requested"),
            "{error}"
        );
        fs::write(dir.path().join("runs.ndjson"), "{}\n").expect("room");
        let error = open(dir.path(), "a,b").map(drop).expect_err("no run").to_string();
        assert!(error.contains("line 1 is not a run"), "{error}");
    }

    #[test]
    fn comparison_differences_name_presets() {
        let identity = |names: &[&str], digest: &str| {
            let variant = |name: &&str| serde_json::json!({ "name": name, "preset_text": digest, "set": [] });
            let variants: Vec<Value> = names.iter().map(variant).collect();
            identity(serde_json::json!({ "variants": variants, "cold": false }))
        };
        let there = identity(&["ingest", "memtable"], "aa");
        for (here, expected) in [
            (there.clone(), &[][..]),
            (identity(&["ingest"], "aa"), &["variants: ingest, memtable saved, ingest requested"]),
            (identity(&["ingest", "memtable"], "bb"), &["variants: ingest, memtable, with other options"]),
        ] {
            assert_eq!(differences(&there, &here), expected);
        }
    }
}
