//! Index files of a log with the positions of its blocks. An entry is used only if the log agrees with it.
//!
//! ```text
//!   block_log.index, blocks.index   u64 position of each block
//!   .artifacts 1.0   u32 head | git revision[41] | u8 1 | u8 0 | u8 dirty                            48 bytes
//!              1.1   the same with u8 1 | u8 1 | .. | u32 first block | u32 interrupted at           56 bytes
//!              entry u64 word, as after the block | id[4..20]                                        24 bytes
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use parking_lot::Mutex;

use super::Framing;
use super::framing::{u32_at, u64_at};
use crate::blocks::chain::Id;
use crate::os::files::open_regular;

const ARTIFACTS: &str = "artifacts";

/// Bytes before the entries of an artifacts file of version 1.0.
const ARTIFACTS_HEAD: usize = 48;

const ARTIFACT: usize = 24;

/// An index file beside a block log.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct IndexUse {
    /// The path.
    pub path: String,
    /// `index`, or `artifacts` and their version.
    pub kind: String,
    /// True if the index matched the log and was used.
    pub used: bool,
    /// The reason for ignoring the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An index file that has agreed with the log so far.
pub(crate) struct LogIndex {
    file: File,
    used: IndexUse,
    /// Bytes before the first entry, and of an entry.
    head: u64,
    entry: u64,
    first: u32,
    wrong: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Indexed {
    pub word: u64,
    /// Bytes 4 to 20 of its id.
    pub id_tail: Option<[u8; 16]>,
}

impl LogIndex {
    /// Opens the index beside `log`, which has the blocks `first` to `last`. `None` if there is none. The error has the
    /// reason why it is ignored.
    pub fn open(log: &Path, framing: Framing, first: u32, last: u32) -> Option<Result<Self, IndexUse>> {
        let (path, kind) = match framing {
            Framing::Antelope { .. } => (log.with_extension("index"), "index"),
            Framing::Graphene => match log.with_added_extension(ARTIFACTS) {
                path if path.is_file() => (path, ARTIFACTS),
                _ => (log.with_added_extension("index"), "index"),
            },
        };
        if !path.is_file() {
            return None;
        }
        let mut used = IndexUse { path: path.display().to_string(), kind: kind.into(), used: true, reason: None };
        let index = Self::read(&path, first, last, &mut used);
        Some(index.map_err(|reason| IndexUse { used: false, reason: Some(reason), ..used }))
    }

    fn read(path: &Path, first: u32, last: u32, used: &mut IndexUse) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let file = open_regular(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let blocks = u64::from(last - first) + 1;
        let (mut head, mut entry) = (0, 8);
        if used.kind == ARTIFACTS {
            let mut bytes = [0; ARTIFACTS_HEAD + 8];
            let known = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len());
            file.read_exact_at(bytes.get_mut(..known).unwrap_or_default(), 0).map_err(failed)?;
            let minor = match (bytes.get(45), bytes.get(46)) {
                (Some(1), Some(minor @ (0 | 1))) => *minor,
                _ => return Err("its version is not 1.0 or 1.1".into()),
            };
            used.kind = format!("artifacts 1.{minor}");
            (head, entry) = (ARTIFACTS_HEAD as u64 + 8 * u64::from(minor), ARTIFACT as u64);
            let declared = u32_at(&bytes, 0).unwrap_or_default();
            if declared != last {
                return Err(format!("its head is block {declared}, that of the log {last}"));
            }
            let declared = u32_at(&bytes, ARTIFACTS_HEAD).unwrap_or_default();
            if minor == 1 && declared != first {
                return Err(format!("it begins with block {declared}, the log with {first}"));
            }
            let interrupted = u32_at(&bytes, ARTIFACTS_HEAD + 4).unwrap_or_default();
            if minor == 1 && interrupted != 0 {
                return Err(format!("its making was interrupted at block {interrupted}"));
            }
        }
        let entries = size.saturating_sub(head) / entry;
        if entries != blocks || (size - head) % entry != 0 {
            return Err(format!("it has {entries} entries, the log {blocks} blocks"));
        }
        Ok(Self { file, used: used.clone(), head, entry, first, wrong: Mutex::default() })
    }

    pub fn is_right(&self) -> bool {
        self.wrong.lock().is_none()
    }

    pub fn refute(&self, reason: impl FnOnce() -> String) {
        self.wrong.lock().get_or_insert_with(reason);
    }

    pub fn used(&self) -> IndexUse {
        let reason = self.wrong.lock().clone();
        IndexUse { used: reason.is_none(), reason, ..self.used.clone() }
    }

    /// Reads the entries of `count` blocks from `first` on. An index that cannot be read gives none and is refuted.
    pub fn get(&self, first: u32, count: usize, into: &mut Vec<Indexed>) {
        into.clear();
        let Some(skip) = first.checked_sub(self.first) else { return };
        let mut bytes = vec![0; count * self.entry as usize];
        let at = self.head + u64::from(skip) * self.entry;
        if let Err(error) = self.file.read_exact_at(&mut bytes, at) {
            return self.refute(|| error.to_string());
        }
        into.extend(bytes.chunks_exact(self.entry as usize).map(|entry| Indexed {
            word: u64_at(entry, 0).unwrap_or_default(),
            id_tail: entry.get(8..).and_then(|tail| tail.try_into().ok()),
        }));
    }
}

impl Indexed {
    pub fn agrees(&self, word: u64, id: &Id) -> bool {
        match self.id_tail {
            // A plain index has positions only.
            None => self.word == word & ((1 << 48) - 1),
            Some(tail) => self.word == word && id.as_bytes().get(4..) == Some(&tail[..]),
        }
    }
}
