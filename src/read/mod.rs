//! Commands that read a finished database.
//!
//! Databases are opened read-only. `BEDLOAD.json`, written by the import, names the key layout.

mod access;
pub(crate) mod advice;
pub mod block;
mod dag_json;
pub mod export;
mod failures;
pub mod get;
pub mod inspect;
mod keys;
mod missing;
mod snapshot;
pub mod stat;
mod steps;
pub mod verify;
mod visited;
pub mod walk;

pub(crate) use crate::blocks::dag::{header, links};

pub use access::{Location, Resources};
pub(crate) use keys::read_multihash;

pub use crate::report::record::ImportRecord;
