//! What an import did.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::hash::content_digest::ContentDigest;
use crate::preset::EffectiveOption;
use crate::progress::{ReadStep, Sample, Throughput};
use crate::rocks::Level;
use crate::sort::key::KeyLayout;
use crate::sort::router::{ClassCounts, Count, Router};
use crate::sort::shard::Shard;
use crate::source::input::{Expected, SumFunction};

use super::{BundleReport, LogReport};

/// The version of this document; it changes when a field changes its meaning or goes.
pub const SCHEMA: &str = "bedload-import-6";

/// What an import did; also what `BEDLOAD.json` in the database says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// Name and version of this document.
    pub schema: String,
    /// When the import was complete, in UTC as RFC 3339 has it.
    #[serde(default)]
    pub imported_at: String,
    /// Whether an earlier run had done a part of the work: times, costs and samples are those of the last run alone.
    #[serde(default)]
    pub resumed: bool,
    /// All sources together.
    pub source: SourceInfo,
    /// Each source, in the order in which they were read.
    #[serde(default)]
    pub sources: Vec<SourceInfo>,
    /// The head of the chain, where the source names it; that of `newest` where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// The snapshot whose roots readers begin at, where an older one was added to its database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) newest: Option<NewestSnapshot>,
    /// How many roots are neither among the blocks nor in the database.
    #[serde(default)]
    pub missing_roots: u64,
    /// The first of them, ten at most.
    #[serde(default)]
    pub first_missing_roots: Vec<String>,
    /// The bundle that was published while it was made. Never in `BEDLOAD.json`.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(crate) bundle: Option<Box<BundleReport>>,
    /// The links of the blocks; only with `--links check` or `--links require`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<LinkReport>,
    /// Where it was seeded with a part of a bundle: which one. Counts, digest and column families are those of the part; the
    /// rest is of the whole import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<Part>,
    /// The database's path as the user gave it.
    pub db: String,
    /// The column family that took the blocks.
    pub column_family: String,
    /// Whether the database was there before; then counts and digest are those of this import alone.
    pub into_existing: bool,
    /// Whether it took the place of a database that was there before.
    #[serde(default)]
    pub replaced: bool,
    /// What a block is stored under.
    pub key: KeyLayout,
    /// Whether every block was checked against its hash.
    pub verified: bool,
    /// How many blocks.
    pub blocks: Blocks,
    /// Bytes of the blocks in the source, duplicates included.
    pub payload_bytes: u64,
    /// The content digest of the column family.
    pub digest: ContentDigest,
    /// The F3 data of the snapshots, each once, if they were not stored (`--f3 skip`). Counts and digest do not include
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub f3: Vec<F3Report>,
    /// Which part of the source this is, where it is not all of it. Counts, digest and missing roots are those of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shard: Option<ShardReport>,
    /// Multicodecs of the hash functions of the blocks; only where keys are bare digests, which do not name theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_functions: Option<Vec<u64>>,
    /// The preset the database was made for.
    pub preset: String,
    /// The place that names the preset: `command line`, `BEDLOAD_PRESET`, the path of `config.toml`, or `default`.
    /// Not in a bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset_from: Option<String>,
    /// The loader that made it.
    pub loader: String,
    /// How it was done; whether blocks were spilled is what happened, not what was expected.
    pub plan: Plan,
    /// Seconds: `total`, and one entry a phase.
    pub seconds: serde_json::Map<String, serde_json::Value>,
    /// Processor time of the whole process, user and system.
    pub cpu_seconds: Option<f64>,
    /// The most memory the process had at once.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes the process read, from the page cache or not.
    pub bytes_read: Option<u64>,
    /// Bytes the process wrote.
    pub bytes_written: Option<u64>,
    /// Bytes of SST files and WAL that were written to make the database, by RocksDB's count: finished files with the
    /// ingest loader; WAL, flushes and compactions with the memtable loader. `null` with `into_existing`, where others'
    /// work could be in it.
    #[serde(default)]
    pub rocksdb_bytes_written: Option<u64>,
    /// True if everything was compacted; `load.compaction.final=false` leaves that to the node.
    pub compacted: bool,
    /// Levels of the finished database.
    pub levels: Vec<Level>,
    /// What only block logs have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogReport>,
    /// What RocksDB did while it was written to; only the memtable loader has this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memtable: Option<MemtableReport>,
    /// Options of the database that were set or differ from RocksDB's defaults, read back from its OPTIONS file.
    pub options: Vec<OptionRow>,
    /// `IDENTITY`, where the options require that file, and the newest OPTIONS file, as they were committed. A node
    /// that opens the database writes newer OPTIONS files.
    #[serde(default)]
    pub small_files: Vec<RecordedFile>,
    /// How fast both ends of the source were read.
    pub reading: Throughput,
    /// When each step of the source had been taken: at most 64 equal steps; none where the size is not known.
    #[serde(default)]
    pub reading_steps: Vec<ReadStep>,
    /// Progress over time.
    pub samples: Vec<Sample>,
    /// What ran.
    pub versions: Versions,
}

/// A file of the database, and a checksum that shows whether it was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedFile {
    /// Its name in the database's directory.
    pub name: String,
    /// XXH3-128 of its bytes, as hex.
    pub checksum: String,
}

/// One option of the finished database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OptionRow {
    /// `scope.option`, under RocksDB's own name.
    pub option: String,
    /// Its value, read back from RocksDB.
    pub value: String,
    /// RocksDB's default.
    pub default: String,
    /// What set it; `null` if RocksDB chose it.
    pub from: Option<String>,
}

impl OptionRow {
    pub(crate) fn of(EffectiveOption { option, value, default, from }: EffectiveOption) -> Self {
        Self { option, value, default, from: from.map(|from| from.to_string()) }
    }
}

/// What RocksDB did while it was written to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemtableReport {
    /// Batches written.
    pub batches: u64,
    /// Memtables that became files.
    pub flushes: u64,
    /// Bytes of these files.
    #[serde(default)]
    pub flush_bytes_written: u64,
    /// Bytes written to the WAL.
    #[serde(default)]
    pub wal_bytes_written: u64,
    /// How often RocksDB began to delay or stop writers.
    pub stalls: u64,
    /// How long it did, in seconds.
    pub stall_seconds: f64,
    /// Files at level 0 when the last block was written, before the final compaction.
    pub level0_files_before_compaction: u64,
    /// Compactions, the final one and those that ran by themselves.
    pub compactions: u64,
    /// Bytes they read.
    pub compaction_bytes_read: u64,
    /// Bytes they wrote.
    pub compaction_bytes_written: u64,
}

/// What was read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SourceInfo {
    /// The path as the user gave it; `-` for a pipe. Of several sources the first, and how many more.
    pub path: String,
    /// `car` or `block-log`.
    pub format: String,
    /// How it was compressed: `none`, `zstd`, ...; `mixed` where several sources differ.
    pub compression: String,
    /// Version of the format; the highest of several sources.
    pub version: u64,
    /// Size on disk, or what a pipe delivered.
    pub bytes: u64,
    /// The roots, as CIDs in their usual text form; of several sources all of them, each once.
    pub roots: Vec<String>,
    /// Bytes of null padding behind the blocks.
    pub null_padding: u64,
    /// The file on the network and its traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteInfo>,
    /// The sum that all bytes of one source were compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<ChecksumInfo>,
    /// The blocks of one source. Duplicates are those that occurred before, in an earlier source or in this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Blocks>,
}

/// A source on the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteInfo {
    /// Its address behind all redirects, without secrets.
    pub url: String,
    /// Its ETag.
    pub etag: Option<String>,
    /// When it was changed last, in the server's words.
    pub modified: Option<String>,
    /// Whether the server gives ranges of it.
    pub ranges: bool,
    /// Requests that this run has made.
    pub requests: u64,
    /// Bytes that this run has received.
    pub received_bytes: u64,
    /// Seconds that this run has waited for the network.
    pub waited_seconds: f64,
    /// Connections at once, in the end.
    pub connections: u64,
}

/// A sum of all bytes of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChecksumInfo {
    /// What sums them.
    pub function: SumFunction,
    /// The sum, in hex.
    pub sum: String,
    /// Where it is from: `the command line`, a file, a URL, or what a store says of the file.
    pub from: String,
    /// Whether all bytes have it: not where an earlier run that did not know of it had taken them.
    pub compared: bool,
}

impl ChecksumInfo {
    /// A sum that all bytes are compared with.
    pub(crate) fn of(expected: &Expected) -> Self {
        let Expected { function, sum, from } = expected.clone();
        Self { function, sum, from, compared: true }
    }
}

/// F3 data that were read and verified like every block, and not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct F3Report {
    /// Their CID.
    pub cid: String,
    /// How often the block is in the snapshots.
    pub blocks: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The head of a chain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Head {
    /// `filecoin`, `steem`, `hive` or `antelope`.
    pub chain: String,
    /// The network, where its genesis is in the database (`mainnet`, `calibnet`), or the log names it by its chain id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The epoch of the head tipset, or the number of the last block.
    pub height: u64,
    /// When that was made, in UTC as RFC 3339 has it.
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

/// A snapshot that was imported before an older one was added to its database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewestSnapshot {
    /// Its path as the user gave it.
    pub path: String,
    /// Its roots, as CIDs in their usual text form.
    pub roots: Vec<String>,
    /// Its F3 data, where they were not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub f3: Vec<F3Report>,
}

/// What the blocks of a CAR link to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkReport {
    /// Distinct blocks that are linked to; sector commitments and blocks inside of links do not count.
    pub linked: u64,
    /// How many of them are neither in the source nor in the database.
    pub missing: u64,
    /// Blocks that are not what their codec says, and links that are no CID or longer than 65,535 bytes.
    pub malformed: u64,
    /// Some of those that are missing, ten at most.
    pub first_missing: Vec<String>,
}

/// What a database has of a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The bundle's id.
    pub bundle: String,
    /// Files that were taken.
    pub files: u64,
    /// Files that the bundle has.
    pub of_files: u64,
    /// The content digest of the blocks of the whole bundle.
    pub of_digest: ContentDigest,
}

impl Part {
    /// In words, for people.
    pub(crate) fn describe(&self) -> String {
        let Self { bundle, files, of_files, .. } = self;
        format!("{files} of the {of_files} files of the bundle {bundle}")
    }
}

/// One of the shards of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardReport {
    /// Which one, counted from 0.
    pub number: u32,
    /// How many there are.
    pub of: u32,
    /// What the whole source has, for each beginning of keys that its digests are cut into shards behind, and last for all
    /// other keys.
    pub classes: Vec<ShardClass>,
    /// The network, where its genesis is in this shard: the head may be in another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// Blocks of a source whose keys begin alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardClass {
    /// The first bytes of their keys, as hex; `null` for all other keys.
    pub prefix: Option<String>,
    /// How many there are, duplicates included.
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

    /// Blocks of the whole source, and bytes of their values; `None` where the numbers are none.
    pub(crate) fn source(&self) -> Option<Count> {
        self.classes.iter().try_fold(Count::default(), |all, class| {
            Some(Count { blocks: all.blocks.checked_add(class.blocks)?, bytes: all.bytes.checked_add(class.bytes)? })
        })
    }
}

/// How many blocks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Blocks {
    /// In the source.
    pub read: u64,
    /// In the database.
    pub written: u64,
    /// In the source more than once.
    pub duplicate: u64,
    /// Of those written, how many an existing database held before; only with `into_existing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<u64>,
}

/// What ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Versions {
    /// This program's.
    pub bedload: String,
    /// RocksDB's.
    pub rocksdb: String,
}
