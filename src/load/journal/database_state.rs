//! The state of an existing database. It changes when a program opens the database for writing.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::os::files::read_regular;

/// The most bytes that are read of CURRENT and of IDENTITY.
const MOST: u64 = 256 << 10;

/// The state changes when a database is opened for writing: RocksDB then begins another MANIFEST and replaces CURRENT,
/// which names it. Names repeat after a restore and in databases that were made alike; times and identities do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct DatabaseState {
    /// The text of CURRENT.
    pub manifest: String,
    /// When CURRENT was written, in nanoseconds since 1970.
    written_ns: i64,
    /// The text of IDENTITY.
    pub identity: String,
}

impl DatabaseState {
    pub fn of(dir: &Path) -> Result<Self> {
        let (current, identity) = (dir.join("CURRENT"), dir.join("IDENTITY"));
        let text = |path: &Path| read_regular(path, MOST).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let metadata = current.metadata().map_err(Error::io("look at", &current))?;
        Ok(Self {
            manifest: text(&current).map_err(Error::io("read", &current))?,
            written_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
            // RocksDB can be configured to keep none.
            identity: text(&identity).unwrap_or_default(),
        })
    }
}
