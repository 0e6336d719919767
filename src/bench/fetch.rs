//! A snapshot on the network is fetched once, and measured as the file that it then is.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::os::file_system::FileSystem;
use crate::os::scratch_dir::ScratchDir;
use crate::progress::CancellationToken;
use crate::source::input::Packed;
use crate::text::size::human;

/// How the folders begin that have such a file.
const PREFIX: &str = ".bedload-fetch-";

/// Bytes written at once, and memory for those that come.
const PIECE: usize = 1 << 20;
const MEMORY: u64 = 64 << 20;

/// The time between two reports of how much has come.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// A snapshot that was fetched, until this is dropped.
pub(super) struct Fetched {
    path: PathBuf,
    _dir: ScratchDir,
}

impl Fetched {
    /// Fetches `packed`, of `bytes`, into a folder of its own in `dir`. `watch` learns how many of them have come.
    ///
    /// # Errors
    /// [`Error::BadInput`]: its sum is another one; [`Error::State`]: it changes meanwhile; [`Error::Io`]: there is no room
    /// for it, or the network or the disk fails; [`Error::Interrupted`]: the caller cancelled it.
    pub fn new(
        packed: &Packed,
        bytes: u64,
        dir: &Path,
        stop: &CancellationToken,
        watch: &dyn Fn(u64, u64),
    ) -> Result<Self> {
        let scratch = ScratchDir::create(dir, PREFIX).map_err(Error::io("create a folder in", dir))?;
        let free = FileSystem::of(dir)?.free;
        if free < bytes {
            let what = format!("the snapshot has {}, and {} are free", human(bytes), human(free));
            return Err(Error::io("fetch the snapshot to", dir)(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        let path = scratch.path().join("snapshot");
        let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
        let mut reader = packed.read(MEMORY);
        let (mut buffer, mut got, mut reported) = (vec![0; PIECE], 0, Instant::now());
        watch(0, bytes);
        loop {
            if stop.is_cancelled() {
                return Err(Error::interrupted());
            }
            let count = reader.read(&mut buffer).map_err(Error::io("read", packed.pin().url))?;
            if count == 0 {
                break;
            }
            file.write_all(buffer.get(..count).unwrap_or_default()).map_err(Error::io("write", &path))?;
            got += count as u64;
            if reported.elapsed() >= REPORT_EVERY {
                watch(got, bytes);
                reported = Instant::now();
            }
        }
        file.sync_all().map_err(Error::io("sync", &path))?;
        Ok(Self { path, _dir: scratch })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
