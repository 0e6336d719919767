//! Values of presets that depend on the machine: `cores` and `open_files`.

use rustix::process::{Resource, getrlimit};

/// Descriptors that stay free for other files: logs, the snapshot, spills, sockets of a node.
const RESERVED_FILES: u64 = 256;

/// The number that stands for "unlimited" descriptors: more SST files than any database here has.
const MANY_FILES: u64 = 1 << 20;

/// The numbers behind the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// `cores`: threads that can run at once.
    pub cores: u64,
    /// `open_files`: SST files that RocksDB may hold open.
    pub open_files: u64,
}

impl Machine {
    /// This machine. `open_files` is the hard limit of descriptors (the program raises the soft one to it before a load)
    /// less a reserve, or half of it where the limit is small.
    pub fn here() -> Self {
        let cores = crate::parallel::cores() as u64;
        let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(MANY_FILES).min(MANY_FILES);
        Self { cores, open_files: Self::files_within(limit) }
    }

    /// The part of a descriptor limit that RocksDB may use.
    pub fn files_within(limit: u64) -> u64 {
        limit.saturating_sub(RESERVED_FILES).max(limit / 2)
    }

    /// The number behind a word, or none if it is not one of these words.
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
