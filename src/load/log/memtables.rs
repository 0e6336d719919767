//! A block log through memtables: batches in the order of the log, then the final compaction of each family.
//!
//! A node writes like this. All that reads and checks is the same as with files; only where records go is not.

use std::sync::atomic::Ordering;

use super::super::families::Families;
use super::super::import::Loaded;
use super::super::job::Job;
use super::super::journal::{Entry, Mark};
use super::super::memtable::{self, Settled};
use super::hand_over::handed;
use super::output::FamilyDone;
use super::reading::Reading;
use super::tell;
use super::way::Way;
use crate::error::Result;
use crate::failpoint;
use crate::progress::Phase;
use crate::report::FamilyReport;
use crate::rocks::Meter;
use crate::schema::{BLOCK_IDS, NUMBER, PLACE, TRANSACTIONS};
use crate::source::block_log::Log;

impl Job<'_> {
    /// From the first block of a log to a database that is closed and ready, not yet under its name.
    pub fn load_log_through_memtables(&self, input: &Log) -> Result<Loaded> {
        self.write_log(input).map_err(|error| self.damaged(error))
    }

    fn write_log(&self, input: &Log) -> Result<Loaded> {
        let families = Families::of_log(self).written_to();
        let meter = Meter::default();
        let has_begun = !self.before.ranges.is_empty() || self.before.read_done.is_some();
        let store = self.open_staging(&families, has_begun, &meter)?;
        let way = Way::batches(self, &store, &families)?;
        let done = self.watched(&store, None, || Reading::new(self, input, &way).run())?;
        let batches = match &way {
            Way::Batches(writing) => writing.batches.load(Ordering::Relaxed),
            Way::Files(_) => 0,
        };
        drop(way);
        if let Some(identity) = &self.before.identity {
            identity.still_holds(self.options)?;
        }
        if self.before.read_done.is_none() {
            self.journal.append(&Entry::ReadDone { mark: Mark::default(), extents: Vec::new(), padding: 0 })?;
        }
        failpoint::reach("read-done");
        let settled = self.settle(store, &families, &meter)?;
        let payload = done.ranges.iter().map(|range| range.payload).sum();
        let reports = self.check_families(&settled, handed(&done, &families), payload)?;
        let (memtable, rocksdb_written) = memtable::tell(&meter, batches, settled.level0_files);
        let loaded = tell::tell(self, input, &done, reports);
        Ok(Loaded { memtable: Some(memtable), rocksdb_written: Some(rocksdb_written), ..loaded })
    }

    /// Counts and digests what is in each family, and compares it with what was given to it.
    fn check_families(
        &self,
        settled: &Settled,
        handed: Vec<(&str, FamilyDone)>,
        payload: u64,
    ) -> Result<Vec<FamilyReport>> {
        let Settled { reader, files, .. } = settled;
        let value = |name: &str| match name {
            BLOCK_IDS => NUMBER as u64,
            TRANSACTIONS => PLACE as u64,
            _ => 0,
        };
        let found_by: u64 = handed.iter().map(|(name, done)| done.tally.records * value(name)).sum();
        self.progress.begin(Phase::Check, Some(payload + found_by));
        let check = |(name, done): (&str, FamilyDone)| {
            let (found, _) = self.scan(reader, files, name).content()?;
            self.is_as_written(&found, done.tally.records, done.tally.digest)?;
            Ok(done.report(name, settled.levels(name)))
        };
        handed.into_iter().map(check).collect()
    }
}
