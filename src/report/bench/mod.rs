//! The report of a comparison of presets: runs, figures, and one pure function for each output format.

mod figures;
mod markdown;
mod metrics;
mod phrases;
mod results;
mod run;

pub use figures::{BenchFigures, Decision, Pick, Recommendation, VariantFigures, VariantRatios};
pub use markdown::markdown;
pub use metrics::{Better, METRICS, Metric, metric};
pub use phrases::{FigureTable, circumstances, figure_table, recommendation_lines, warnings};
pub(crate) use phrases::{some_of, total_key};
pub use results::{BENCH_SCHEMA, BenchMachine, BenchReport, Setup, SnapshotInfo, Variant};
pub use run::{
    BenchRun, COPY, CacheInfo, ImportFigures, LookupTimes, ProcessFigures, RUN_SCHEMA, ReadFigures, Reads, RunFailure,
    ScanFigures, ScanKind,
};

#[cfg(test)]
pub(crate) mod tests;
