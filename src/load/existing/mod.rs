//! An existing database that an import adds to or replaces.

mod checkpoint;
mod checkpoint_files;
mod layout;
mod lock;
mod records;

pub(in crate::load) use checkpoint_files::opens;
pub(in crate::load) use layout::{check_layout, with_layout};
pub(in crate::load) use lock::Existing;
pub(in crate::load) use records::ExistingRecords;
