//! Other layouts of a block log in memory, for tests.
//!
//! ```text
//! parts        block_log_part.0001 ..: positions start at 0 again in each
//! partitions   blocks-1-100.log ..: whole Antelope logs
//! ```

use std::io;

use super::antelope::Genesis;
use super::files::{IndexKind, IndexWriter};
use super::spec::VERSION;
use super::{LogEntry, LogSpec};

/// Bits of a word that are the position. The other bits of Hive's words say how a block is packed.
const POSITION: u64 = (1 << 48) - 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    pub name: String,
    pub log: Vec<u8>,
    /// Its blocks, with positions in this file.
    pub entries: Vec<LogEntry>,
}

pub fn index(kind: IndexKind, entries: &[LogEntry]) -> Vec<u8> {
    let mut writer = IndexWriter::new(kind, io::Cursor::new(Vec::new())).expect("memory has room");
    entries.iter().for_each(|entry| writer.push(entry).expect("memory has room"));
    writer.finish().expect("memory has room").into_inner()
}

/// The parts of a split Hive log, each but the last of `blocks` blocks (1,000,000 on the main network). The first block
/// of the log must be the first of a part.
pub fn split(log: &[u8], entries: &[LogEntry], blocks: u32) -> Vec<LogPart> {
    let parts = entries.chunks(blocks.max(1) as usize);
    let part = |entries: &[LogEntry]| {
        let number = entries.first().map_or(0, |entry| (entry.number - 1) / blocks.max(1) + 1);
        part(format!("block_log_part.{number:04}"), Vec::new(), log, entries)
    };
    parts.map(part).collect()
}

/// The partitions of an Antelope log of version 3 that was made after `spec`, each but the last of `blocks` blocks.
pub fn partitions(spec: &LogSpec, log: &[u8], entries: &[LogEntry], blocks: u32) -> Vec<LogPart> {
    let genesis = Genesis::new(spec.seed);
    let partition = |entries: &[LogEntry]| {
        let number = |entry: Option<&LogEntry>| entry.map_or(0, |entry| entry.number);
        let (first, last) = (number(entries.first()), number(entries.last()));
        part(format!("blocks-{first}-{last}.log"), genesis.preamble(VERSION, first), log, entries)
    };
    entries.chunks(blocks.max(1) as usize).map(partition).collect()
}

/// An Antelope log of version 3 of which a node has pruned all but the last `live` blocks: whole pages are holes, here
/// zeros, and the number of blocks is at the end.
pub fn pruned(log: &[u8], entries: &[LogEntry], live: u32) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut file = log.to_vec();
    if let Some(version) = file.get_mut(3) {
        *version |= 0x80;
    }
    let dead = entries.len().saturating_sub(live as usize);
    let position = |at: usize| entries.get(at).map_or(log.len(), |entry| entry.word as usize);
    let hole = position(0).next_multiple_of(PAGE)..position(dead) / PAGE * PAGE;
    if let Some(hole) = file.get_mut(hole) {
        hole.fill(0);
    }
    file.extend(live.to_le_bytes());
    file
}

/// The blocks of `entries`, copied from `log`, after `preamble`.
fn part(name: String, preamble: Vec<u8>, log: &[u8], entries: &[LogEntry]) -> LogPart {
    let mut part = LogPart { name, log: preamble, entries: Vec::with_capacity(entries.len()) };
    for entry in entries {
        let from = (entry.word & POSITION) as usize;
        let word = entry.word & !POSITION | part.log.len() as u64;
        part.log.extend_from_slice(log.get(from..from + entry.len as usize).unwrap_or_default());
        part.log.extend(word.to_le_bytes());
        part.entries.push(LogEntry { word, ..*entry });
    }
    part
}
