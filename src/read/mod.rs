//! Looking into a database that stands: whether it is sound, and what is in it.
//!
//! Databases are opened read-only here. What an import left in `BEDLOAD.json` says how to read their keys.

mod ranges;
mod record;
pub mod verify;

pub use record::ImportRecord;
