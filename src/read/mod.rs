//! Commands that read a finished database.
//!
//! Databases are opened read-only. `BEDLOAD.json`, written by the import, names the key layout.

mod access;
pub(crate) mod advice;
pub mod block;
mod dag_json;
pub mod export;
pub mod get;
pub mod inspect;
mod missing;
mod queue;
mod snapshot;
pub mod stat;
pub mod verify;
mod visited;
pub mod walk;

use data_encoding::HEXLOWER;

pub(crate) use crate::blocks::dag::{header, links};

pub use access::{Location, Resources};

use crate::sort::key::KeyLayout;
use crate::source::car::RawCid;

/// Formats a key as text.
fn key_text(layout: KeyLayout, key: &[u8]) -> String {
    let cid = if layout == KeyLayout::Cid { RawCid::from_bytes(key).ok() } else { None };
    cid.map_or_else(|| HEXLOWER.encode(key), |cid| cid.to_string())
}

/// Returns code and digest of bytes that are one complete multihash.
pub(crate) fn read_multihash(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (code, rest) = unsigned_varint::decode::u64(bytes).ok()?;
    let (length, digest) = unsigned_varint::decode::u64(rest).ok()?;
    (length == digest.len() as u64).then_some((code, digest))
}
