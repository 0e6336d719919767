//! Records of other programs: databases that a program makes of its own records, and the comparison of a database with streams.

mod sorter;
mod verify;

pub use sorter::{SortedWriter, Sorter};
pub use verify::verify;
