//! The entries of the journal. Each is written only after what it names is on the disk.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::hash::{Content, ContentDigest, DigestKey};
use crate::load::built::{FamilyDone, RangeDone, SstFile};
use crate::load::identity::Identity;
use crate::load::source_identity::Inode;
use crate::os::files::read_regular;
use crate::sort::record_set::{RecordRange, Sample};
use crate::sort::{ClassCounts, PartitionExtent, Router, SourceMark};
use crate::source::car::{Chunks, SourceRead};
use crate::source::input::Restart;
use crate::source::records::RecordPosition;

/// Version of the journal format, including [`Identity`].
pub(super) const VERSION: u32 = 8;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(in crate::load) enum Entry {
    /// The first line. An import that may read its source twice has a key of digests.
    Start {
        version: u32,
        identity: Box<Identity>,
        digest_key: Option<DigestKey>,
    },
    /// The router of keys. Later entries count in its partitions.
    Routed {
        router: Router,
        /// True if partitions refer to the source.
        #[serde(default)]
        by_reference: bool,
    },
    /// The hash functions of at least all blocks of later entries. Only if keys do not name their function.
    Hashed {
        functions: Vec<u64>,
    },
    /// All blocks before the checkpoint are in the partitions.
    Read(PartitionCheckpoint),
    /// The source has been read to its end, into memory or through memtables. A later run reads it again or compares it.
    Held {
        checkpoint: Checkpoint,
        padding: u64,
        #[serde(default)]
        delta: SourceDelta,
    },
    /// The source has been read to its end into partitions.
    ReadDone {
        #[serde(flatten)]
        read: PartitionCheckpoint,
        padding: u64,
    },
    /// The partitions from `first` to before `end` are in finished files; their own files may be gone.
    Built {
        first: u32,
        end: u32,
        #[serde(flatten)]
        built: FamilyDone,
    },
    /// A file of a bundle is here and verified. While it has this inode and ctime, its bytes are the same.
    Fetched {
        number: u32,
        file: SstFile,
        inode: Inode,
    },
    /// A finished file is published at `place`.
    Published {
        place: String,
        file: SstFile,
    },
    /// Consecutive blocks of a log are in finished files.
    Range(Box<RangeDone>),
    /// Records of streams up to a place are in sorted files.
    Run(Box<RunDone>),
    /// The ranges in which records are built.
    Cut {
        ranges: Vec<RecordRange>,
    },
    /// RocksDB begins to ingest the files; from now on they may move one by one.
    Ingesting,
    Ingested,
    /// An existing database has been opened for writing, and has this state until it is opened again.
    Opened {
        state: DatabaseState,
    },
    /// The existing database is restored from its backup.
    Restoring,
    /// The existing database has no records of this import that count.
    Undone,
    /// The database is complete, but does not have its final name yet.
    Complete,
    /// From now on the complete database and the replaced one may exchange their names. Only the `BEDLOAD.json` of the
    /// complete one has this checksum.
    Exchanging {
        record: String,
    },
}

/// Records of streams up to a place, in sorted files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::load) struct RunDone {
    pub files: Vec<SstFile>,
    /// The records of this run and of those before it.
    pub checkpoint: Checkpoint,
    pub position: RecordPosition,
    /// The streams that were read since the run before.
    pub sources: Vec<SourceRead>,
    /// The last record of a sorted stream: its column family and its key.
    pub last: Option<(u16, Vec<u8>)>,
    /// Bytes of the largest record.
    pub largest: u64,
    /// Beginnings of keys, by which the records of all runs are cut into ranges.
    pub samples: Vec<Sample>,
}

/// A checkpoint with partitions, which are at least as long as `extents`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::load) struct PartitionCheckpoint {
    pub checkpoint: Checkpoint,
    pub extents: Vec<(u32, PartitionExtent)>,
    #[serde(default)]
    pub delta: SourceDelta,
}

/// Changes to the sources of CARs since the last entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::load) struct SourceDelta {
    /// Each source that was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceRead>,
    /// Marks of partitions, each where another source begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(u32, SourceMark)>,
}

/// A position in the source, and the verified records before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct Checkpoint {
    /// The number of the source that is read, counted from 0. Those before it have been read to their ends.
    #[serde(default)]
    pub source: u32,
    /// Offset of the next section in the decompressed source.
    pub offset: u64,
    /// Bytes of the compressed sources that were taken.
    pub consumed: u64,
    /// XXH3-64 of the decompressed source between its header and `offset`, if the source cannot be sought.
    pub checksum: Option<u64>,
    /// The place at or before `offset` from which the stream can be unpacked; `None` for its beginning.
    pub restart: Option<Restart>,
    /// Blocks before `offset`, and the bytes of their values.
    pub blocks: u64,
    pub payload: u64,
    /// Digest of all verified records, duplicates included. Keyed, if the import has partitions.
    pub digest: ContentDigest,
    /// All blocks before `offset`, those of other shards included, by class; none if they were not routed.
    #[serde(default)]
    pub framed: ClassCounts,
}

impl Entry {
    /// The first line of a journal in the current form.
    pub fn start(identity: Identity, digest_key: Option<DigestKey>) -> Self {
        Self::Start { version: VERSION, identity: Box::new(identity), digest_key }
    }
}

impl Checkpoint {
    /// Returns the checkpoint at the position of `chunks`. `verified` are the records before it.
    pub fn at(chunks: &Chunks, verified: Content, payload: u64, framed: ClassCounts) -> Self {
        Self {
            source: chunks.source,
            offset: chunks.position(),
            consumed: chunks.consumed(),
            checksum: chunks.checksum(),
            restart: chunks.restart(),
            blocks: verified.records,
            payload,
            digest: verified.digest,
            framed,
        }
    }

    /// The records of all blocks before it.
    pub fn content(&self) -> Content {
        Content { records: self.blocks, digest: self.digest }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        // The read-ahead and the restart point of a decoder do not count.
        Self { consumed: 0, restart: None, ..*self } == Self { consumed: 0, restart: None, ..*other }
    }
}

/// The most bytes that are read of CURRENT and of IDENTITY.
const MOST: u64 = 256 << 10;

/// The state changes when a database is opened for writing: RocksDB then begins another MANIFEST and replaces CURRENT,
/// which names it. Names repeat after a restore and in databases that were made alike; times and identities do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::load) struct DatabaseState {
    pub manifest: String,
    /// When CURRENT was written, in nanoseconds since 1970.
    written_ns: i64,
    pub identity: String,
}

impl DatabaseState {
    pub fn of(dir: &Path) -> Result<Self> {
        let (current, identity) = (dir.join("CURRENT"), dir.join("IDENTITY"));
        let text = |path: &Path| read_regular(path, MOST).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let metadata = current.metadata().map_err(Error::io("read metadata of", &current))?;
        Ok(Self {
            manifest: text(&current).map_err(Error::io("read", &current))?,
            written_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
            // RocksDB can be configured to keep none.
            identity: text(&identity).unwrap_or_default(),
        })
    }
}
