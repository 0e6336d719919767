use std::path::PathBuf;

use crate::error::Result;
use crate::progress::Progress;
use crate::read::access::Resources;
use crate::read::snapshot::{CHUNK, REMOTE_CHUNK, SnapshotReader};
use crate::source::block_log::{Dictionaries, Log, Opened, Sought, TornTail};
use crate::source::car::NullPadding;
use crate::source::input::{self, Extent, Input, InputOptions};
use crate::source::remote::{NetworkOptions, take_secrets};

/// Options of an inspection.
#[derive(Debug, Clone, Default)]
pub struct InspectOptions {
    /// The snapshot; `-` is standard input.
    pub(crate) source: PathBuf,
    /// Reads and hashes everything. Defaults to `false`: only head and tail.
    pub(crate) full: bool,
    /// Meaning of null padding. Defaults to damage.
    pub(crate) null_padding: NullPadding,
    /// Directory of Hive's dictionaries, for block logs that need them. Defaults to none.
    pub(crate) dictionaries: Option<PathBuf>,
    /// Options for sources on the network.
    pub(crate) network: NetworkOptions,
    /// Resources of the inspection: memory for decompression and for finding duplicates.
    pub(crate) resources: Resources,
}

impl InspectOptions {
    /// Creates a quick inspection of `source`.
    pub fn new(source: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// Returns the options with the source's display name.
    pub(super) fn without_secrets(&self) -> Self {
        let mut options = self.clone();
        take_secrets(&mut options.source, &mut options.network);
        options
    }

    /// Opens the source, of which `extent` is needed.
    pub(super) fn open(&self, extent: Extent) -> Result<Opened> {
        // A torn log is reported with its last complete block.
        let (tail, dictionaries) = (TornTail::Trim, Dictionaries::new(self.dictionaries.as_deref())?);
        if let Some(log) = Log::of_set(&self.source, tail, &dictionaries)? {
            return Ok(Opened::Log(Box::new(log)));
        }
        let how = InputOptions {
            network: self.network.clone(),
            extent,
            ..InputOptions::of_share(self.resources.thread_count(), self.resources.memory_budget()? / 2)
        };
        Log::detect(input::open(&self.source, &how)?, Sought::Either, tail, &dictionaries)
    }

    pub(super) fn snapshot(&self, input: Input, progress: &Progress<'_>) -> Result<SnapshotReader<'_>> {
        // Read no more of a remote file than is needed.
        let chunk = if input.remote.is_some() && !self.full { REMOTE_CHUNK } else { CHUNK };
        let threads = if self.full { self.resources.thread_count() } else { 0 };
        let budget = self.resources.memory_budget()?;
        SnapshotReader::open(&self.source, input, self.null_padding, chunk, (budget, threads), progress)
    }
}
