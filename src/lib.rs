//! bedload imports a blockchain snapshot into RocksDB in one fast, verified, crash-safe pass: it sorts the blocks of a CAR
//! by key once, builds the final SST files and lets RocksDB ingest them at the last level.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
//! # use bedload::testing::generate::{Profile, Spec, write};
//! # write(&Spec::new(Profile::Mainnet, 1 << 20), &mut std::fs::File::create(&snapshot)?)?;
//! use bedload::progress::Silent;
//! use bedload::{ImportOptions, VerifyOptions};
//!
//! let options = ImportOptions::new(&snapshot, &db).memory(1 << 30).preset("ingest-compat");
//! let report = bedload::import(&options, &Silent)?;
//! println!("{} blocks, digest {}", report.blocks.written, report.digest);
//!
//! // Verifies the files, the hash of every block, and the digest that the import recorded.
//! let verified = bedload::verify(&VerifyOptions::new(&db), &Silent)?;
//! assert!(verified.valid);
//! assert_eq!(verified.digest, Some(report.digest));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The database appears under its name only when it is complete. After a crash the same call resumes. [`import()`] lists the
//! places that it writes to.
//!
//! | task | function | options | result |
//! |---|---|---|---|
//! | import a snapshot | [`import()`] | [`ImportOptions`], [`LogOptions`], [`Overrides`] | [`report::ImportReport`] |
//! | plan an import | [`plan()`] | as above | [`report::Plan`] |
//! | delete unfinished work | [`clean()`] | a path | [`report::CleanReport`] |
//! | verify a database, alone or against its source | [`verify()`] | [`VerifyOptions`] | [`report::VerifyReport`] |
//! | read levels, sizes, options and the import report | [`stat()`] | [`StatOptions`] | [`report::StatReport`] |
//! | look up blocks by CID or key; by number or id | [`Lookup`], [`BlockLookup`] | [`Location`] | [`CarBlock`], [`FoundBlock`] |
//! | write a snapshot from a database | [`export()`], [`export_to`] | [`ExportOptions`] | [`report::ExportReport`] |
//! | build a database from a bundle | [`seed()`] | [`SeedOptions`], [`TrustedKey`] | [`report::ImportReport`] |
//! | publish a database as a bundle | [`bundle()`] | [`BundleOptions`], [`Signer`] | [`report::BundleReport`] |
//! | publish a snapshot as a bundle | [`import_and_bundle()`] | [`ImportOptions`], [`Publication`] | [`report::ImportReport`] |
//!
//! Options have a constructor for the required values and a method for each other value. An
//! [`Observer`](progress::Observer) receives the progress; a closure that takes events is an observer. A
//! [`CancellationToken`](progress::CancellationToken) in the options stops the call from another thread. A program matches the
//! variant and the kind of an [`Error`].
//!
//! The library does not print, and changes no limits or signal handlers, except in [`raise_open_files`] and [`handle_sigbus`].
//!
//! `examples/node.rs` is a node that seeds itself at its first start. `examples/tokio.rs` imports within an asynchronous node.
//! The other commands, such as `bedload inspect` and `bedload walk`, exist only in the program; `--json` prints their reports.

// The command line uses more of some modules than the library does.
#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]
#![cfg_attr(feature = "testing", allow(missing_docs))]

#[cfg(feature = "cli")]
mod bench;
mod blocks;
mod bundle;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod doctor;
mod error;
mod external_sort;
mod failpoint;
#[cfg(any(feature = "cli", feature = "testing"))]
mod generate;
mod hash;
mod load;
mod os;
mod parallel;
mod preset;
pub mod progress;
mod read;
mod records;
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
pub use bundle::{BundleOptions, Publication, SeedOptions, Signer, TrustedKey, bundle, import_and_bundle, seed};
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use cli::main;
pub(crate) use error::Exit;
#[doc(hidden)]
pub use error::Hint;
pub use error::{Cause, Error, InputKind, ParseError, Result, StateKind};
pub use hash::content_digest::ContentDigest;
pub use load::{
    Duplicates, F3Data, Format as SourceFormat, ImportOptions, Links, LogOptions, PlanChoice, Unfinished, clean,
    import, plan,
};
pub use os::mmap::handle_sigbus;
pub use os::resources::raise_open_files;
pub use preset::Overrides;
pub use read::block::{BlockLookup, FoundBlock};
pub use read::export::{ExportFormat, ExportOptions, Selection, export, export_to};
pub use read::get::{CarBlock, Lookup, Wanted, to_json};
pub use read::stat::{StatOptions, stat};
pub use read::verify::VerifyOptions;
pub use read::{Location, Resources};
pub use records::{SortedWriter, Sorter, verify};
/// The crate `rust-rocksdb`, version 0.54, which links RocksDB. A program can link RocksDB only once: it uses this re-export, or
/// requires the same version.
///
/// Opens a database with its recorded options and all column families:
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
/// # let spec = bedload::testing::generate::Spec::new(bedload::testing::generate::Profile::Mainnet, 1 << 20);
/// # bedload::testing::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
/// # bedload::import(&bedload::ImportOptions::new(&snapshot, &db), &bedload::progress::Silent)?;
/// use bedload::rust_rocksdb::{Cache, DB, Env, Options};
///
/// let (mut options, families) = Options::load_latest(&db, Env::new()?, true, Cache::new_lru_cache(64 << 20))?;
/// options.set_max_open_files(900);
/// let db = DB::open_cf_descriptors(&options, &db, families)?;
/// # assert!(db.cf_handle("default").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Set your own `max_open_files`: the recorded value comes from the limit of the importing process. RocksDB lowers the value to
/// the limit of the process that opens the database, which leaves no descriptors for other files, and never raises it.
#[doc(no_inline)]
pub use rust_rocksdb;
pub use sort::key::KeyLayout;
pub use source::block_log::TornTail;
pub use source::car::{NullPadding, RawCid};
pub use source::remote::NetworkOptions;
