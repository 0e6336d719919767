//! Commands that read a finished database.
//!
//! Databases are opened read-only. `BEDLOAD.json`, written by the import, names the key layout.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
//! # let spec = bedload::testing::generate::Spec::new(bedload::testing::generate::Profile::Mainnet, 1 << 20);
//! # bedload::testing::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
//! # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
//! use bedload::{ExportOptions, StatOptions, VerifyOptions, progress::Silent};
//!
//! let verified = bedload::verify(&VerifyOptions::new(&db).against(snapshot), &Silent)?;
//! assert_eq!(verified.against.map(|against| against.same), Some(verified.records));
//! let exported = bedload::export(&ExportOptions::new(&db), &dir.path().join("back.forest.car.zst"), &Silent)?;
//! assert_eq!(exported.all_records, Some(true));
//! assert_eq!(bedload::stat(&StatOptions::new(&db), &Silent)?.column_families[0].entries, exported.blocks);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
pub(crate) mod advice;
pub mod block;
mod dag_json;
pub mod export;
pub mod get;
#[cfg(feature = "cli")]
pub mod inspect;
mod keys;
mod missing;
mod snapshot;
pub mod stat;
mod steps;
pub mod verify;
mod visited;
#[cfg(feature = "cli")]
pub mod walk;

pub(crate) use crate::blocks::dag::{header, links};

pub use access::{Location, Resources};
pub(crate) use keys::{read_multihash, whole_cid};
