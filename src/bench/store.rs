//! Where results are kept, so that nothing that was measured is lost and a comparison that was stopped can be resumed.
//!
//! ```text
//! <out>/bench.json     what is compared, on what and how: written first; the same command resumes, another is refused
//!       runs.ndjson    one run a line, appended and synced when it is over
//!       results.json   everything together; like the files below written anew after every run, by a rename
//!       report.md  report.csv  report.html
//!       keys-*.txt     the keys that are looked up
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::os::files::{create_last_dir, read_regular};
use crate::report::bench::{BenchReport, Run, csv, html, markdown};
use crate::text::size::human;

/// The longest results that are read, in bytes: thousands of runs.
pub(super) const MOST_BYTES: u64 = 64 << 20;

/// A log of runs longer than this was not written by bedload, in bytes.
const MAX_LOG: u64 = 1 << 30;

/// The folder of one comparison.
pub(super) struct Store {
    dir: PathBuf,
    log: RunLog<Run>,
}

/// Runs, one a line.
pub(super) struct RunLog<T> {
    file: File,
    path: PathBuf,
    kind: PhantomData<T>,
}

impl Store {
    /// Opens the folder for a comparison that is `identity`, and reads the runs that have been made.
    ///
    /// # Errors
    /// [`Error::State`]: another comparison is there, or a line is no run; [`Error::Io`]: the folder cannot be used.
    pub fn open(dir: &Path, identity: &Map<String, Value>) -> Result<(Self, Vec<Run>)> {
        create_last_dir(dir)?;
        claim(&dir.join("bench.json"), identity, "comparison")?;
        let (log, runs) = RunLog::open(&dir.join("runs.ndjson"))?;
        Ok((Self { dir: dir.to_owned(), log }, runs))
    }

    /// Appends a run.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn append(&mut self, run: &Run) -> Result<()> {
        self.log.append(run)
    }

    /// Writes everything that is made from the runs.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn save(&self, report: &BenchReport) -> Result<()> {
        save(&self.dir, report)
    }
}

/// Writes a report in all its forms.
fn save(dir: &Path, report: &BenchReport) -> Result<()> {
    let results = dir.join("results.json");
    replace(&results, &serde_json::to_vec_pretty(report).map_err(not_serialised(&results))?)?;
    replace(&dir.join("report.md"), markdown(report).as_bytes())?;
    replace(&dir.join("report.csv"), csv(report).as_bytes())?;
    replace(&dir.join("report.html"), html(report).as_bytes())
}

/// Reads a saved comparison: `results.json`, or the folder that has it.
///
/// # Errors
/// [`Error::Io`]: there is none; [`Error::Usage`]: it is of another kind.
pub fn load(path: &Path) -> Result<BenchReport> {
    let file = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    let bytes = read_regular(&file, MOST_BYTES).map_err(Error::io("read", &file))?;
    serde_json::from_slice(&bytes).map_err(|error| Error::Usage {
        reason: format!("{} is no saved comparison: {error}", file.display()),
        hint: "give the results.json of `bedload bench`, or the folder it wrote to".into(),
    })
}

/// Describes each property in which two comparisons differ.
fn differences(there: &Map<String, Value>, here: &Map<String, Value>) -> Vec<String> {
    let names = here.keys().chain(there.keys().filter(|name| !here.contains_key(*name)));
    let of = |map: &Map<String, Value>, name: &String| map.get(name).cloned().unwrap_or(Value::Null);
    let describe = |name: &String| {
        let (there, here) = (of(there, name), of(here, name));
        let (was, is) = (in_words(&there), in_words(&here));
        let label = name.replace('_', " ");
        match (there == here, was == is) {
            (true, _) => None,
            (false, false) => Some(format!("{label}: {was} there, {is} here")),
            (false, true) => Some(format!("{label}: {is}, with other options")),
        }
    };
    names.filter_map(describe).collect()
}

/// A value of an identity as text; of a variant its name.
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

/// Records what a folder is for; what was begun there before must be the same.
///
/// # Errors
/// [`Error::State`]: it is not; [`Error::Io`]: the file cannot be used.
pub(super) fn claim(path: &Path, identity: &Map<String, Value>, what: &str) -> Result<()> {
    match fs::read(path) {
        Ok(bytes) => {
            let known: Map<String, Value> = serde_json::from_slice(&bytes).unwrap_or_default();
            let differences = differences(&known, identity);
            if differences.is_empty() {
                return Ok(());
            }
            Err(Error::State {
                path: path.parent().unwrap_or(path).to_owned(),
                reason: format!("holds another {what}: {}", differences.join("; ")),
                hint: "run the same command again to resume it, or choose another --out".into(),
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            replace(path, &serde_json::to_vec_pretty(identity).map_err(not_serialised(path))?)
        }
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

impl<T: Serialize + DeserializeOwned> RunLog<T> {
    /// Takes the lines that are whole; one that was being written when the power went is cut off.
    ///
    /// # Errors
    /// [`Error::State`]: a line is something else; [`Error::Io`]: the file cannot be used.
    pub fn open(path: &Path) -> Result<(Self, Vec<T>)> {
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(Error::io("open", path))?;
        let mut text = Vec::new();
        (&mut file).take(MAX_LOG + 1).read_to_end(&mut text).map_err(Error::io("read", path))?;
        if text.len() as u64 > MAX_LOG {
            return Err(Error::State {
                path: path.to_owned(),
                reason: format!("is longer than {}: bedload did not write it", human(MAX_LOG)),
                hint: "move the folder away".into(),
            });
        }
        let mut runs = Vec::new();
        let mut whole = 0;
        for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let Some(line_text) = line.strip_suffix(b"\n") else { break };
            runs.push(serde_json::from_slice(line_text).map_err(|error| Error::State {
                path: path.to_owned(),
                reason: format!("line {} is no run: {error}", index + 1),
                hint: "move the folder away, or remove that line".into(),
            })?);
            whole += line.len() as u64;
        }
        if whole < text.len() as u64 {
            file.set_len(whole).map_err(Error::io("cut", path))?;
        }
        Ok((Self { file, path: path.to_owned(), kind: PhantomData }, runs))
    }

    /// Adds a line, and waits until it is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn append(&mut self, run: &T) -> Result<()> {
        let mut line = serde_json::to_vec(run).map_err(not_serialised(&self.path))?;
        line.push(b'\n');
        let write = |file: &mut File| {
            file.write_all(&line)?;
            file.sync_data()
        };
        write(&mut self.file).map_err(Error::io("write", &self.path))
    }
}

/// Returns the error for a value that cannot be serialised.
fn not_serialised(path: &Path) -> impl FnOnce(serde_json::Error) -> Error {
    move |error| Error::io("write", path)(error.into())
}

/// Puts a new file in the place of an old one, whole or not at all.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let draft = path.with_extension("draft");
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::super::testing::run;
    use super::*;

    fn identity(runs: &str) -> Map<String, Value> {
        [("snapshot".to_owned(), Value::from("a.car")), ("presets".to_owned(), Value::from(runs))].into_iter().collect()
    }

    #[test]
    fn runs_are_there_again_and_a_torn_line_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mut store, runs) = Store::open(dir.path(), &identity("a")).expect("a new one");
        assert_eq!(runs, []);
        let all = [run("a", 0, 1.0, 1.0), run("b", 0, 2.0, 1.0)];
        all.iter().for_each(|run| store.append(run).expect("room"));
        drop(store);
        let log = dir.path().join("runs.ndjson");
        let whole = fs::read(&log).expect("the log");
        fs::write(&log, [&whole[..], b"{\"schema\": \"bedl"].concat()).expect("room");
        let (mut store, runs) = Store::open(dir.path(), &identity("a")).expect("the same");
        assert_eq!(runs, all);
        store.append(&run("a", 1, 3.0, 1.0)).expect("room");
        let (_, runs) = Store::open(dir.path(), &identity("a")).expect("the same");
        assert_eq!(runs.len(), 3);
        assert_eq!(runs[2].round, 1);
    }

    #[test]
    fn another_comparison_is_refused_with_both_sides() {
        let dir = tempfile::tempdir().expect("a folder");
        Store::open(dir.path(), &identity("a,b")).map(|_| ()).expect("a new one");
        let Err(error) = Store::open(dir.path(), &identity("a,c")) else { panic!("taken for the same") };
        assert!(error.to_string().ends_with("holds another comparison: presets: a,b there, a,c here"), "{error}");
    }

    #[test]
    fn comparison_differences_name_presets() {
        let identity = |names: &[&str], digest: &str| {
            let variant = |name: &&str| serde_json::json!({ "name": name, "preset_text": digest, "set": [] });
            let variants: Vec<Value> = names.iter().map(variant).collect();
            let value = serde_json::json!({ "variants": variants, "cold": false });
            value.as_object().expect("an object").clone()
        };
        let there = identity(&["ingest", "memtable"], "aa");
        assert_eq!(differences(&there, &there), Vec::<String>::new());
        let other = differences(&there, &identity(&["ingest"], "aa"));
        assert_eq!(other, ["variants: ingest, memtable there, ingest here"]);
        let changed = differences(&there, &identity(&["ingest", "memtable"], "bb"));
        assert_eq!(changed, ["variants: ingest, memtable, with other options"]);
    }

    #[test]
    fn a_line_that_is_something_else_is_reported() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("runs.ndjson"), "{}\n").expect("room");
        let Err(error) = Store::open(dir.path(), &identity("a")) else { panic!("taken for a run") };
        assert!(error.to_string().contains("line 1 is no run"), "{error}");
    }
}
