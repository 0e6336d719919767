//! The runs of a search, kept so that one that was stopped can be resumed.
//!
//! ```text
//! <out>/tune.json     what is searched for, on what and how: the same search resumes, another is refused
//!       runs.ndjson   one run a line with the stage it belongs to, appended and synced when it is over
//!       keys-*        the keys that are looked up, by stage
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::store::{RunLog, claim};
use crate::error::{Error, Result};
use crate::os::files::create_last_dir;
use crate::report::bench::Run;

/// Where a run belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// A sample of so many bytes.
    Sample(u64),
    /// The confirmation.
    Whole,
}

#[derive(Serialize, Deserialize)]
struct Line {
    stage: Stage,
    /// Which of the runs of its variant in the round it is: the start has several.
    repeat: u32,
    run: Run,
}

/// All runs of a search.
pub(super) struct RunStore {
    dir: PathBuf,
    log: RunLog<Line>,
    runs: HashMap<(Stage, String, u32, u32), Run>,
}

impl RunStore {
    /// Opens the folder of a search that is `identity`.
    ///
    /// # Errors
    /// [`Error::State`]: another search is there, or a line is no run; [`Error::Io`]: the folder cannot be used.
    pub fn open(dir: &Path, identity: &Map<String, Value>) -> Result<Self> {
        create_last_dir(dir)?;
        claim(&dir.join("tune.json"), identity, "search")?;
        let (log, lines) = RunLog::<Line>::open(&dir.join("runs.ndjson"))?;
        let mut kept = Self { dir: dir.to_owned(), log, runs: HashMap::new() };
        lines.into_iter().for_each(|line| kept.hold(line));
        Ok(kept)
    }

    /// The run of a variant in a round, if it was made; of several the one numbered `repeat`.
    pub fn run(&self, stage: Stage, variant: &str, round: u32, repeat: u32) -> Option<&Run> {
        self.runs.get(&(stage, variant.to_owned(), round, repeat))
    }

    /// Stores a run; it takes the place of an earlier one of the same round and number.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full or fails.
    pub fn keep(&mut self, stage: Stage, repeat: u32, run: Run) -> Result<()> {
        let line = Line { stage, repeat, run };
        self.log.append(&line)?;
        self.hold(line);
        Ok(())
    }

    /// The folder for the lists of keys of a stage.
    ///
    /// # Errors
    /// [`Error::Io`]: it cannot be made.
    pub fn keys(&self, stage: Stage) -> Result<PathBuf> {
        let name = match stage {
            Stage::Sample(bytes) => format!("keys-{bytes}"),
            Stage::Whole => "keys-whole".into(),
        };
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
        Ok(dir)
    }

    fn hold(&mut self, line: Line) {
        self.runs.insert((line.stage, line.run.variant.clone(), line.run.round, line.repeat), line.run);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::run;
    use super::*;

    #[test]
    fn runs_are_there_again_by_stage_and_round_and_the_last_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let identity: Map<String, Value> = [("goal".to_owned(), Value::from("total"))].into_iter().collect();
        let mut kept = RunStore::open(dir.path(), &identity).expect("a new one");
        kept.keep(Stage::Sample(16), 0, run("a", 0, 1.0, 1.0)).expect("room");
        kept.keep(Stage::Whole, 0, run("a", 0, 2.0, 1.0)).expect("room");
        kept.keep(Stage::Whole, 0, run("a", 0, 3.0, 1.0)).expect("room");
        kept.keep(Stage::Whole, 1, run("a", 0, 4.0, 1.0)).expect("room");
        let kept = RunStore::open(dir.path(), &identity).expect("the same");
        let seconds = |stage, round, repeat| {
            kept.run(stage, "a", round, repeat).map(|run| run.process.as_ref().expect("a process").seconds)
        };
        assert_eq!(seconds(Stage::Sample(16), 0, 0), Some(1.0));
        assert_eq!((seconds(Stage::Whole, 0, 0), seconds(Stage::Whole, 0, 1)), (Some(3.0), Some(4.0)));
        assert_eq!((seconds(Stage::Whole, 1, 0), seconds(Stage::Sample(64), 0, 0)), (None, None));
        let other: Map<String, Value> = [("goal".to_owned(), Value::from("reads"))].into_iter().collect();
        let Err(error) = RunStore::open(dir.path(), &other) else { panic!("taken for the same") };
        assert!(error.to_string().ends_with("holds another search: goal: total there, reads here"), "{error}");
    }
}
