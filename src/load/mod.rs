//! From a snapshot to a database that stands under its name.
//!
//! [`import`] is the whole way: plan, read, build, ingest, settle, publish. Each step has a file here.

mod build;
mod import;
mod ingest;
mod options;
mod plan;
mod publish;
mod read;
mod target;

pub use import::{Outcome, import};
pub use options::{ImportOptions, PlanChoice};
pub use plan::Plan;

fn interrupted() -> crate::error::Error {
    crate::error::Error::Interrupted { hint: "nothing stands under the final name; run the same command again".into() }
}
