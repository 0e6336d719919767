//! Results as data: every text, table and JSON is made from these.

pub mod bench;
mod doctor;
mod export;
mod import;
mod inspect;
mod log;
mod plan;
pub(crate) mod record;

mod stat;
pub(crate) mod statistics;
pub mod tune;
mod verify;
mod walk;

pub use crate::escape::{shown, shown_in_line, shown_json};
pub use doctor::{
    Advice, DOCTOR_SCHEMA, DiskSpeed, DoctorReport, FileSystemInfo, Forecast, Latency, MachineInfo, Prediction, Rate,
};
pub use export::{EXPORT_SCHEMA, ExportReport, ExportedLog};
pub use import::{Blocks, ImportReport, MemtableReport, OptionRow, RecordedFile, SCHEMA, SourceInfo, Versions};
pub use inspect::{
    BadBlock, CodeCount, HeadInfo, INSPECT_SCHEMA, InspectReport, Metadata, RootInfo, SizeClass, V2Info, ZstdInfo,
};
pub(crate) use log::not_covered;
pub use log::{BlockRef, FamilyReport, IndexUse, LogInfo, LogLayout, LogReport, LogVerified, Packings, Speed};
pub(crate) use plan::sst_target;
pub use plan::{LogPlan, MemtablePlan, Method, PartitionPlan, Plan, SortPlan, Space};
pub use stat::{FamilyStat, OptionStat, STAT_SCHEMA, StatReport};
pub use verify::{
    Against, KeyFrom, Problem, ProblemKind, Problems, Recorded, VERIFY_SCHEMA, VerifiedLog, VerifyReport,
};
pub use walk::{MissingBlock, WALK_SCHEMA, WalkReport};
