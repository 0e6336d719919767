//! Results as data: every text, table and JSON is made from these. The version in a schema changes if a field is removed or changes
//! its meaning.

#[cfg(feature = "cli")]
pub(crate) mod bench;
mod bundle;
mod clean;
mod doctor;
mod export;
mod import;
#[cfg(feature = "cli")]
mod inspect;
mod log;
pub(crate) mod record;
mod stat;
pub(crate) mod statistics;
mod verify;
#[cfg(feature = "cli")]
mod walk;

pub use crate::preset::OptionRow;
pub(crate) use crate::progress::plan::{
    LogPlan, MemtablePlan, Method, PartitionPlan, RecordsPlan, SortPlan, fits, sst_target,
};
pub use crate::progress::plan::{Plan, Space};
pub(crate) use crate::rocks::FamilyFacts;
pub use crate::rocks::Level;
pub use crate::source::input::SumFunction;
pub(crate) use crate::text::escape::{shell_word, shown_json};
pub use crate::text::escape::{shown, shown_in_line};

pub(crate) use bundle::BUNDLED_SCHEMA;
pub use bundle::BundleReport;
pub(crate) use clean::CLEAN_SCHEMA;
pub use clean::{CleanReport, Leftover};
pub use doctor::Advice;
pub(crate) use doctor::{
    DOCTOR_SCHEMA, DiskSpeed, DoctorReport, FileSystemInfo, Forecast, HashRate, Latency, MachineInfo, Prediction,
};
pub(crate) use export::EXPORT_SCHEMA;
pub use export::{ExportReport, ExportedLog, MissingBlock};
pub use import::{
    BlockCounts, ChecksumInfo, F3Report, Head, ImportReport, LinkReport, MemtableReport, RecordedFile, RemoteInfo,
    SourceInfo, Versions,
};
pub(crate) use import::{BundlePart, NewestSnapshot, SCHEMA, SampleReport, ShardReport, rfc3339};
#[cfg(feature = "cli")]
pub(crate) use inspect::{
    BadBlock, CodeCount, DatabaseInfo, HeadInfo, INSPECT_SCHEMA, InspectReport, LogInfo, MetadataInfo, RootInfo,
    SizeClass, V2Info, ZstdInfo,
};
pub(crate) use log::not_covered;
pub use log::{BlockRef, FamilyReport, IndexUse, LogLayout, LogReport, LogVerified, Packings};
pub(crate) use stat::STAT_SCHEMA;
pub use stat::{FamilyStat, OptionStat, StatReport};
pub(crate) use verify::VERIFY_SCHEMA;
pub(crate) use verify::VerifyVerdict;
pub use verify::{Against, KeyFrom, ProblemKind, Problems, Recorded, VerifiedLog, VerifyProblem, VerifyReport};
#[cfg(feature = "cli")]
pub(crate) use walk::{WALK_SCHEMA, WalkReport};
