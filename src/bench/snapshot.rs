//! The snapshot of a comparison: a file, a directory with the parts of a block log, or a URL. A URL is downloaded once, and
//! the runs read the file.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::cache;
use crate::error::{Error, Result};
use crate::os::file_system::FileSystem;
use crate::os::scratch_dir::ScratchDir;
use crate::progress::{CancellationToken, Silent};
use crate::read::inspect::{InspectOptions, inspect};
use crate::source::block_log::{PEEK, is_block_log};
use crate::source::input::{self, Packed};
use crate::source::remote::{NetworkOptions, is_remote};
use crate::text::size::human;

/// The prefix of directories with downloaded snapshots.
const PREFIX: &str = ".bedload-fetch-";

/// Bytes written at once, and memory of the download.
const PIECE: usize = 1 << 20;
const MEMORY: u64 = 64 << 20;

/// A snapshot, and the properties that identify it without reading it.
#[derive(Default)]
pub(super) struct BenchSnapshot {
    path: PathBuf,
    pub bytes: u64,
    /// The newest modification time of its files, in milliseconds since 1970.
    pub modified_ms: Option<u64>,
    /// The server's ETag or time.
    pub tag: Option<String>,
    remote: Option<Packed>,
    downloaded: Option<(PathBuf, ScratchDir)>,
}

impl BenchSnapshot {
    /// Probes a snapshot and inspects its start.
    ///
    /// # Errors
    /// [`Error::BadInput`]: it is missing, unreadable or no snapshot; [`Error::Usage`]: it can be read only once, or its
    /// size is unknown; [`Error::Io`]: the network fails.
    pub fn probe(path: &Path, network: &NetworkOptions) -> Result<Self> {
        let mut snapshot = Self { path: path.to_owned(), ..Self::default() };
        let mut is_inspectable = true;
        if is_remote(path) {
            let packed = Packed::open(path, network)?;
            let pin = packed.pin();
            snapshot.bytes = pin.bytes.ok_or_else(|| Error::Usage {
                reason: format!("the server of {} does not say how large it is", path.display()),
                hint: "download the snapshot first: curl -fLO -C - URL".into(),
            })?;
            snapshot.tag = pin.etag.or(pin.modified);
            // A block log must be read to its end.
            let head = packed.head(PEEK)?;
            is_inspectable = !is_block_log(&head, head.len() < PEEK);
            snapshot.remote = Some(packed);
        } else {
            let own = fs::metadata(path).map_err(|error| input::input_error(path, "open", error))?;
            if !own.is_file() && !own.is_dir() {
                let reason = format!("{} is neither a file nor a folder: it can be read only once", path.display());
                return Err(Error::usage(reason, "save the snapshot to a file first"));
            }
            for file in cache::files(path)? {
                let file = fs::metadata(&file).map_err(Error::io("open", &file))?;
                snapshot.bytes += file.len();
                snapshot.modified_ms = snapshot.modified_ms.max(modified_ms(&file));
            }
        }
        if is_inspectable {
            inspect(&InspectOptions { network: network.clone(), ..InspectOptions::new(path) }, &Silent)?;
        }
        Ok(snapshot)
    }

    /// Returns the path for the runs. A URL is first downloaded to a directory in `dir`, which is removed with `self`.
    /// `watch` gets the bytes received and the total.
    ///
    /// # Errors
    /// [`Error::BadInput`]: the checksum differs; [`Error::State`]: the file on the server has changed; [`Error::Io`]: the
    /// disk is full, or the network or the disk fails; [`Error::Interrupted`]: the caller cancelled it.
    pub fn local(&mut self, dir: &Path, stop: &CancellationToken, watch: &dyn Fn(u64, u64)) -> Result<&Path> {
        if let (Some(packed), None) = (&self.remote, &self.downloaded) {
            self.downloaded = Some(download(packed, self.bytes, dir, stop, watch)?);
        }
        Ok(self.downloaded.as_ref().map_or(&self.path, |(path, _)| path))
    }
}

fn download(
    packed: &Packed,
    bytes: u64,
    dir: &Path,
    stop: &CancellationToken,
    watch: &dyn Fn(u64, u64),
) -> Result<(PathBuf, ScratchDir)> {
    let scratch = ScratchDir::create(dir, PREFIX).map_err(Error::io("create a folder in", dir))?;
    let free = FileSystem::of(dir)?.free;
    if free < bytes {
        let what = format!("the snapshot has {}, and {} are free", human(bytes), human(free));
        return Err(Error::io("fetch the snapshot to", dir)(io::Error::new(io::ErrorKind::StorageFull, what)));
    }
    let path = scratch.dir.join("snapshot");
    let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
    let mut reader = packed.read(MEMORY);
    let (mut buffer, mut received) = (vec![0; PIECE], 0);
    watch(0, bytes);
    loop {
        stop.check(Error::interrupted)?;
        let count = reader.read(&mut buffer).map_err(Error::io("read", packed.pin().url))?;
        if count == 0 {
            break;
        }
        file.write_all(buffer.get(..count).unwrap_or_default()).map_err(Error::io("write", &path))?;
        received += count as u64;
        watch(received, bytes);
    }
    file.sync_all().map_err(Error::io("sync", &path))?;
    Ok((path, scratch))
}

/// Returns a URL as it is, and a path as an absolute one.
pub(super) fn absolute(path: &Path) -> String {
    if is_remote(path) {
        return path.display().to_string();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn modified_ms(file: &Metadata) -> Option<u64> {
    let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(modified.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Profile, Spec};

    #[test]
    fn pipes_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let car = dir.path().join("a.car");
        crate::generate::write(&Spec::new(Profile::Mainnet, 1 << 16), &mut File::create(&car).expect("room"))
            .expect("room");
        let probe = |path: &Path| BenchSnapshot::probe(path, &NetworkOptions::default());
        let found = probe(&car).expect("a file");
        assert_eq!(found.bytes, fs::metadata(&car).expect("there").len());
        assert!(found.modified_ms.is_some());
        let Err(error) = probe(Path::new("/dev/null")) else { panic!("it can be read only once") };
        assert_eq!(error.to_string(), "/dev/null is neither a file nor a folder: it can be read only once");
    }
}
