//! bedload carries a blockchain snapshot into RocksDB in one fast, checked, unbreakable pass: it sorts the blocks of a
//! CAR by key once, builds the final SST files and lets RocksDB take them over at the last level.
//!
//! ```no_run
//! let options = bedload::ImportOptions::new("snapshot.car.zst", "/data/chain");
//! match bedload::import(&options, &bedload::progress::Silent)? {
//!     bedload::Outcome::Imported(report) => println!("{} blocks, digest {}", report.blocks.written, report.digest),
//!     bedload::Outcome::Planned(_) => unreachable!("only with dry_run"),
//! }
//! # Ok::<(), bedload::Error>(())
//! ```
//!
//! The database appears under its name only when it is complete; after a crash the same call goes on. Progress comes
//! through [`progress::Observer`], what happened is the [`report::ImportReport`], what went wrong an [`Error`] with a
//! hint and an exit code. Without the `cli` feature nothing here knows a terminal.

pub mod bench;
#[doc(hidden)]
pub mod bench_support;
mod buffer;
pub mod chain;
pub mod digest;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod generate;
pub mod load;
mod mapped;
pub mod output;
pub mod preset;
pub mod progress;
pub mod read;
pub mod report;
pub mod rocks;
pub mod size;
pub mod sort;
pub mod source;
pub mod sys;
pub mod verify;

pub use error::{Error, Exit, Result};
pub use load::{ImportOptions, Outcome, import};
pub use read::verify::{VerifyOptions, verify as verify_db};
