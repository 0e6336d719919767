//! Scratch directories for empty databases that live for some milliseconds, to learn the options that RocksDB keeps. It writes
//! them only into a file (OPTIONS), and has no call that reads a file of an in-memory environment. Where only the acceptance of
//! options matters, `options::check_opens` opens a database in memory instead.
//!
//! The directory of an import is beside its database. Commands that only show or compare options use a directory in memory, if the
//! system has such a file system, because a sync takes no time there. If a place cannot be used, the next is tried.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::os::scratch_dir::{self, ScratchDir};

const PREFIX: &str = ".bedload-options-";

pub(super) enum Tried<T> {
    /// The result, which does not depend on the place.
    Answered(T),
    /// The result if no place supports the attempt.
    Unsupported(T),
    Failed(Error),
}

/// An attempt in `dir` that failed with this message of RocksDB. The error names the parent of `dir`, because `dir` is
/// deleted before the user reads it.
pub(super) fn failed_in<T>(dir: &Path, message: String) -> Tried<T> {
    Tried::Failed(Error::of_rocks("try the options in", dir.parent().unwrap_or(dir), message))
}

/// The places for options that do not belong to an import, best first.
pub fn places() -> Vec<PathBuf> {
    vec!["/dev/shm".into(), std::env::temp_dir(), "/var/tmp".into()]
}

/// Removes the directories that killed processes of this user have left in `place`.
pub(crate) fn sweep(place: &Path) {
    scratch_dir::sweep(place, PREFIX);
}

/// Makes an attempt in a new directory, place after place.
pub(super) fn try_in_places<T>(places: &[PathBuf], mut attempt: impl FnMut(&Path) -> Tried<T>) -> Result<T> {
    let (mut unsupported, mut failed, mut unusable) = (None, None, None);
    for place in places {
        let unusable_for = |error| Error::io("create a directory in", place)(error);
        match ScratchDir::create(place, PREFIX) {
            Ok(scratch) => match attempt(&scratch.dir) {
                Tried::Answered(answer) => return Ok(answer),
                Tried::Unsupported(answer) => unsupported = Some(answer),
                Tried::Failed(error) => failed = Some(error),
            },
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                failed = Some(unusable_for(error));
            }
            Err(error) => unusable = Some(unusable_for(error)),
        }
    }
    // A place that failed might support the attempt.
    match (failed, unsupported) {
        (Some(failed), _) => Err(failed),
        (None, Some(answer)) => Ok(answer),
        (None, None) => Err(unusable.unwrap_or_else(|| Error::io("find", "/tmp")(ErrorKind::NotFound.into()))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;

    use super::*;
    use crate::os::scratch_dir::open;

    #[test]
    fn unusable_place_is_skipped() {
        let good = tempfile::tempdir().expect("a directory");
        let places = [PathBuf::from("/proc/self"), "/nonexistent".into(), good.path().to_owned()];
        let found = try_in_places(&places, |dir| Tried::Answered(dir.to_owned())).expect("there is one");
        assert!(found.starts_with(good.path()) && !found.exists(), "{}", found.display());
        let error = try_in_places(&places[..2], |_| Tried::Answered(())).expect_err("there is none");
        assert_eq!(error.to_string(), "cannot create a directory in /nonexistent");
    }

    #[test]
    fn unsupported_everywhere_reports_the_last_place() {
        let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let places = [one.path().to_owned(), two.path().to_owned(), "/nonexistent".into()];
        let mut tries = 0;
        let answer = try_in_places(&places, |_| {
            tries += 1;
            Tried::Unsupported(tries)
        });
        assert_eq!((answer.expect("an answer"), tries), (2, 2));
    }

    #[test]
    fn failure_is_reported_before_unsupported() {
        let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        for full in [one.path(), two.path()] {
            let answer = try_in_places(&[one.path().to_owned(), two.path().to_owned()], |dir| {
                if dir.starts_with(full) {
                    Tried::Failed(Error::io("try", full)(Errno::NOSPC.into()))
                } else {
                    Tried::Unsupported(())
                }
            });
            assert_eq!(answer.expect_err("not tried everywhere").to_string(), format!("cannot try {}", full.display()));
        }
    }

    /// A directory as an earlier process has made it.
    fn left(place: &Path, name: &str) -> PathBuf {
        let path = place.join(name);
        std::fs::create_dir(&path).expect("made");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("private");
        std::fs::write(path.join("CURRENT"), "x").expect("written");
        path
    }

    #[test]
    fn only_unused_directories_are_swept() {
        let place = tempfile::tempdir().expect("a directory");
        let dead = left(place.path(), ".bedload-options-a1B2c3");
        let used = left(place.path(), ".bedload-options-a1B2c4");
        let lock = open(&used).expect("opened");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("locked");
        let others = [".bedload-options-", ".bedload-options-a.B2c3", ".bedload-options-a1B2c3x", "x"];
        let others = others.map(|name| left(place.path(), name));
        let open_to_all = left(place.path(), ".bedload-options-a1B2c6");
        std::fs::set_permissions(&open_to_all, std::fs::Permissions::from_mode(0o755)).expect("opened");
        let (elsewhere, link) = (left(place.path(), "elsewhere"), place.path().join(".bedload-options-a1B2c5"));
        std::os::unix::fs::symlink(&elsewhere, &link).expect("linked");
        try_in_places(&[place.path().to_owned()], |_| Tried::Answered(())).expect("a place");
        assert!(!dead.exists() && used.join("CURRENT").exists() && link.is_symlink());
        assert!(others.iter().chain([&elsewhere, &open_to_all]).all(|dir| dir.join("CURRENT").exists()));
        drop(lock);
        try_in_places(&[place.path().to_owned()], |_| Tried::Answered(())).expect("a place");
        assert!(!used.exists(), "it is not used any more");
    }

    #[test]
    fn other_users_directories_are_not_swept() {
        let place = tempfile::tempdir().expect("a directory");
        let dir = left(place.path(), ".bedload-options-a1B2c3");
        if std::os::unix::fs::chown(&dir, Some(65534), None).is_err() {
            crate::skipped::skipped("only root can make a directory of another user");
            return;
        }
        try_in_places(&[place.path().to_owned()], |_| Tried::Answered(())).expect("a place");
        assert!(dir.join("CURRENT").exists());
    }

    #[test]
    fn used_directory_is_private_and_not_swept() {
        let place = tempfile::tempdir().expect("a directory");
        let mode = try_in_places(&[place.path().to_owned()], |dir| {
            try_in_places(&[place.path().to_owned()], |_| Tried::Answered(())).expect("another one beside it");
            Tried::Answered(dir.metadata().expect("still there").mode() & 0o777)
        });
        assert_eq!(mode.expect("a place"), 0o700);
        assert_eq!(place.path().read_dir().expect("there").count(), 0);
    }
}
