//! The plan of an import, decided before it starts: a value that can be printed, compared and tested.

use serde::{Deserialize, Serialize};

use crate::size::human;

/// The way an import will go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Through memory, or through files from the first block on.
    pub spill: bool,
    /// The memory budget in bytes.
    pub memory: u64,
    /// Threads that work.
    pub threads: usize,
    /// Bits of the digest that choose the partition.
    pub partition_bits: u32,
    /// The size at which an SST is closed, in bytes.
    pub sst_bytes: u64,
    /// Bytes read at once.
    pub chunk_bytes: u64,
    /// Bytes of blocks and entries that may be held before they are spilled.
    pub hold_bytes: u64,
    /// Bytes appended to a partition at once.
    pub piece_bytes: u64,
    /// Bytes of one partition that can be sorted in memory.
    pub sort_bytes: u64,
    /// The size of the decompressed source in bytes, where it is known or can be guessed.
    pub expected_bytes: Option<u64>,
    /// What is needed of each file system that is written to; with a work directory on another one there are two.
    #[serde(default)]
    pub space: Vec<Space>,
    /// Files that will be open at once, as far as the source's size is known.
    pub open_files: u64,
    /// What only the memtable loader has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memtable: Option<MemtablePlan>,
    /// What only a block log has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogPlan>,
}

/// How a block log will be gone about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlan {
    /// Bytes of the log that one thread builds into files of their own.
    pub range_bytes: u64,
    /// Column families that are made.
    pub families: Vec<String>,
}

/// How the memtable loader will go about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemtablePlan {
    /// Threads that write batches.
    pub writer_threads: usize,
    /// The size at which a batch is written, in bytes.
    pub batch_bytes: u64,
    /// The records at which a batch is written.
    pub batch_count: u64,
    /// The most that RocksDB's write buffers will take, in bytes.
    pub write_buffer_bytes: u64,
    /// The most files that level 0 is expected to have before the final compaction, where the source's size is known.
    pub level0_files: Option<u64>,
    /// Whether there is a final compaction.
    pub compact: bool,
}

/// What is needed of one file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The directory that is written to, or the nearest one above it that exists.
    pub path: String,
    /// Type of the file system, e.g. `ext4`; hex digits where it has no name here.
    pub file_system: String,
    /// Number of the device it is on.
    pub device: u64,
    /// What is written there: `database`, `partitions`, or both.
    pub holds: String,
    /// Bytes needed at the peak, beyond what is there already; `null` when the source's size is not known.
    pub needed_bytes: Option<u64>,
    /// Bytes of it that are certain: they cannot be compressed away.
    pub certain_bytes: u64,
    /// Bytes free for this user.
    pub free_bytes: u64,
}

impl Plan {
    /// The plan in one line for people.
    pub fn describe(&self) -> String {
        if let Some(memtable) = &self.memtable {
            return memtable.describe(self);
        }
        if let Some(log) = &self.log {
            return format!(
                "build in the order of the chain: {} threads, {} of memory, ranges of {}, column families {}{}",
                self.threads,
                human(self.memory),
                human(log.range_bytes),
                log.families.join(", "),
                self.describe_space()
            );
        }
        let way = if self.spill { "spill to partitions, then sort each in memory" } else { "sort in memory" };
        let elsewhere =
            if self.space.len() > 1 { "; partitions go to another file system and are copied back" } else { "" };
        format!(
            "{way}: {} threads, {} of memory, {} partitions, SSTs of up to {}{}{elsewhere}",
            self.threads,
            human(self.memory),
            1u64 << self.partition_bits,
            human(self.sst_bytes),
            self.describe_space()
        )
    }

    /// The size of SSTs that is aimed at for `total` bytes: small enough that no thread is left alone with the last one for
    /// long.
    pub(crate) fn sst_target(&self, total: u64) -> u64 {
        sst_target(total, self.threads as u64, self.sst_bytes)
    }

    fn describe_space(&self) -> String {
        self.space.iter().map(|space| format!("; {}", space.describe())).collect()
    }
}

/// The same for a plan in the making.
pub(crate) fn sst_target(total: u64, threads: u64, sst_bytes: u64) -> u64 {
    (total / (threads * 8)).max(1 << 20).min(sst_bytes)
}

impl MemtablePlan {
    fn describe(&self, plan: &Plan) -> String {
        let level0 = self.level0_files.map(|files| format!(" from up to {files} files of level 0")).unwrap_or_default();
        let compaction = if self.compact { format!("then compact{level0}") } else { "no final compaction".to_owned() };
        let families =
            plan.log.as_ref().map(|log| format!(", column families {}", log.families.join(", "))).unwrap_or_default();
        format!(
            "write through memtables: {} threads read, {} write, batches of {} or {} records, {} of write buffers; \
             {compaction}{families}{}",
            plan.threads,
            self.writer_threads,
            human(self.batch_bytes),
            self.batch_count,
            human(self.write_buffer_bytes),
            plan.describe_space()
        )
    }
}

impl Space {
    /// In words, for people.
    pub fn describe(&self) -> String {
        let needed = self.needed_bytes.map_or_else(|| "an unknown amount".to_owned(), human);
        format!("{}: {needed} of {} free at {} ({})", self.holds, human(self.free_bytes), self.path, self.file_system)
    }
}
