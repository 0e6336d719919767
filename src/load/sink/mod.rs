//! Where records are written: SST files, and the memtables of an open database.

pub(super) mod batches;
pub(super) mod memtable;
pub(super) mod sst;
