//! The way of a block log: no sort, because blocks come in the order of their keys.
//!
//! ```text
//!   ranges of the log ──► read, unpack, check links ──► SSTs of `default` and `block_ids`, one set a range
//!                                   └─ ids of transactions ──► partitions ──► sorted, SSTs of `transactions`
//! ```
//!
//! Ids of blocks begin with the block's number, so `block_ids` is in order as well. A range that is built is durable:
//! after a crash the others are built.

mod families;
mod hand_over;
mod input;
mod output;
mod ranges;
mod tell;
mod transactions;

pub(crate) use families::{BLOCK_IDS, TRANSACTIONS};
pub(super) use input::{detect, of_set, origin};
pub(super) use output::RangeDone;

use super::import::Loaded;
use super::job::Job;
use crate::error::Result;
use crate::progress::Phase;
use crate::source::block_log::Log;

impl Job<'_> {
    /// From the first block of a log to a database that is closed and ready, not yet under its name.
    pub fn load_log(&self, input: &Log) -> Result<Loaded> {
        let families = families::Families::new(self);
        let done = ranges::Reading::new(self, &families, input)?.run()?;
        if let Some(identity) = &self.before.identity {
            identity.still_holds(self.options)?;
        }
        self.progress.begin(Phase::Ingest, None);
        let levels = hand_over::hand_over(self, &families, &done)?;
        Ok(tell::tell(self, input, &done, levels))
    }
}
