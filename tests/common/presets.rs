//! The presets that ship.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::crash::list;
use super::run::Done;

/// Imports that run at the same time: each waits for the disk more than it computes.
const TOGETHER: usize = 3;

fn presets() -> Vec<String> {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let name = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let names: Vec<String> = list(&configs).into_iter().map(name).collect();
    assert!(names.len() >= 20, "{names:?}");
    names
}

pub fn for_each_preset(work: impl Fn(&str) + Sync) {
    let names = Mutex::new(presets());
    let next = || names.lock().expect("no test has failed").pop();
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| std::iter::from_fn(&next).for_each(|name| work(&name)));
        }
    });
}

/// All files are in one level, which is not level 0.
#[track_caller]
pub fn is_compacted(name: &str, done: &Done) {
    done.succeeded();
    assert_eq!(done.json["compacted"], true, "{name}");
    let levels = done.json["levels"].as_array().expect("levels");
    assert!(matches!(&levels[..], [only] if only["level"] == 6), "{name}: {levels:?}");
}
