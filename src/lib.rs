//! bedload carries a blockchain snapshot into RocksDB in one fast, checked, unbreakable pass.

#[doc(hidden)]
pub mod bench_support;
mod buffer;
pub mod digest;
pub mod error;
#[doc(hidden)]
pub mod fuzzing;
pub mod generate;
pub mod load;
mod mapped;
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
