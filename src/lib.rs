//! bedload imports a blockchain snapshot into RocksDB in one fast, verified, crash-safe pass: it sorts the blocks of a CAR
//! by key once, builds the final SST files and lets RocksDB ingest them at the last level.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
//! # let spec = bedload::generate::Spec::new(bedload::generate::Profile::Mainnet, 1 << 20);
//! # bedload::generate::write(&spec, &mut std::fs::File::create(&snapshot)?)?;
//! use bedload::progress::Silent;
//! use bedload::{ImportOptions, Outcome};
//!
//! let options = ImportOptions::new(&snapshot, &db);
//! let Outcome::Imported(report) = bedload::import(&options, &Silent)? else { unreachable!("only with dry_run") };
//! println!("{} blocks, digest {}", report.blocks.written, report.digest);
//!
//! // Every file, every value against its key, the whole against the record of the import.
//! let verified = bedload::verify_db(&bedload::VerifyOptions::new(&db), &Silent)?;
//! assert!(verified.sound);
//! assert_eq!(verified.digest, Some(report.digest));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The database appears under its name only when it is complete; after a crash the same call goes on. Progress comes
//! through [`progress::Observer`], what happened is the [`report::ImportReport`], what went wrong an [`Error`] with a
//! hint and an exit code. Without the `cli` feature nothing here knows a terminal.
//!
//! Limits and signal handlers of the process are the program's: it may call [`raise_open_files`], and [`handle_sigbus`] so
//! that files are mapped instead of read.
//!
//! | what | where |
//! |---|---|
//! | from a snapshot to a database | [`import`], [`ImportOptions`], [`preset`] |
//! | what is in a snapshot | [`read::inspect`] |
//! | is a database sound, and the same as its source? | [`verify_db`] |
//! | follow links, single blocks, levels and options | [`read::walk`], [`read::get`], [`read::stat`] |
//! | back to a snapshot | [`read::export`] |
//! | make one up | [`generate`] |
//!
//! A whole node that seeds itself at its first start and shows its own progress: `examples/preseed.rs`.

pub mod bench;
#[doc(hidden)]
pub mod bench_support;
mod cbor;
pub mod chain;
pub mod doctor;
pub mod error;
mod escape;
mod external_sort;
mod failpoint;
#[doc(hidden)]
pub mod fuzzing;
pub mod generate;
pub mod hash;
pub mod load;
pub mod os;
mod parallel;
pub mod preset;
pub mod progress;
pub mod read;
pub mod report;
pub mod rocks;
mod schema;
pub mod size;
pub mod sort;
pub mod source;

pub use error::{Error, Exit, Result};
pub use load::{ImportOptions, Outcome, import};
pub use os::mmap::handle_sigbus;
pub use os::resources::raise_open_files;
pub use read::verify::{VerifyOptions, verify as verify_db};
