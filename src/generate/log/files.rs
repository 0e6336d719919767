//! The index files beside a block log.
//!
//! ```text
//! index        u64 position x blocks
//! artifacts    1.0: u32 head | git[41] | 1 | 0 | dirty                          1.1: .. 1 | 1 | .. | u32 tail | u32 interrupted
//!              then for each block u64 word | id[4..20]
//! ```

use std::io::{self, Seek, SeekFrom, Write};

use crate::blocks::chain::Id;

/// One block of a generated log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    pub number: u32,
    pub id: Id,
    /// The word after the block: its position in bits 0 to 47 (Hive; all bits otherwise), and how it is packed.
    pub word: u64,
    /// Bytes of the stored block, without the word.
    pub len: u32,
}

/// Bytes of a commit's hash in hex, and a zero.
const GIT: usize = 41;

/// The entry of an index for each block, and the head of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// The word after the block: `block_log.index` (Steem), `blocks.index` (Antelope).
    Words,
    /// The word and most of the id: `block_log.artifacts` (Hive). The head has the number of the last block.
    #[cfg(any(test, feature = "testing"))]
    Artifacts1_0,
    /// The head also has the first block's number, and a mark of an interrupted generation.
    Artifacts1_1,
}

#[derive(Debug)]
pub struct IndexWriter<W> {
    kind: IndexKind,
    out: W,
    ends: Option<(u32, u32)>,
}

impl<W: Write + Seek> IndexWriter<W> {
    pub fn new(kind: IndexKind, out: W) -> io::Result<Self> {
        let mut writer = Self { kind, out, ends: None };
        writer.head()?;
        Ok(writer)
    }

    pub fn push(&mut self, entry: &LogEntry) -> io::Result<()> {
        let (first, _) = *self.ends.get_or_insert((entry.number, entry.number));
        self.ends = Some((first, entry.number));
        self.out.write_all(&entry.word.to_le_bytes())?;
        match self.kind {
            IndexKind::Words => Ok(()),
            _ => self.out.write_all(entry.id.as_bytes().get(4..20).unwrap_or(&[0; 16])),
        }
    }

    /// Writes the complete head and returns `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.seek(SeekFrom::Start(0))?;
        self.head()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn head(&mut self) -> io::Result<()> {
        let (tail, head) = self.ends.unwrap_or_default();
        let start = [&head.to_le_bytes()[..], &[0; GIT], &[1]].concat();
        let rest = match self.kind {
            IndexKind::Words => return Ok(()),
            #[cfg(any(test, feature = "testing"))]
            IndexKind::Artifacts1_0 => vec![0, 0],
            IndexKind::Artifacts1_1 => [&[1, 0], &tail.to_le_bytes()[..], &[0; 4]].concat(),
        };
        self.out.write_all(&[start, rest].concat())
    }
}
