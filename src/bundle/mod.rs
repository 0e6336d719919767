//! Bundles: the finished SST files of an import, published so that any number of machines can make its database of them.
//!
//! ```text
//! <place>/latest               the id of the newest bundle, replaced in one step
//! <place>/<id>/bundle.json     what a bundle holds; its id is the BLAKE3 of these bytes; bundle.json.minisig signs it
//! <place>/files/<blake3>.sst   the files of all bundles, each under the BLAKE3 of its bytes
//! ```
//!
//! What shards of an import have made is described by parts, until all are there (`join`).
//!
//! Nothing but `latest` ever changes. What it leads to is written before it is: files, then `bundle.json`, then `latest`.

mod document;
mod during;
mod hashing;
mod join;
mod known;
mod part;
mod place;
mod problem;
mod publish;
mod reuse;
mod seed;
mod signature;
mod target;

pub(crate) use document::is_sum;
pub(crate) use during::{PublishedImport, import};
pub(crate) use join::{JoinOptions, join};
pub(crate) use publish::{BundleOptions, bundle};
pub(crate) use seed::{SeedOptions, seed};
pub(crate) use signature::{Signer, TrustedKey};
