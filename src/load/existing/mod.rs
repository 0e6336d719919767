//! An existing database that an import adds to or replaces.

mod backup;
mod backup_files;
mod layout;
mod lock;
mod records;

pub(in crate::load) use backup_files::opens;
pub(in crate::load) use layout::{check_layout, with_layout};
pub(in crate::load) use lock::{Existing, ReadLock};
pub(in crate::load) use records::ExistingRecords;
