//! Checkpoints while the source is read into partitions.
//!
//! A checkpoint is taken while no worker has a chunk: their buffers are appended, and the lengths of all partitions are noted.
//! Another thread syncs the files and then writes the journal, so that no worker waits for the disk.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::error::Error;
use crate::failpoint;
use crate::load::journal::{Entry, Journal, PartitionCheckpoint};
use crate::sort::Spill;

/// Bytes of the source between two checkpoints: minimum, per partition file to sync, and maximum. Thus the disk works steadily
/// from the start, and the last tenth of a snapshot is read as fast as the first.
const EVERY_BYTES_LEAST: u64 = 32 << 20;
const EVERY_BYTES_PER_FILE: u64 = 4 << 20;
const EVERY_BYTES_MOST: u64 = 256 << 20;

/// With a source on the network a checkpoint is also taken after this share of the source, as its reciprocal, and this time,
/// unless an earlier one waits for the disk: lost bytes would have to be fetched again. A hundred kills lose a hundredth.
const NETWORK_SHARE: u64 = 5000;
const NETWORK_LEAST: Duration = Duration::from_millis(100);

/// The longest time between two checkpoints.
const EVERY: Duration = Duration::from_secs(10);

/// Bytes between two checkpoints of `files` files, or of a test. Without files checkpoints come by time.
fn every_bytes(files: Option<u32>) -> u64 {
    let rule = |files| (u64::from(files) * EVERY_BYTES_PER_FILE).clamp(EVERY_BYTES_LEAST, EVERY_BYTES_MOST);
    failpoint::durable_bytes().unwrap_or_else(|| files.map_or(u64::MAX, rule))
}

pub(in crate::load) struct CheckpointClock {
    last_offset: u64,
    last_time: Instant,
    every_bytes: u64,
    /// Bytes between two checkpoints if the disk is idle.
    eager_bytes: u64,
}

impl CheckpointClock {
    /// Counts from `offset`. A checkpoint syncs up to `files` files; `None` if pieces bypass the page cache.
    pub fn new(offset: u64, files: Option<u32>) -> Self {
        Self { last_offset: offset, last_time: Instant::now(), every_bytes: every_bytes(files), eager_bytes: u64::MAX }
    }

    /// Adds checkpoints for a source on the network, of `bytes` if that is known.
    pub fn for_network(self, bytes: Option<u64>) -> Self {
        Self { eager_bytes: bytes.unwrap_or_default() / NETWORK_SHARE, ..self }
    }

    /// True if a checkpoint is due at this offset of the source. Then the next one is counted from here. `is_free` returns true
    /// if no other checkpoint waits for the disk.
    pub fn is_due(&mut self, offset: u64, is_free: impl FnOnce() -> bool) -> bool {
        let (bytes, elapsed) = (offset - self.last_offset, self.last_time.elapsed());
        let due = bytes >= self.every_bytes
            || elapsed >= EVERY
            || (bytes > self.eager_bytes && elapsed >= NETWORK_LEAST && is_free());
        if due {
            (self.last_offset, self.last_time) = (offset, Instant::now());
        }
        due
    }
}

/// Makes checkpoints durable until the sender is dropped. A failure goes to `fail`.
pub(in crate::load) fn write_checkpoints(
    checkpoints: &Receiver<PartitionCheckpoint>,
    spill: &Spill,
    journal: &Journal,
    fail: impl Fn(Error),
) {
    let make_durable = |checkpoint: PartitionCheckpoint| {
        spill.sync(&checkpoint.extents)?;
        failpoint::reach("read-synced");
        journal.append(&Entry::Read(checkpoint))?;
        failpoint::reach("read");
        Ok(())
    };
    if let Err(error) = checkpoints.iter().try_for_each(make_durable) {
        fail(error);
        // No thread may wait for a full disk.
        checkpoints.iter().for_each(drop);
    }
}

/// A channel with room for one checkpoint: a reader that is faster than the disk waits here.
pub(in crate::load) fn channel() -> (Sender<PartitionCheckpoint>, Receiver<PartitionCheckpoint>) {
    crossbeam_channel::bounded(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_data_is_synced_when_the_disk_is_idle() {
        let last_time = Instant::now().checked_sub(Duration::from_secs(1)).expect("it has run that long");
        let clock = || CheckpointClock { last_time, ..CheckpointClock::new(0, Some(1)) };
        assert!(!clock().is_due(1 << 20, || true), "of a file");
        assert!(clock().for_network(Some(1 << 30)).is_due(1 << 20, || true));
        assert!(!clock().for_network(Some(1 << 30)).is_due(1 << 20, || false));
        assert!(!clock().for_network(Some(1 << 40)).is_due(1 << 20, || true), "too small a share");
    }

    #[test]
    fn streamed_writes_are_synced_by_time() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).expect("it has run that long");
        let clock = |seconds, files| CheckpointClock { last_time: ago(seconds), ..CheckpointClock::new(0, files) };
        assert!(!clock(1, None).is_due(1 << 40, || true));
        assert!(clock(11, None).is_due(1, || false));
        assert!(clock(1, Some(38)).is_due(38 * EVERY_BYTES_PER_FILE, || false));
    }
}
