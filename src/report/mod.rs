//! Results as data: every text, table and JSON is made from these.

mod import;
mod stat;
mod verify;
mod walk;

pub use import::{Blocks, ImportReport, MemtableReport, OptionRow, SCHEMA, SourceInfo, Versions};
pub use stat::{FamilyStat, OptionStat, STAT_SCHEMA, StatReport};
pub use verify::{Against, KeyFrom, Problem, ProblemKind, Problems, Recorded, VERIFY_SCHEMA, VerifyReport};
pub use walk::{MissingBlock, WALK_SCHEMA, WalkReport};
