//! The line about a generated snapshot.

use crate::generate::Summary;
use crate::generate::log::LogSummary;
use crate::text::size::{grouped, human};

use crate::cli::render::numbers::{counted, throughput};

#[derive(serde::Serialize)]
#[serde(untagged)]
pub enum Generated {
    Car(Summary),
    Log(LogSummary),
}

pub fn text(generated: &Generated, seconds: f64) -> String {
    match generated {
        Generated::Car(Summary { blocks, bytes, car_bytes, .. }) => {
            let rate = throughput(*car_bytes, seconds);
            format!("{}, {} ({rate})", counted(*blocks, "block", "blocks"), human(*bytes))
        }
        Generated::Log(summary) => {
            let (first, last) = (grouped(summary.first.into()), grouped(summary.last.into()));
            let transactions = counted(summary.transactions, "transaction", "transactions");
            let (bytes, rate) = (human(summary.bytes), throughput(summary.raw_bytes, seconds));
            format!("blocks {first} to {last}, {transactions}, {bytes} ({rate}), head {}", summary.head)
        }
    }
}
