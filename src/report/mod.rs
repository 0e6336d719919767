//! Results as data: every text, table and JSON is made from these.

mod import;

pub use import::{Blocks, ImportReport, OptionRow, SCHEMA, SourceInfo, Versions};
