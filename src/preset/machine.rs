//! Numbers in presets: with RocksDB's units, or the words `cores` and `open_files`, which depend on the machine.

use crate::os::resources::open_files;
use crate::text::size;

/// Descriptors that stay free for other files: logs, the snapshot, spills, sockets of a node.
const RESERVED_FILES: u64 = 256;

/// Descriptors of a process without a limit: more than a database has SST files.
const MANY_FILES: u64 = 1 << 20;

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

    pub fn number(&self, word: &str) -> Option<u64> {
        match word {
            "cores" => Some(self.cores),
            "open_files" => Some(self.open_files),
            _ => None,
        }
    }

    /// Reads a whole number or a word.
    pub(super) fn parse(&self, text: &str) -> Result<i128, String> {
        self.number(text).map_or_else(|| whole(text), |number| Ok(number.into()))
    }
}

/// Reads a whole number with an optional sign and binary unit: `64M` is 64 MiB, for counts as well as for bytes.
///
/// RocksDB's own reader ignores the rest after one letter (`64MB` is `64M`, `64X` is 64) and does not check for
/// overflow, so bedload passes plain digits.
pub fn whole(text: &str) -> Result<i128, String> {
    let (sign, number) = text.strip_prefix('-').map_or((1, text), |number| (-1, number));
    size::parse(number).map(|number| sign * i128::from(number)).map_err(|error| error.to_string())
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

    #[test]
    fn number_accepts_sign_and_binary_unit() {
        assert_eq!(whole("64M"), Ok(64 << 20));
        assert_eq!(whole("-1"), Ok(-1));
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX.into()));
        assert!(whole("--1").expect_err("two signs").contains("is not a size"));
    }
}
