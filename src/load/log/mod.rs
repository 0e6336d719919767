//! The way of a block log: no sort, because blocks come in the order of their keys.
//!
//! ```text
//!   ranges of the log ──► read, unpack, check links ──► SSTs of `default` and `block_ids`, one set a range
//!                                   └─ ids of transactions ──► partitions ──► sorted, SSTs of `transactions`
//! ```
//!
//! Ids of blocks begin with the block's number, so `block_ids` is in order as well. A range that is built is durable:
//! after a crash the others are built.
//!
//! With the memtable loader the records go into batches instead of files: `memtables`.

mod hand_over;
mod input;
mod making;
mod memtables;
mod output;
mod reading;
mod tell;
mod transactions;
mod way;

pub(super) use input::{detect, of_set, origin};
pub(super) use output::RangeDone;

use super::families::Families;
use super::import::Loaded;
use super::job::Job;
use crate::error::Result;
use crate::progress::Phase;
use crate::source::block_log::Log;

impl Job<'_> {
    /// Makes sure that a log is what a finished import has read to its end. Files that nobody has touched are.
    ///
    /// # Errors
    /// [`Error::State`](crate::error::Error::State) where it is something else, also where more follows.
    pub fn is_whole_log(&self, input: &Log) -> Result<()> {
        if !self.before.touched {
            return Ok(());
        }
        let way = way::Way::files(self, &Families::of_log(self))?;
        reading::Reading::new(self, input, &way).read().map(drop)
    }

    /// From the first block of a log to a database that is closed and ready, not yet under its name.
    pub fn load_log(&self, input: &Log) -> Result<Loaded> {
        let families = Families::of_log(self);
        let way = way::Way::files(self, &families)?;
        let done = reading::Reading::new(self, input, &way).run()?;
        if let Some(identity) = &self.before.identity {
            identity.still_holds(self.options)?;
        }
        self.progress.begin(Phase::Ingest, None);
        let levels = hand_over::hand_over(self, &families, &done)?;
        Ok(tell::tell(self, input, &done, levels))
    }
}
