//! Counters of RocksDB's background work (flushes, compactions and write stalls), and of the reads of lookups.
//!
//! These are RocksDB's statistics, which live as long as the options in which they were switched on. RocksDB updates
//! them per batch and per block, not per record. Event listeners do not link against a RocksDB without run-time type
//! information.

use std::time::Duration;

use parking_lot::Mutex;
use rust_rocksdb::Options;
use rust_rocksdb::statistics::{Histogram, StatsLevel, Ticker};

/// Counts over all openings of one database.
#[derive(Default)]
pub(crate) struct Meter(Mutex<Vec<Options>>);

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Metered {
    /// Memtables written to level 0.
    pub flushes: u64,
    pub flush_written: u64,
    pub wal_written: u64,
    pub compactions: u64,
    pub compaction_read: u64,
    pub compaction_written: u64,
    pub stalls: u64,
    pub stalled: Duration,
}

impl Meter {
    pub(super) fn keep(&self, options: Options) {
        self.0.lock().push(options);
    }

    pub fn read(&self) -> Metered {
        let mut metered = Metered::default();
        for options in self.0.lock().iter() {
            let stalls = options.get_histogram_data(Histogram::WriteStall);
            metered.stalls += stalls.count();
            metered.stalled += Duration::from_micros(stalls.sum());
            metered.flushes += options.get_histogram_data(Histogram::FlushTime).count();
            metered.flush_written += options.get_ticker_count(Ticker::FlushWriteBytes);
            metered.wal_written += options.get_ticker_count(Ticker::WalFileBytes);
            metered.compactions += options.get_histogram_data(Histogram::CompactionTime).count();
            metered.compaction_read += options.get_ticker_count(Ticker::CompactReadBytes);
            metered.compaction_written += options.get_ticker_count(Ticker::CompactWriteBytes);
        }
        metered
    }
}

/// RocksDB's reads for lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReadCounts {
    /// Reads of SST files, from the page cache or from the disk.
    pub file_reads: u64,
    /// Their bytes, as the files have them: compressed.
    pub file_bytes: u64,
    /// Bytes of the values that were found.
    pub value_bytes: u64,
    /// Blocks that were in the block cache.
    pub cache_hits: u64,
    /// Blocks that were not.
    pub cache_misses: u64,
    /// Files that a filter spared.
    pub filtered: u64,
}

impl ReadCounts {
    /// Switches on counters without timers and histograms, which would slow down lookups.
    pub(super) fn attach(options: &mut Options) {
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    }

    pub(super) fn of(options: &Options) -> Self {
        let count = |ticker| options.get_ticker_count(ticker);
        Self {
            file_reads: count(Ticker::LastLevelReadCount) + count(Ticker::NonLastLevelReadCount),
            file_bytes: count(Ticker::LastLevelReadBytes) + count(Ticker::NonLastLevelReadBytes),
            value_bytes: count(Ticker::BytesRead),
            cache_hits: count(Ticker::BlockCacheHit),
            cache_misses: count(Ticker::BlockCacheMiss),
            filtered: count(Ticker::BloomFilterUseful),
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            file_reads: self.file_reads - before.file_reads,
            file_bytes: self.file_bytes - before.file_bytes,
            value_bytes: self.value_bytes - before.value_bytes,
            cache_hits: self.cache_hits - before.cache_hits,
            cache_misses: self.cache_misses - before.cache_misses,
            filtered: self.filtered - before.filtered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocks::tests::default_write_settings;
    use crate::rocks::{Batch, BottommostLevel, CompactionSettings, Group, OptionMap, Reader, Store};

    fn write(options: &[(&str, &str)], compact: bool) -> Metered {
        let dir = tempfile::tempdir().expect("a directory");
        let mut map = OptionMap::default();
        map.set(Group::Cf, "write_buffer_size", "65536");
        options.iter().for_each(|(name, value)| map.set(Group::Cf, *name, *value));
        let meter = Meter::default();
        let store = Store::create(dir.path(), &[("default", &map)], Some(&meter)).expect("made");
        let writer = store.writer("default", &default_write_settings()).expect("the family");
        for number in 0..400u32 {
            let mut batch = Batch::default();
            writer.put(&mut batch, &number.reverse_bits().to_be_bytes(), &[7; 1000]);
            writer.write(&batch).expect("written");
            if number % 100 == 99 {
                store.flush("default").expect("flushed");
            }
        }
        if compact {
            let settings = CompactionSettings {
                max_subcompactions: 1,
                bottommost_level_compaction: BottommostLevel::IfHaveCompactionFilter,
                exclusive_manual_compaction: false,
                change_level: false,
                target_level: -1,
                allow_write_stall: false,
            };
            store.compact("default", &settings).expect("compacted");
        }
        meter.read()
    }

    #[test]
    fn flushes_and_compactions_are_counted() {
        let quiet = [("disable_auto_compactions", "true"), ("max_write_buffer_number", "100")];
        let written = write(&quiet, false);
        assert!(written.flushes >= 4, "{written:?}");
        // 400 values of 1,000 bytes, written to the WAL and then, perhaps compressed, to files.
        assert!(written.wal_written > 400_000 && written.flush_written > 4_000, "{written:?}");
        assert_eq!((written.compactions, written.compaction_read), (0, 0));
        let compacted = write(&quiet, true);
        assert_eq!(compacted.compactions, 1);
        assert!(compacted.compaction_read > 0 && compacted.compaction_written > 0, "{compacted:?}");
    }

    #[test]
    fn write_stalls_are_counted_and_timed() {
        // Above one file at level 0 every write is delayed.
        let slow = [
            ("level0_file_num_compaction_trigger", "1"),
            ("level0_slowdown_writes_trigger", "1"),
            ("max_write_buffer_number", "2"),
        ];
        let metered = write(&slow, false);
        assert!(metered.stalls > 0 && metered.stalled > Duration::ZERO, "{metered:?}");
    }

    #[test]
    fn what_lookups_read_is_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("db");
        let store = Store::create(&path, &[("default", &OptionMap::default())], None).expect("opened");
        let writer = store.writer("default", &default_write_settings()).expect("a family");
        let mut batch = Batch::default();
        (0..1000_u32).for_each(|key| writer.put(&mut batch, &key.to_be_bytes(), &[7; 100]));
        writer.write(&batch).expect("room");
        store.flush("default").expect("room");
        drop(writer);
        drop(store);
        let reader = Reader::open_as_node(&path, 8 << 20).expect("opened");
        let look_up = |key: &[u8]| {
            let before = reader.counts().expect("counted");
            reader.size_of("default", key).expect("read");
            reader.counts().expect("counted").since(before)
        };
        let first = look_up(&500_u32.to_be_bytes());
        assert_eq!(
            (first.file_reads, first.value_bytes, first.cache_hits, first.cache_misses),
            (1, 100, 0, 1),
            "{first:?}"
        );
        assert!((100..8192).contains(&first.file_bytes), "one block: {first:?}");
        let again = look_up(&500_u32.to_be_bytes());
        assert_eq!(again, ReadCounts { value_bytes: 100, cache_hits: 1, ..ReadCounts::default() });
        assert_eq!(look_up(b"beyond").value_bytes, 0);
    }
}
