//! Bundles: the finished SST files of an import, published so that any number of machines can build the database from them.
//!
//! ```text
//! <place>/latest               the id of the newest bundle, replaced in one step
//! <place>/<id>/bundle.json     the description; its id is the BLAKE3 of its bytes; bundle.json.minisig signs it
//! <place>/files/<blake3>.sst   the files of all bundles, each under the BLAKE3 of its bytes
//! ```
//!
//! Only `latest` ever changes; it is written last. Each shard of an import publishes a part; `join` makes a bundle of all parts.

mod description;
mod document;
mod hashing;
#[cfg(feature = "cli")]
mod join;
mod place;
mod problem;
mod publish;
mod publish_while_importing;
mod reuse;
mod seed;
mod signature;
mod target;
mod uploader;

pub(crate) use document::is_sum;
#[cfg(feature = "cli")]
pub(crate) use join::{JoinOptions, join};
pub use publish::{BundleOptions, bundle};
pub use publish_while_importing::{Publication, import_and_bundle};
pub use seed::{SeedOptions, seed};
pub use signature::{Signer, TrustedKey};
