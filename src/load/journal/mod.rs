//! The journal of what is done and durable: the file `journal` in `<db>.partial`.

mod entry;
mod file;
mod resumed;

pub(in crate::load) use entry::{Checkpoint, DatabaseState, Entry, PartitionCheckpoint, RunDone, SourceDelta};
pub(in crate::load) use file::Journal;
#[cfg(test)]
pub(in crate::load) use resumed::ResumedCar;
pub(in crate::load) use resumed::ResumedState;
