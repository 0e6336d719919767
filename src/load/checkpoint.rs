//! Checkpoints while the source is read into partitions: often enough that little is done twice after a crash, and
//! beside the work, so that no worker waits for the disk.
//!
//! A checkpoint is taken while no worker has a chunk in hand: what they have collected is appended, and the lengths of all
//! partitions are noted. A thread of its own then syncs the files and, only after that, writes the journal.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::load::journal::{Checkpoint, Entry, Journal, SourceNews};
use crate::sort::spill::{Extent, Spill};

/// Bytes of the source between two checkpoints: at least, for each partition's file that may have to be synced, and
/// at most. So the disk works from the start at the pace it can keep, and the last tenth of a snapshot is read as fast as
/// the first. Where pieces are written as they come (see [`Spill::append`]) that needs no checkpoint, each of which
/// flushes the disk once for every file.
const EVERY_BYTES_LEAST: u64 = 32 << 20;
const EVERY_BYTES_PER_FILE: u64 = 4 << 20;
const EVERY_BYTES_MOST: u64 = 256 << 20;

/// What came over a network would have to come again: there a checkpoint is also taken after this share of the source, as
/// its reciprocal, and this time, unless one before it waits for the disk. A hundred kills lose a hundredth of it here.
const NETWORK_SHARE: u64 = 5000;
const NETWORK_LEAST: Duration = Duration::from_millis(100);

/// Time between two checkpoints at most.
const EVERY: Duration = Duration::from_secs(10);

/// Bytes between two checkpoints, unless a test wants more of them; without `files` they come by time.
fn every_bytes(files: Option<u32>) -> u64 {
    let rule = |files| (u64::from(files) * EVERY_BYTES_PER_FILE).clamp(EVERY_BYTES_LEAST, EVERY_BYTES_MOST);
    failpoint::durable_bytes().unwrap_or_else(|| files.map_or(u64::MAX, rule))
}

/// A checkpoint to be made durable.
pub(in crate::load) struct PendingCheckpoint {
    pub checkpoint: Checkpoint,
    pub extents: Vec<(u32, Extent)>,
    pub news: SourceNews,
}

/// When the next checkpoint is due.
pub(in crate::load) struct Clock {
    last_offset: u64,
    last_time: Instant,
    every_bytes: u64,
    /// The same where the disk has time for it.
    soon_bytes: u64,
}

impl Clock {
    /// Counts from `offset`; a checkpoint syncs up to `files` files, whose bytes nothing else has written before.
    pub fn new(offset: u64, files: Option<u32>) -> Self {
        Self { last_offset: offset, last_time: Instant::now(), every_bytes: every_bytes(files), soon_bytes: u64::MAX }
    }

    /// For a source on the network, of so many bytes where that is known.
    pub fn of_network(self, bytes: Option<u64>) -> Self {
        Self { soon_bytes: bytes.unwrap_or_default() / NETWORK_SHARE, ..self }
    }

    fn restart(&mut self, offset: u64) {
        self.last_offset = offset;
        self.last_time = Instant::now();
    }

    /// True if a checkpoint is due at this offset of the source; if so, the next one is counted from here. `is_free` says
    /// whether no other one waits for the disk.
    pub fn is_due(&mut self, offset: u64, is_free: impl FnOnce() -> bool) -> bool {
        let (bytes, elapsed) = (offset - self.last_offset, self.last_time.elapsed());
        let due = bytes >= self.every_bytes
            || elapsed >= EVERY
            || (bytes > self.soon_bytes && elapsed >= NETWORK_LEAST && is_free());
        if due {
            self.restart(offset);
        }
        due
    }
}

/// Makes checkpoints durable one after the other, until the sender is dropped. A failure goes to `fail`; after it
/// checkpoints are received and dropped: no thread may wait for a disk that is full.
pub(in crate::load) fn keep(
    checkpoints: &Receiver<PendingCheckpoint>,
    spill: &Spill,
    journal: &Journal,
    fail: impl Fn(Error),
) {
    let mut works = true;
    for checkpoint in checkpoints {
        if !works {
            continue;
        }
        if let Err(error) = make_durable(checkpoint, spill, journal) {
            fail(error);
            works = false;
        }
    }
}

fn make_durable(checkpoint: PendingCheckpoint, spill: &Spill, journal: &Journal) -> Result<()> {
    let PendingCheckpoint { checkpoint, extents, news } = checkpoint;
    spill.sync(&extents)?;
    failpoint::reach("read-synced");
    journal.append(&Entry::Read { checkpoint, extents, news })?;
    failpoint::reach("read");
    Ok(())
}

/// A channel that holds one waiting checkpoint: a reader that is faster than the disk waits for it here.
pub(in crate::load) fn channel() -> (Sender<PendingCheckpoint>, Receiver<PendingCheckpoint>) {
    crossbeam_channel::bounded(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_over_a_network_is_made_durable_as_soon_as_the_disk_is_free() {
        let last_time = Instant::now().checked_sub(Duration::from_secs(1)).expect("it has run that long");
        let clock = || Clock { last_time, ..Clock::new(0, Some(1)) };
        assert!(!clock().is_due(1 << 20, || true), "of a file");
        assert!(clock().of_network(Some(1 << 30)).is_due(1 << 20, || true));
        assert!(!clock().of_network(Some(1 << 30)).is_due(1 << 20, || false));
        assert!(!clock().of_network(Some(1 << 40)).is_due(1 << 20, || true), "too small a share");
    }

    #[test]
    fn what_is_written_as_it_comes_is_made_durable_by_time_alone() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).expect("it has run that long");
        let clock = |seconds, files| Clock { last_time: ago(seconds), ..Clock::new(0, files) };
        assert!(!clock(1, None).is_due(1 << 40, || true));
        assert!(clock(11, None).is_due(1, || false));
        assert!(clock(1, Some(38)).is_due(38 * EVERY_BYTES_PER_FILE, || false));
    }
}
