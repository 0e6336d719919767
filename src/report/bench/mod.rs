//! What a comparison of presets found: the runs as data, the figures taken from them, and one pure function for each
//! way to write them down.

mod compare;
mod csv;
mod figures;
mod html;
mod markdown;
mod metrics;
mod phrases;
mod results;
mod run;

pub use compare::{Circumstance, CompareReport, compare, compare_rows};
pub use csv::csv;
pub use figures::{Comparison, Decision, Figures, Pick, Ratio, Recommendation, Spread, VariantFigures, Verdict};
pub use html::html;
pub use markdown::markdown;
pub use metrics::{Better, METRICS, Metric, metric};
pub(crate) use phrases::some_of;
pub use phrases::{circumstances, columns_by_total, recommendation_lines, warnings};
pub use results::{BENCH_SCHEMA, BenchMachine, BenchReport, Setup, SnapshotInfo, VariantInfo};
pub use run::{
    COPY, CacheInfo, Failure, ImportFigures, LookupTimes, MemorySample, NodeFigures, Pressure, PressureKind,
    ProcessFigures, RUN_SCHEMA, ReadFigures, ReadStep, Reads, Run, ScanFigures, ScanKind,
};

#[cfg(test)]
pub(crate) mod tests;
