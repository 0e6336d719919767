//! Looking into a database that stands: whether it is sound, and what is in it.
//!
//! Databases are opened read-only here. What an import left in `BEDLOAD.json` says how to read their keys.

mod content;
mod ranges;
mod record;
pub mod verify;

pub(crate) use content::{content, find_key};
pub use record::ImportRecord;
