//! The snapshot of a comparison: a file, or a folder with the parts of a block log.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::cache;
use crate::error::{Error, Result};
use crate::source::input;
use crate::source::remote::is_remote;

/// What tells one snapshot from another without reading it.
pub(super) struct SourceProfile {
    pub bytes: u64,
    /// When the file, or the youngest in the folder, was written to; milliseconds since 1970.
    pub modified_ms: Option<u64>,
    pub folder: bool,
}

/// Probes a snapshot.
///
/// # Errors
/// [`Error::BadInput`]: it is not there, or may not be read; [`Error::Usage`]: it can be read only once.
pub(super) fn probe(path: &Path) -> Result<SourceProfile> {
    if is_remote(path) {
        return Err(Error::Usage {
            reason: "a comparison reads the snapshot many times, and holds imports against a copy of the file".into(),
            hint: "download the snapshot first: curl -fLO -C - URL".into(),
        });
    }
    let own = fs::metadata(path).map_err(|error| input::refused(path, "open", error))?;
    if own.is_file() {
        return Ok(SourceProfile { bytes: own.len(), modified_ms: modified_ms(&own), folder: false });
    }
    if !own.is_dir() {
        return Err(Error::Usage {
            reason: format!("{} is neither a file nor a folder: it could be read once only", path.display()),
            hint: "save the snapshot to a file first".into(),
        });
    }
    let mut profile = SourceProfile { bytes: 0, modified_ms: None, folder: true };
    for file in cache::files(path)? {
        let file = fs::metadata(&file).map_err(Error::io("open", &file))?;
        profile.bytes += file.len();
        profile.modified_ms = profile.modified_ms.max(modified_ms(&file));
    }
    Ok(profile)
}

fn modified_ms(file: &Metadata) -> Option<u64> {
    let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(modified.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_large_as_its_files_and_a_pipe_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("a"), [0; 10]).expect("room");
        fs::write(dir.path().join("b"), [0; 7]).expect("room");
        let profile = probe(dir.path()).expect("a folder");
        assert_eq!((profile.bytes, profile.folder), (17, true));
        assert!(profile.modified_ms.is_some());
        let file = probe(&dir.path().join("b")).expect("a file");
        assert_eq!((file.bytes, file.folder), (7, false));
        let Err(error) = probe(Path::new("/dev/null")) else { panic!("taken") };
        assert_eq!(error.to_string(), "/dev/null is neither a file nor a folder: it could be read once only");
    }
}
