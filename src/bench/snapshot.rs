//! The snapshot of a comparison: a file, a URL, or a folder with the parts of a block log.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::cache;
use super::fetch::Fetched;
use crate::error::{Error, Result};
use crate::progress::CancellationToken;
use crate::source::block_log::{PEEK, is_block_log};
use crate::source::input::{self, Packed};
use crate::source::remote::{NetworkOptions, is_remote};

/// What tells one snapshot from another without reading it.
pub(super) struct SourceProfile {
    pub bytes: u64,
    /// When the file, or the youngest in the folder, was written to; milliseconds since 1970.
    pub modified_ms: Option<u64>,
    /// What its server knows it by.
    pub tag: Option<String>,
    pub folder: bool,
    /// What is on the network.
    remote: Option<Packed>,
}

impl SourceProfile {
    /// Whether it can be inspected without reading all of it: not a log on the network.
    ///
    /// # Errors
    /// [`Error::Io`]: the network fails.
    pub fn shows_at_its_beginning(&self) -> Result<bool> {
        let Some(packed) = &self.remote else { return Ok(true) };
        let head = packed.head(PEEK)?;
        Ok(!is_block_log(&head, head.len() < PEEK))
    }

    /// Fetches what is on the network into `dir`; `None` of what is here.
    ///
    /// # Errors
    /// As [`Fetched::new`].
    pub fn fetch(&self, dir: &Path, stop: &CancellationToken, watch: &dyn Fn(u64, u64)) -> Result<Option<Fetched>> {
        self.remote.as_ref().map(|packed| Fetched::new(packed, self.bytes, dir, stop, watch)).transpose()
    }
}

/// A name that means the same wherever a process is started: a URL, or an absolute path.
pub(super) fn absolute(path: &Path) -> String {
    if is_remote(path) {
        return path.display().to_string();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Probes a snapshot.
///
/// # Errors
/// [`Error::BadInput`]: it is not there, or may not be read; [`Error::Usage`]: it can be read only once, or its size is not
/// known.
pub(super) fn probe(path: &Path, network: &NetworkOptions) -> Result<SourceProfile> {
    if is_remote(path) {
        let packed = Packed::open(path, network)?;
        let pin = packed.pin();
        let Some(bytes) = pin.bytes else {
            return Err(Error::Usage {
                reason: format!("the server of {} does not say how large it is", path.display()),
                hint: "download the snapshot first: curl -fLO -C - URL".into(),
            });
        };
        let tag = pin.etag.or(pin.modified);
        return Ok(SourceProfile { bytes, modified_ms: None, tag, folder: false, remote: Some(packed) });
    }
    let own = fs::metadata(path).map_err(|error| input::refused(path, "open", error))?;
    if own.is_file() {
        let (bytes, modified_ms) = (own.len(), modified_ms(&own));
        return Ok(SourceProfile { bytes, modified_ms, tag: None, folder: false, remote: None });
    }
    if !own.is_dir() {
        return Err(Error::Usage {
            reason: format!("{} is neither a file nor a folder: it could be read once only", path.display()),
            hint: "save the snapshot to a file first".into(),
        });
    }
    let mut profile = SourceProfile { bytes: 0, modified_ms: None, tag: None, folder: true, remote: None };
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
        let probe = |path: &Path| probe(path, &NetworkOptions::default());
        let profile = probe(dir.path()).expect("a folder");
        assert_eq!((profile.bytes, profile.folder), (17, true));
        assert!(profile.modified_ms.is_some());
        let file = probe(&dir.path().join("b")).expect("a file");
        assert_eq!((file.bytes, file.folder), (7, false));
        let Err(error) = probe(Path::new("/dev/null")) else { panic!("taken") };
        assert_eq!(error.to_string(), "/dev/null is neither a file nor a folder: it could be read once only");
    }
}
