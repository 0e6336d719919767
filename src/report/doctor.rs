//! What a machine can do, and what an import on it would take.

use serde::{Deserialize, Serialize};

use super::plan::Plan;

/// The version of this document; it changes when a field changes its meaning or goes.
pub const DOCTOR_SCHEMA: &str = "bedload-doctor-4";

/// What a machine can do. What could not be measured is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Name and version of this document.
    pub schema: String,
    /// The directory that was examined: the one named, or the nearest above it that exists.
    pub dir: String,
    /// The file system it is on.
    pub file_system: FileSystemInfo,
    /// How fast it is; `null` where nothing can be written.
    pub disk: Option<DiskSpeed>,
    /// The machine.
    pub machine: MachineInfo,
    /// Bytes whose hashes are checked in a second.
    pub hash: Rate,
    /// What importing the named snapshot would take; `null` without one.
    pub forecast: Option<Forecast>,
    /// What is worth knowing, and what to do about it; the weightiest first.
    pub warnings: Vec<Advice>,
    /// Seconds that all this took.
    pub seconds: f64,
}

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemInfo {
    /// Its type, e.g. `ext4`; hex digits where it has no name here.
    pub kind: String,
    /// Number of its device.
    pub device: u64,
    /// Its size in bytes.
    pub total_bytes: u64,
    /// Bytes free for this user.
    pub free_bytes: u64,
    /// Whether it is in memory.
    pub in_memory: bool,
    /// Whether the disk below it turns; `null` where that is not known.
    pub rotational: Option<bool>,
}

/// How fast a file system is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskSpeed {
    /// 4 KiB appended and synced with each write (`O_DSYNC`).
    pub sync_write: Option<Latency>,
    /// `fsync` after a write of 4 KiB.
    pub fsync: Option<Latency>,
    /// Bytes written in a second, front to back, past the page cache.
    pub write_bytes_per_second: Option<f64>,
    /// Bytes written in a second through the page cache, synced at the end: what an import does.
    pub synced_write_bytes_per_second: Option<f64>,
    /// Bytes read in a second, front to back, past the page cache.
    pub read_bytes_per_second: Option<f64>,
    /// Reads of 4 KiB at random places in a second, one after the other.
    pub random_reads_per_second: Option<f64>,
    /// How the page cache was passed: `direct` (`O_DIRECT`), or `dropped` (synced, then dropped with `fadvise`).
    pub past_the_cache: String,
    /// Bytes of the file that was read and written.
    pub file_bytes: u64,
}

/// How long something takes, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of all take no longer.
    pub median_us: f64,
    /// Of a hundred, 99 take no longer.
    pub p99_us: f64,
    /// How many were measured.
    pub count: u64,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Threads that can run at once.
    pub cores: u64,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// What could be had now without swapping, in bytes.
    pub available_bytes: Option<u64>,
    /// What the control group allows, in bytes; `null` without a limit.
    pub cgroup_bytes: Option<u64>,
    /// Swap space in bytes.
    pub swap_bytes: Option<u64>,
    /// Swap space in use, in bytes.
    pub swap_used_bytes: Option<u64>,
    /// Descriptors that a process may have; `null` without a limit.
    pub open_files_soft: Option<u64>,
    /// To how many it may raise that; `null` without a limit.
    pub open_files_hard: Option<u64>,
}

/// Bytes in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Of one core alone.
    pub one_core: f64,
    /// Of all together.
    pub all_cores: f64,
}

/// What an import would take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The snapshot as it was named, or the assumed size and form.
    pub source: String,
    /// How it would be done.
    pub plan: Plan,
    /// The forecast of the import; `null` if there is none.
    pub prediction: Option<Prediction>,
}

/// What an import is expected to take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Seconds: `total`, and one entry a phase.
    pub seconds: serde_json::Map<String, serde_json::Value>,
    /// The most that is on disk at once, in bytes, beyond the snapshot.
    pub peak_disk_bytes: Option<u64>,
    /// The most memory that is resident at once, in bytes.
    pub memory_bytes: u64,
    /// What is slowest in the longest phase: `processor`, `disk` (where the database is) or `source`.
    pub limited_by: String,
    /// Bytes of the generated snapshot that was imported.
    pub sample_bytes: u64,
    /// Seconds that its import took.
    pub sample_seconds: f64,
}

/// Something worth knowing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// A name that stays the same, for programs.
    pub id: String,
    /// What was found.
    pub finding: String,
    /// What to do about it.
    pub remedy: String,
}
