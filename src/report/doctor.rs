//! Measurements of a machine, and the forecast of an import.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Plan;

pub const DOCTOR_SCHEMA: &str = "bedload-doctor-4";

/// Measurements of a machine. Values that could not be measured are `null`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DoctorReport {
    pub schema: String,
    /// The directory that was examined: the one named, or its nearest existing ancestor.
    pub dir: String,
    /// Its file system.
    pub file_system: FileSystemInfo,
    /// Its speed; `null` if nothing can be written.
    pub disk: Option<DiskSpeed>,
    /// The machine.
    pub machine: MachineInfo,
    /// Bytes hashed per second.
    pub hash: HashRate,
    /// The forecast of an import; `null` without a snapshot.
    pub forecast: Option<Forecast>,
    /// Findings with advice, the most important first.
    pub warnings: Vec<Advice>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileSystemInfo {
    /// Its type, e.g. `ext4`; hex digits if unknown.
    pub kind: String,
    /// Number of its device.
    pub device: u64,
    /// Its size in bytes.
    pub total_bytes: u64,
    /// Bytes free for this user.
    pub free_bytes: u64,
}

/// The speed of a file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiskSpeed {
    /// 4 KiB appended and synced with each write (`O_DSYNC`).
    pub sync_write: Option<Latency>,
    /// `fsync` after a write of 4 KiB.
    pub fsync: Option<Latency>,
    /// Bytes written per second, sequentially, bypassing the page cache.
    pub write_bytes_per_second: Option<f64>,
    /// Bytes written per second through the page cache with a sync at the end, as an import does.
    pub synced_write_bytes_per_second: Option<f64>,
    /// Bytes read per second, sequentially, bypassing the page cache.
    pub read_bytes_per_second: Option<f64>,
    /// Random reads of 4 KiB per second, one after the other.
    pub random_reads_per_second: Option<f64>,
    /// How the page cache was bypassed: `direct` (`O_DIRECT`), or `dropped` (synced, then dropped with `fadvise`).
    pub past_the_cache: String,
    /// Size of the file that was read and written, in bytes.
    pub file_bytes: u64,
}

/// A latency, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub median_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Number of measurements.
    pub count: u64,
}

/// A machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Number of hardware threads.
    pub cores: u64,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory available without swapping, in bytes.
    pub available_bytes: Option<u64>,
    /// The limit of the control group, in bytes; `null` without a limit.
    pub cgroup_bytes: Option<u64>,
    /// Soft limit of open files; `null` without a limit.
    pub open_files_soft: Option<u64>,
    /// Hard limit of open files; `null` without a limit.
    pub open_files_hard: Option<u64>,
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct HashRate {
    /// On one core.
    pub one_core: f64,
    /// On all cores.
    pub all_cores: f64,
}

/// The forecast of an import.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Forecast {
    /// The snapshot as it was named, or the assumed size and format.
    pub source: String,
    /// The plan.
    pub plan: Plan,
    /// Expected time and resources; `null` if there is no forecast.
    pub prediction: Option<Prediction>,
}

/// Expected time and resources of an import.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prediction {
    /// Seconds: `total`, and one entry per phase.
    pub seconds: BTreeMap<String, f64>,
    /// Peak disk usage beyond the snapshot, in bytes.
    pub peak_disk_bytes: Option<u64>,
    /// Peak resident memory, in bytes.
    pub memory_bytes: u64,
    /// The bottleneck of the longest phase: `processor`, `disk` (of the database) or `source`.
    pub limited_by: String,
    /// Size of the generated snapshot that was imported, in bytes.
    pub sample_bytes: u64,
    /// Duration of its import, in seconds.
    pub sample_seconds: f64,
}

/// A finding with advice.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Advice {
    /// A stable name, for programs.
    pub id: String,
    /// The finding.
    pub finding: String,
    /// The advice.
    pub remedy: String,
}
