//! Values of presets that depend on the machine: `cores` and `open_files`.

use crate::os::resources::open_files;

/// Descriptors that stay free for other files: logs, the snapshot, spills, sockets of a node.
const RESERVED_FILES: u64 = 256;

/// Descriptors of a process without a limit: more than a database has SST files.
const MANY_FILES: u64 = 1 << 20;

/// The values of words in presets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub cores: u64,
    /// SST files that RocksDB may keep open.
    pub open_files: u64,
}

impl Machine {
    /// This machine. The program raises the soft limit of descriptors to the hard one before a load.
    pub fn here() -> Self {
        let cores = crate::parallel::cores() as u64;
        let limit = open_files().1.unwrap_or(MANY_FILES).min(MANY_FILES);
        Self { cores, open_files: Self::files_within(limit) }
    }

    /// The part of a descriptor limit that RocksDB may use: all but a reserve, or half of a small limit.
    pub fn files_within(limit: u64) -> u64 {
        limit.saturating_sub(RESERVED_FILES).max(limit / 2)
    }

    /// The value of a word.
    pub fn number(&self, word: &str) -> Option<u64> {
        match word {
            "cores" => Some(self.cores),
            "open_files" => Some(self.open_files),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_limit_keeps_a_reserve() {
        assert_eq!(Machine::files_within(256), 128);
        assert_eq!(Machine::files_within(1024), 768);
        assert_eq!(Machine::files_within(1 << 20), (1 << 20) - 256);
    }
}
