//! The line about a generated snapshot.

use crate::generate::Summary;
use crate::generate::log::LogSummary;
use crate::text::size::{grouped, human};

use crate::cli::render::numbers::{counted, throughput};

/// Content of a CAR.
pub fn car(summary: &Summary, seconds: f64) -> String {
    format!(
        "{}, {} ({})",
        counted(summary.blocks, "block", "blocks"),
        human(summary.bytes),
        throughput(summary.car_bytes, seconds)
    )
}

/// Content of a block log.
pub fn log(summary: &LogSummary, seconds: f64) -> String {
    format!(
        "blocks {} to {}, {}, {} ({}), head {}",
        grouped(summary.first.into()),
        grouped(summary.last.into()),
        counted(summary.transactions, "transaction", "transactions"),
        human(summary.bytes),
        throughput(summary.raw_bytes, seconds),
        summary.head
    )
}
