//! Several sources in order.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::RawCid;
use super::skipped_block::SkippedCount;
use crate::error::Result;
use crate::hash::{Content, ContentDigest};
use crate::source::input::{Expected, Input};

/// All sources of an import. Each is opened when it is reached.
pub(crate) struct Following {
    pub names: Arc<[PathBuf]>,
    /// Bytes on disk, if known.
    pub bytes: Vec<Option<u64>>,
    pub open: Box<dyn FnMut(usize) -> Result<Input> + Send>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceRead {
    pub source: u32,
    pub compression: Cow<'static, str>,
    /// Version of its format; 0 before its header is read.
    pub version: u64,
    /// Bytes on disk, or bytes that a pipe has delivered.
    pub bytes: u64,
    /// Decompressed offset of the next section, and end of the blocks according to the header.
    pub offset: u64,
    pub end: Option<u64>,
    /// XXH3-64 of the bytes from the header to `offset`, for a stream.
    pub checksum: Option<u64>,
    pub padding: u64,
    /// Blocks, bytes of their values, and the content digest of their records.
    pub blocks: u64,
    pub payload: u64,
    /// Blocks that the filter omitted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    pub digest: ContentDigest,
    /// The roots; in a journal only new ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_text")]
    pub roots: Vec<RawCid>,
    pub sum: Option<Box<Expected>>,
    pub f3: Option<Box<SkippedCount>>,
    /// Offset of the last joined CAR.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_part: u64,
    /// Number of roots in the journal.
    #[serde(skip)]
    pub journaled_roots: usize,
}

impl SourceRead {
    pub fn content(&self) -> Content {
        Content { records: self.blocks, digest: self.digest }
    }

    /// Returns this with only the roots that the journal does not have yet.
    pub fn take_delta(&mut self) -> Self {
        let roots = std::mem::take(&mut self.roots);
        let delta = Self { roots: roots.get(self.journaled_roots..).unwrap_or_default().to_vec(), ..self.clone() };
        (self.journaled_roots, self.roots) = (roots.len(), roots);
        delta
    }

    /// Applies a later entry of a journal.
    pub fn take(&mut self, mut later: Self) {
        self.roots.append(&mut later.roots);
        later.roots = std::mem::take(&mut self.roots);
        *self = later;
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::RawCid;

    pub fn serialize<S: Serializer>(roots: &[RawCid], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(roots.iter().map(ToString::to_string))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RawCid>, D::Error> {
        let roots = Vec::<String>::deserialize(deserializer)?;
        roots.iter().map(|root| root.parse().map_err(D::Error::custom)).collect()
    }
}
