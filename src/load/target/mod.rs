//! The places an import writes to: `<db>.partial` beside the database, and a directory in the work directory.

mod checks;
mod exchange;
mod lock;
mod paths;
mod work_files;

pub(in crate::load) use lock::owner_of;
pub(in crate::load) use paths::{SUMS, Target, existing_parent, parent};
pub(in crate::load) use work_files::COMPANIONS;
pub(in crate::load) use work_files::is_empty_dir;
