//! bedload carries a blockchain snapshot into RocksDB in one fast, checked, unbreakable pass.

pub mod error;
pub mod generate;
pub mod source;
pub mod verify;

pub use error::{Error, Exit, Result};
