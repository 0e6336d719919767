//! The line about a generated snapshot.

use crate::generate::Summary;
use crate::generate::log::LogSummary;
use crate::size::human;

use crate::cli::render::numbers::throughput;

/// What is in a CAR.
pub fn car(summary: &Summary, seconds: f64) -> String {
    format!("{} blocks, {} ({})", summary.blocks, human(summary.bytes), throughput(summary.car_bytes, seconds))
}

/// What is in a block log.
pub fn log(summary: &LogSummary, seconds: f64) -> String {
    format!(
        "blocks {} to {}, {} transactions, {} ({}), head {}",
        summary.first,
        summary.last,
        summary.transactions,
        human(summary.bytes),
        throughput(summary.raw_bytes, seconds),
        summary.head
    )
}
