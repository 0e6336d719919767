//! bedload imports a blockchain snapshot into RocksDB in one fast, verified, crash-safe pass: it sorts the blocks of a CAR
//! by key once, builds the final SST files and lets RocksDB ingest them at the last level.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
//! # use bedload::testing::generate::{Profile, Spec, write};
//! # write(&Spec::new(Profile::Mainnet, 1 << 20), &mut std::fs::File::create(&snapshot)?)?;
//! use bedload::progress::Silent;
//! use bedload::{ImportOptions, Outcome, VerifyOptions};
//!
//! let options = ImportOptions::new(&snapshot, &db).memory(1u64 << 30).preset("ingest-compat");
//! let Outcome::Imported(report) = bedload::import(&options, &Silent)? else { unreachable!("only with dry_run") };
//! println!("{} blocks, digest {}", report.blocks.written, report.digest);
//!
//! // Every file, every value against its key, the whole against the record of the import.
//! let verified = bedload::verify(&VerifyOptions::new(&db), &Silent)?;
//! assert!(verified.valid);
//! assert_eq!(verified.digest, Some(report.digest));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The database appears under its name only when it is complete; after a crash the same call resumes. An import writes
//! nothing outside the database, `<db>.partial` and the work directory.
//!
//! | what | function | options | result |
//! |---|---|---|---|
//! | a snapshot becomes a database | [`import()`] | [`ImportOptions`], [`LogOptions`], [`Overrides`] | [`report::ImportReport`] |
//! | what a snapshot holds | [`inspect()`] | [`InspectOptions`] | [`report::InspectReport`] |
//! | whether a database is intact and equal to its source | [`verify()`] | [`VerifyOptions`] | [`report::VerifyReport`] |
//! | follow the links from the roots | [`walk()`] | [`WalkOptions`] | [`report::WalkReport`] |
//! | levels, sizes, options, the record of the import | [`stat()`] | [`StatOptions`] | [`report::StatReport`] |
//! | single blocks by CID or key; by number or id | [`Lookup`], [`BlockLookup`] | [`Location`] | [`CarBlock`], [`FoundBlock`] |
//! | a database becomes a snapshot | [`export()`], [`export_to`] | [`ExportOptions`] | [`report::ExportReport`] |
//!
//! Options have a constructor for what must be given and a method for everything else. An [`Observer`](progress::Observer)
//! receives the progress; a [`CancellationToken`](progress::CancellationToken) in the options ends the work from another
//! thread. An [`Error`] names the object and has a cause; a program matches its variant and kind.
//!
//! Limits and signal handlers belong to the program. It may call [`raise_open_files`], and [`handle_sigbus`] so that files
//! are mapped instead of read. Without the `cli` feature the library has no code for terminals and does not print.
//!
//! A node that seeds itself at its first start: `examples/preseed.rs`; progress in the log of a running node:
//! `examples/progress.rs`. Comparing presets is a command, `bedload bench`; its results are JSON.

#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]
#![cfg_attr(feature = "testing", allow(missing_docs))]

#[cfg(feature = "cli")]
mod bench;
mod blocks;
#[cfg(feature = "cli")]
mod bundle;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod doctor;
mod error;
mod external_sort;
mod failpoint;
mod generate;
mod hash;
mod load;
mod os;
mod parallel;
mod preset;
pub mod progress;
mod read;
pub mod report;
mod rocks;
mod schema;
#[cfg(test)]
#[path = "../tests/common/skipped.rs"]
mod skipped;
mod sort;
mod source;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod text;

pub use blocks::chain::{Family, Header as BlockHeader, Id, Name as AccountName};
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use cli::main;
pub(crate) use error::Exit;
#[doc(hidden)]
pub use error::Hint;
pub use error::{Cause, Error, InputKind, ParseError, Result, StateKind};
pub use hash::content_digest::ContentDigest;
pub use load::{F3Data, Format as SourceFormat, ImportOptions, Links, LogOptions, Outcome, PlanChoice, import};
pub use os::mmap::handle_sigbus;
pub use os::resources::raise_open_files;
pub use preset::Overrides;
pub use read::block::{BlockLookup, FoundBlock};
pub use read::export::{ExportFormat, ExportOptions, Selection, export, export_to};
pub use read::get::{CarBlock, Lookup, Wanted, to_json};
pub use read::inspect::{InspectOptions, inspect};
pub use read::stat::{StatOptions, stat};
pub use read::verify::{VerifyOptions, verify};
pub use read::walk::{WalkOptions, walk};
pub use read::{Location, Resources};
pub use sort::key::KeyLayout;
pub use source::block_log::TornTail;
pub use source::car::{NullPadding, RawCid};
pub use source::remote::NetworkOptions;
