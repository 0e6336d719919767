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
//! // Every file, every value against its key, the whole against the record of the import.
//! let verified = bedload::verify(&VerifyOptions::new(&db), &Silent)?;
//! assert!(verified.valid);
//! assert_eq!(verified.digest, Some(report.digest));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The database appears under its name only when it is complete; after a crash the same call resumes. [`import()`] lists the
//! places that it writes to.
//!
//! | what | function | options | result |
//! |---|---|---|---|
//! | a snapshot becomes a database | [`import()`] | [`ImportOptions`], [`LogOptions`], [`Overrides`] | [`report::ImportReport`] |
//! | how an import would proceed | [`plan()`] | as above | [`report::Plan`] |
//! | unfinished work is deleted | [`clean()`] | a path | [`report::CleanReport`] |
//! | whether a database is intact and equal to its source | [`verify()`] | [`VerifyOptions`] | [`report::VerifyReport`] |
//! | levels, sizes, options, the record of the import | [`stat()`] | [`StatOptions`] | [`report::StatReport`] |
//! | single blocks by CID or key; by number or id | [`Lookup`], [`BlockLookup`] | [`Location`] | [`CarBlock`], [`FoundBlock`] |
//! | a database becomes a snapshot | [`export()`], [`export_to`] | [`ExportOptions`] | [`report::ExportReport`] |
//! | a bundle becomes a database | [`seed()`] | [`SeedOptions`], [`TrustedKey`] | [`report::ImportReport`] |
//! | a database becomes a bundle | [`bundle()`] | [`BundleOptions`], [`Signer`] | [`report::BundleReport`] |
//! | a snapshot becomes a bundle | [`import_and_bundle()`] | [`ImportOptions`], [`Publication`] | [`report::ImportReport`] |
//!
//! Options have a constructor for what must be given and a method for everything else. An [`Observer`](progress::Observer), or
//! a closure that takes events, receives the progress; a [`CancellationToken`](progress::CancellationToken) in the options ends the work from another
//! thread. An [`Error`] names the object and has a cause; a program matches its variant and kind.
//!
//! Limits and signal handlers belong to the program. It may call [`raise_open_files`], and [`handle_sigbus`] so that files
//! are mapped instead of read. Without the `cli` feature the library has no code for terminals and does not print.
//!
//! A node that seeds itself at its first start: `examples/node.rs`; an import within an asynchronous node: `examples/tokio.rs`.
//! Comparing presets is a command, `bedload bench`; its results are JSON.

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
    F3Data, Format as SourceFormat, ImportOptions, Links, LogOptions, PlanChoice, Unfinished, clean, import, plan,
};
pub use os::mmap::handle_sigbus;
pub use os::resources::raise_open_files;
pub use preset::Overrides;
pub use read::block::{BlockLookup, FoundBlock};
pub use read::export::{ExportFormat, ExportOptions, Selection, export, export_to};
pub use read::get::{CarBlock, Lookup, Wanted, to_json};
pub use read::stat::{StatOptions, stat};
pub use read::verify::{VerifyOptions, verify};
pub use read::{Location, Resources};
/// The binding of RocksDB that this library uses. A program links RocksDB once, so it opens databases with this crate, which it
/// may also require itself, as version 0.54.
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
/// The import derives the recorded `max_open_files` from the limit of open files of its own process. RocksDB lowers it to the
/// limit of the process that opens the database, which then has no descriptors left, and does not raise it.
#[doc(no_inline)]
pub use rust_rocksdb;
pub use sort::key::KeyLayout;
pub use source::block_log::TornTail;
pub use source::car::{NullPadding, RawCid};
pub use source::remote::NetworkOptions;
