//! Where RocksDB is asked what it makes of options: an empty database that lives for some milliseconds.
//!
//! It tells its options only as a file in the database's directory, so a directory it must be; in memory where the
//! system has one there, because there a full or read-only disk does not matter and nobody waits for a sync. A place
//! that cannot be used gives way to the next. What a killed process has left is swept by the next one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

/// How the directories are named.
const PREFIX: &str = "bedload-options-";

/// A directory this old is nobody's any more: it is needed for some milliseconds.
const STALE: Duration = Duration::from_secs(600);

/// What became of a try in one place.
pub(super) enum Tried<T> {
    /// It worked, or failed in a way that has nothing to do with the place.
    Answered(T),
    /// Perhaps another place is better; this is what to say if not.
    NotHere(T),
}

/// The places, best first.
fn places() -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/dev/shm")];
    places.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    places.push(std::env::temp_dir());
    places.push("/var/tmp".into());
    places.extend(std::env::current_dir());
    places
}

/// Tries in a new directory, place after place.
///
/// # Errors
/// There is no place where a directory can be made.
pub(super) fn try_in_places<T>(attempt: impl FnMut(&Path) -> Tried<T>) -> Result<T> {
    try_in(&places(), attempt)
}

fn try_in<T>(places: &[PathBuf], mut attempt: impl FnMut(&Path) -> Tried<T>) -> Result<T> {
    let mut refused = None;
    let mut failed = None;
    for place in places {
        sweep(place);
        match tempfile::Builder::new().prefix(PREFIX).tempdir_in(place) {
            Ok(dir) => match attempt(dir.path()) {
                Tried::Answered(answer) => return Ok(answer),
                Tried::NotHere(answer) => refused = Some(answer),
            },
            Err(error) => failed = Some(Error::io("create a directory in", place)(error)),
        }
    }
    refused.ok_or_else(|| failed.unwrap_or_else(|| Error::io("find", "/tmp")(std::io::ErrorKind::NotFound.into())))
}

/// Removes what killed processes have left; what cannot be removed is somebody else's.
fn sweep(place: &Path) {
    for entry in place.read_dir().into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let age = || entry.metadata().and_then(|metadata| metadata.modified()).ok()?.elapsed().ok();
        if is_ours && age().is_some_and(|age| age > STALE) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_cannot_be_used_gives_way_to_the_next() {
        let good = tempfile::tempdir().expect("a directory");
        let places = [PathBuf::from("/proc/self"), "/nonexistent".into(), good.path().to_owned()];
        let found = try_in(&places, |dir| Tried::Answered(dir.to_owned())).expect("there is one");
        assert!(found.starts_with(good.path()) && !found.exists(), "{}", found.display());
        let error = try_in(&places[..2], |_| Tried::Answered(())).expect_err("there is none");
        assert_eq!(error.to_string(), "create a directory in /nonexistent");
    }

    #[test]
    fn what_is_refused_everywhere_is_told_as_the_last_place_has_it() {
        let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let places = [one.path().to_owned(), two.path().to_owned(), "/nonexistent".into()];
        let mut tries = 0;
        let told = try_in(&places, |_| {
            tries += 1;
            Tried::NotHere(tries)
        });
        assert_eq!((told.expect("an answer"), tries), (2, 2));
    }

    #[test]
    fn only_old_leftovers_are_swept() {
        let place = tempfile::tempdir().expect("a directory");
        let make = |name: &str, old: bool| {
            let path = place.path().join(name);
            std::fs::create_dir(&path).expect("made");
            std::fs::write(path.join("CURRENT"), "x").expect("written");
            let time = std::time::SystemTime::now() - if old { STALE * 2 } else { Duration::ZERO };
            std::fs::File::open(&path).and_then(|dir| dir.set_modified(time)).expect("set");
            path
        };
        let (old, new, other) = (make("bedload-options-a", true), make("bedload-options-b", false), make("x", true));
        try_in(&[place.path().to_owned()], |_| Tried::Answered(())).expect("a place");
        assert_eq!([old.exists(), new.exists(), other.exists()], [false, true, true]);
    }
}
