//! Compressions of snapshots, and functions of checksums.

use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};

/// The compression of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compression {
    None,
    /// One or more zstd frames.
    Zstd,
    /// Independent zstd frames with Forest's index after them.
    ForestZstd,
    Xz,
    /// gzip, one or more members.
    Gzip,
    /// lz4 frames.
    Lz4,
}

impl Compression {
    /// Returns the name in reports, the name in messages, and the usual suffix of files.
    pub(super) fn describe(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::None => ("none", "plain", "car"),
            Self::Zstd => ("zstd", "zstd", "zst"),
            Self::ForestZstd => ("forest-zstd", "zstd", "zst"),
            Self::Xz => ("xz", "xz", "xz"),
            Self::Gzip => ("gzip", "gzip", "gz"),
            Self::Lz4 => ("lz4", "lz4", "lz4"),
        }
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        self.describe().0
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.describe().1)
    }
}

/// A function for the checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum SumFunction {
    Sha256,
    /// CRC-64/NVME, the default of S3.
    Crc64Nvme,
    Crc32c,
    /// CRC-32, as of gzip.
    Crc32,
}

impl SumFunction {
    /// All functions, strongest first.
    pub(super) const ALL: [Self; 4] = [Self::Sha256, Self::Crc64Nvme, Self::Crc32c, Self::Crc32];

    /// Returns the name in headers of S3, the name for people, and the bytes of a checksum.
    pub(super) fn describe(self) -> (&'static str, &'static str, usize) {
        match self {
            Self::Sha256 => ("sha256", "SHA-256", 32),
            Self::Crc64Nvme => ("crc64nvme", "CRC-64/NVME", 8),
            Self::Crc32c => ("crc32c", "CRC-32C", 4),
            Self::Crc32 => ("crc32", "CRC-32", 4),
        }
    }

    /// Returns the CRC whose state is `state`, or a new one. `None` for SHA-256.
    pub(super) fn crc(self, state: Option<u64>) -> Option<Digest> {
        let algorithm = match self {
            Self::Sha256 => return None,
            Self::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            Self::Crc32c => CrcAlgorithm::Crc32Iscsi,
            Self::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        };
        Some(state.map_or_else(|| Digest::new(algorithm), |state| Digest::new_with_init_state(algorithm, state)))
    }
}

impl std::fmt::Display for SumFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.describe().1)
    }
}
