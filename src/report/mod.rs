//! Results as data: every text, table and JSON is made from these.

mod import;
mod verify;
mod walk;

pub use import::{Blocks, ImportReport, MemtableReport, OptionRow, SCHEMA, SourceInfo, Versions};
pub use verify::{Against, KeyFrom, Problem, ProblemKind, Problems, Recorded, VERIFY_SCHEMA, VerifyReport};
pub use walk::{MissingBlock, WALK_SCHEMA, WalkReport};
