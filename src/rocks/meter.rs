//! Counters of RocksDB's background work: flushes, compactions and write stalls.
//!
//! The numbers are RocksDB's statistics, which live as long as the options they were switched on in. They are updated per
//! batch and per block of a file, not per record, so they are cheap here. Event listeners would report as much, but do not
//! link against a RocksDB that was built without run-time type information.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rust_rocksdb::Options;
use rust_rocksdb::statistics::{Histogram, Ticker};

/// Counts over all openings of one database.
#[derive(Default)]
pub(crate) struct Meter(Mutex<Vec<Options>>);

/// The counters.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Metered {
    /// Memtables written to level 0.
    pub flushes: u64,
    /// Bytes of the files they became.
    pub flush_written: u64,
    /// Bytes written to the WAL.
    pub wal_written: u64,
    /// Compactions.
    pub compactions: u64,
    /// Bytes they read.
    pub compaction_read: u64,
    /// Bytes they wrote.
    pub compaction_written: u64,
    /// How often a write was stalled.
    pub stalls: u64,
    /// How long, in all.
    pub stalled: Duration,
}

impl Meter {
    /// Switches the statistics on in the options of a database that is about to be opened.
    pub(super) fn attach(options: &mut Options) {
        options.enable_statistics();
    }

    /// Adds the options that a database was opened with.
    pub(super) fn keep(&self, options: Options) {
        self.lock().push(options);
    }

    /// What has been counted so far.
    pub fn read(&self) -> Metered {
        let mut metered = Metered::default();
        for options in self.lock().iter() {
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

    fn lock(&self) -> MutexGuard<'_, Vec<Options>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocks::option_map::{Group, OptionMap};
    use crate::rocks::settings::{BottommostLevel, CompactionSettings};
    use crate::rocks::{Batch, Store, options};

    fn write(options: &[(&str, &str)], compact: bool) -> Metered {
        let dir = tempfile::tempdir().expect("a directory");
        let mut map = OptionMap::default();
        map.set(Group::Cf, "write_buffer_size", "65536");
        options.iter().for_each(|(name, value)| map.set(Group::Cf, *name, *value));
        let meter = Meter::default();
        let store = Store::create(dir.path(), &[("default", &map)], Some(&meter)).expect("made");
        let writer = store.writer("default", &options::default_write_settings()).expect("the family");
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
    fn writes_that_are_held_back_are_counted_and_timed() {
        // Above one file at level 0 every write is delayed.
        let slow = [
            ("level0_file_num_compaction_trigger", "1"),
            ("level0_slowdown_writes_trigger", "1"),
            ("max_write_buffer_number", "2"),
        ];
        let metered = write(&slow, false);
        assert!(metered.stalls > 0 && metered.stalled > Duration::ZERO, "{metered:?}");
    }
}
