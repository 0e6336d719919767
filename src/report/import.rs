//! The report of an import.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::hash::content_digest::ContentDigest;
use crate::preset::OptionRow;
use crate::progress::Sample;
use crate::report::statistics::t_975;
use crate::rocks::Level;
use crate::sort::key::KeyLayout;
use crate::sort::router::{ClassCounts, Count, Router};
use crate::sort::shard::Shard;
use crate::source::input::{Expected, SumFunction};
use crate::text::size::{grouped, human};

use super::{BundleReport, FamilyFacts, FamilyReport, LogReport};

pub const SCHEMA: &str = "bedload-import-6";

/// The report of an import. `BEDLOAD.json` in the database stores it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// Name and version of this document.
    pub schema: String,
    /// End of the import, in UTC (RFC 3339).
    #[serde(default)]
    pub imported_at: String,
    /// True if an earlier run did a part of the work. Times, costs and samples are those of the last run.
    #[serde(default)]
    pub resumed: bool,
    /// All sources together.
    pub source: SourceInfo,
    /// Each source, in the order of reading.
    #[serde(default)]
    pub sources: Vec<SourceInfo>,
    /// The head of the chain, if the source names it. If `newest` is present, the head of that snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// The newest snapshot in the database, if this import added an older one. Readers begin at its roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) newest: Option<NewestSnapshot>,
    /// Roots that are neither among the blocks nor in the database.
    #[serde(default)]
    pub missing_roots: u64,
    /// The first ten missing roots.
    #[serde(default)]
    pub first_missing_roots: Vec<String>,
    /// The bundle that the import published. Never in `BEDLOAD.json`.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Box<BundleReport>>,
    /// The links of the blocks; only with `--links check` or `--links require`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<LinkReport>,
    /// The part of a bundle that the database was seeded with. Counts, digest and column families are those of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<BundlePart>,
    /// The database's path as the user gave it.
    pub db: String,
    /// The column family of the blocks; of several, the one with the most records.
    pub column_family: String,
    /// True if the database existed before. Counts and digest are those of this import alone.
    #[serde(default)]
    pub into_existing: bool,
    /// True if the import replaced a database.
    #[serde(default)]
    pub replaced: bool,
    /// The key of a block.
    pub key: KeyLayout,
    /// True if the hash of every block was verified.
    pub verified: bool,
    /// Numbers of blocks.
    pub blocks: BlockCounts,
    /// Size of the blocks in the source, duplicates included, in bytes.
    pub payload_bytes: u64,
    /// The content digest of the column family.
    pub digest: ContentDigest,
    /// The F3 data of the snapshots if they were not stored (`--f3 skip`). Counts and digest do not include them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub f3: Vec<F3Report>,
    /// The shard of the source (`--shard`). Counts, digest and missing roots are those of the shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shard: Option<ShardReport>,
    /// Multicodecs of the hash functions of the blocks, if keys are bare digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_functions: Option<Vec<u64>>,
    /// The preset of the database.
    pub preset: String,
    /// The origin of the preset's name: `command line`, the path of `config.toml`, or `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset_from: Option<String>,
    /// The loader: `ingest` or `memtable`.
    pub loader: String,
    /// The plan. `spill` and `may_spill` are true only if blocks were spilled.
    pub plan: Plan,
    /// Seconds: `total`, and one entry per phase.
    pub seconds: BTreeMap<String, f64>,
    /// Processor time of the whole process, user and system, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Peak resident memory of the process, in bytes.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes that the process read, including reads from the page cache.
    pub bytes_read: Option<u64>,
    /// Bytes that the process wrote.
    pub bytes_written: Option<u64>,
    /// Bytes of SST files and WAL that RocksDB wrote; `null` with `into_existing`, which may include compactions of
    /// older data.
    pub rocksdb_bytes_written: Option<u64>,
    /// True if the database was compacted; false with `load.compaction.final=false`, which leaves compaction to the
    /// node.
    pub compacted: bool,
    /// Levels of the finished database.
    #[serde(default)]
    pub levels: Vec<Level>,
    /// The block log, if the source is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogReport>,
    /// The column families, if the source is a stream of records or a RocksDB database. `blocks` counts the records of all, and `digest`
    /// is the sum of their digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyReport>,
    /// The same column families before the copy. Only counts tell the difference: a copy has no deletions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rebuilt: Vec<FamilyFacts>,
    /// The estimated size of a copy of the whole database, if only a sample was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sample: Option<SampleReport>,
    /// RocksDB's statistics of the memtable loader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memtable: Option<MemtableReport>,
    /// Options of that column family that were set or differ from RocksDB's defaults, read back from the OPTIONS file.
    pub options: Vec<OptionRow>,
    /// The OPTIONS file as it was committed, and `IDENTITY` if the options require that file.
    #[serde(default)]
    pub small_files: Vec<RecordedFile>,
    /// Progress over time, and at each 64th of the source.
    pub samples: Vec<Sample>,
    /// Versions of bedload and RocksDB.
    pub versions: Versions,
}

/// A sample of the ranges of a database, and an estimate of the size of the whole copy from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleReport {
    /// Number of copied ranges.
    pub ranges: u64,
    /// Number of all ranges.
    pub of: u64,
    /// Bytes of the old files in the copied ranges.
    pub bytes: u64,
    /// Bytes of their copies.
    pub copied_bytes: u64,
    /// Estimated bytes of a copy of everything.
    pub whole_bytes: u64,
    /// The ends of the 95 % interval of `whole_bytes`; `null` with a single range.
    pub low_bytes: Option<u64>,
    pub high_bytes: Option<u64>,
}

impl SampleReport {
    /// Estimates from the sizes of the old and the new files of each copied range. There are `of` ranges, with `all` bytes.
    pub(crate) fn estimate(sizes: &[(f64, f64)], of: usize, all: u64) -> Self {
        let (old, new) = sizes.iter().fold((0.0, 0.0), |sums, (old, new)| (sums.0 + old, sums.1 + new));
        let ratio = if old > 0.0 { new / old } else { 0.0 };
        let whole = ratio * all as f64;
        // The ratio estimator of a sample without replacement (Cochran, Sampling Techniques, 6.4).
        let count = sizes.len() as f64;
        let squares: f64 = sizes.iter().map(|(old, new)| (new - ratio * old).powi(2)).sum();
        let unseen = 1.0 - count / (of as f64).max(1.0);
        let error = (unseen * count / (count - 1.0) * squares).max(0.0).sqrt() / old.max(1.0) * all as f64;
        let half = (sizes.len() > 1).then(|| t_975(sizes.len() - 1) * error);
        Self {
            ranges: sizes.len() as u64,
            of: of as u64,
            bytes: old as u64,
            copied_bytes: new as u64,
            whole_bytes: whole as u64,
            low_bytes: half.map(|half| (whole - half).max(0.0) as u64),
            high_bytes: half.map(|half| (whole + half) as u64),
        }
    }

    /// Describes how the sample was drawn, and the estimate.
    pub(crate) fn describe(&self) -> String {
        let Self { ranges, of, bytes, copied_bytes, whole_bytes, low_bytes, high_bytes } = *self;
        let interval = low_bytes
            .zip(high_bytes)
            .map_or_else(String::new, |(low, high)| format!(" ({} to {}, 95 %)", human(low), human(high)));
        format!(
            "a copy of all takes about {}{interval}: {} became {} in {} of {} ranges of keys, one drawn from each of as many \
             intervals",
            human(whole_bytes),
            human(bytes),
            human(copied_bytes),
            grouped(ranges),
            grouped(of)
        )
    }
}

/// A file of the database and its checksum, which detects changes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedFile {
    /// The file name in the database's directory.
    pub name: String,
    /// XXH3-128 of the file's bytes, as hex.
    pub checksum: String,
}

/// RocksDB's statistics of the memtable loader.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemtableReport {
    /// Batches written.
    pub batches: u64,
    /// Memtables that were flushed to files.
    pub flushes: u64,
    /// Bytes of the flushed files.
    #[serde(default)]
    pub flush_bytes_written: u64,
    /// Bytes written to the WAL.
    #[serde(default)]
    pub wal_bytes_written: u64,
    /// Number of times that RocksDB began to delay or stop writers.
    pub stalls: u64,
    /// Duration of all stalls, in seconds.
    pub stall_seconds: f64,
    /// Files at level 0 when the last block was written, before the final compaction.
    pub level0_files_before_compaction: u64,
    /// Number of compactions, the final one included.
    pub compactions: u64,
    /// Bytes that compactions read.
    pub compaction_bytes_read: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes_written: u64,
}

/// A source.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SourceInfo {
    /// The path as the user gave it; `-` for a pipe; for several sources, the first path and the number of others.
    pub path: String,
    /// `car`, `block-log` or `rocksdb`.
    pub format: String,
    /// The compression: `none`, `zstd`, ...; `mixed` if several sources differ.
    pub compression: String,
    /// Version of the format; for several sources, the highest version.
    #[serde(default)]
    pub version: u64,
    /// Size on disk, or of the data of a pipe, in bytes.
    pub bytes: u64,
    /// The roots, as CIDs in their usual text form; for several sources, the distinct roots of all.
    #[serde(default)]
    pub roots: Vec<String>,
    /// Bytes of null padding after the blocks.
    #[serde(default)]
    pub null_padding: u64,
    /// The file on the network and its traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteInfo>,
    /// The expected checksum; only in `sources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<ChecksumInfo>,
    /// The numbers of blocks; only in `sources`. A duplicate occurred before, in an earlier source or in this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockCounts>,
}

/// A source on the network.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteInfo {
    /// The URL after all redirects, without secrets.
    pub url: String,
    /// The `ETag` header.
    pub etag: Option<String>,
    /// The `Last-Modified` header.
    pub modified: Option<String>,
    /// True if the server supports range requests.
    pub ranges: bool,
    /// Requests of this run.
    pub requests: u64,
    /// Bytes that this run received.
    pub received_bytes: u64,
    /// Seconds that this run waited for the network.
    pub waited_seconds: f64,
    /// Open connections at the end.
    pub connections: u64,
}

/// The expected checksum of all bytes of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChecksumInfo {
    /// The function.
    pub function: SumFunction,
    /// The checksum, in hex.
    pub sum: String,
    /// The origin of `sum`: `the checksum option`, a file, a URL, or the metadata of an object store.
    pub from: String,
    /// True if all bytes were compared; false if an earlier run read some of them without this checksum.
    pub compared: bool,
}

impl ChecksumInfo {
    /// The report of a checksum that all bytes are compared with.
    pub(crate) fn of(expected: &Expected) -> Self {
        let Expected { function, sum, from } = expected.clone();
        Self { function, sum, from, compared: true }
    }
}

/// F3 data that were read and verified like every block, but not stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct F3Report {
    /// The CID of the F3 data.
    pub cid: String,
    /// Number of occurrences in the snapshots.
    pub blocks: u64,
    /// Length of the F3 data, in bytes.
    pub bytes: u64,
}

/// The head of a chain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Head {
    /// `filecoin`, `steem`, `hive` or `antelope`.
    pub chain: String,
    /// The network: `mainnet` or `calibnet` if the database has that network's genesis block; the chain id of a block
    /// log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The epoch of the head tipset, or the number of the last block.
    pub height: u64,
    /// Time of the head, in UTC (RFC 3339).
    pub time: Option<String>,
}

impl Head {
    /// The last block of a log.
    pub(crate) fn of_log(log: &LogReport) -> Self {
        Self {
            chain: log.family.clone(),
            network: log.chain_id.clone(),
            height: log.last.number.into(),
            time: u64::try_from(log.last.timestamp_ms / 1000).ok().and_then(rfc3339),
        }
    }
}

/// Seconds since 1970 as `2020-08-24T22:00:00Z`; `None` after the year 9999.
pub(crate) fn rfc3339(timestamp: u64) -> Option<String> {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(timestamp))?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok().map(|()| text)
}

/// A snapshot to whose database an older one was added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewestSnapshot {
    /// The path as the user gave it.
    pub path: String,
    /// The roots, as CIDs in their usual text form.
    pub roots: Vec<String>,
    /// The F3 data, if they were not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub f3: Vec<F3Report>,
}

/// The links of the blocks of a CAR.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkReport {
    /// Distinct linked blocks, without sector commitments and blocks inside of links.
    pub linked: u64,
    /// Linked blocks that are neither in the source nor in the database.
    pub missing: u64,
    /// Blocks that do not match their codec, and links that are not CIDs or longer than 65,535 bytes.
    pub malformed: u64,
    /// Up to ten missing blocks.
    pub first_missing: Vec<String>,
}

/// The part of a bundle that a database contains.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BundlePart {
    /// The bundle's id.
    pub bundle: String,
    /// Files of the part.
    pub files: u64,
    /// Files of the bundle.
    pub of_files: u64,
    /// The content digest of the whole bundle.
    pub of_digest: ContentDigest,
}

impl BundlePart {
    /// One line for people.
    pub(crate) fn describe(&self) -> String {
        let Self { bundle, files, of_files, .. } = self;
        format!("{files} of the {of_files} files of the bundle {bundle}")
    }
}

/// One of the shards of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardReport {
    /// Its number, from 0.
    pub number: u32,
    /// The number of shards.
    pub of: u32,
    /// Counts of the whole source for each key prefix, and last for all other keys.
    pub classes: Vec<ShardClass>,
    /// The network, if its genesis block is in this shard; the head may be in another shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// Blocks of a source with a common key prefix.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardClass {
    /// The prefix, as hex; `null` for all other keys.
    pub prefix: Option<String>,
    /// Number of blocks, duplicates included.
    pub blocks: u64,
    /// Bytes of their values.
    pub bytes: u64,
}

impl ShardReport {
    pub(crate) fn of(shard: Shard, router: &Router, framed: &ClassCounts, network: Option<String>) -> Self {
        let class = |(prefix, count): (Option<&[u8]>, Count)| ShardClass {
            prefix: prefix.map(|prefix| HEXLOWER.encode(prefix)),
            blocks: count.blocks,
            bytes: count.bytes,
        };
        Self { number: shard.number, of: shard.of, classes: router.classes(framed).map(class).collect(), network }
    }

    /// Blocks of the whole source, and bytes of their values; `None` on overflow.
    pub(crate) fn source(&self) -> Option<Count> {
        self.classes.iter().try_fold(Count::default(), |all, class| {
            Some(Count { blocks: all.blocks.checked_add(class.blocks)?, bytes: all.bytes.checked_add(class.bytes)? })
        })
    }
}

/// Numbers of blocks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BlockCounts {
    /// Blocks of the source, without the omitted ones.
    pub read: u64,
    /// Distinct blocks of the source, which are all in the database.
    pub written: u64,
    /// Blocks that occurred before in the source.
    pub duplicate: u64,
    /// Blocks that the caller's filter omitted; only with a filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u64>,
    /// Part of `written` that the database had before the import; only with `into_existing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<u64>,
}

/// Versions of bedload and RocksDB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Versions {
    /// The version of bedload.
    pub bedload: String,
    /// The version of RocksDB.
    pub rocksdb: String,
}
