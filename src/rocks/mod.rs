//! The only module that uses the crate `rust_rocksdb`.

mod count;
pub(crate) mod key_ranges;
mod log_format;
mod meter;
pub mod option_map;
pub mod options;
pub mod options_file;
mod reader;
pub mod rehearsal;
pub mod releases;
mod scratch;
pub mod settings;
mod sst;
mod store;
mod table_check;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub(crate) use count::{FamilyScan, Visit, find_key};
pub(crate) use log_format::is_database_file;
pub(crate) use meter::Meter;
pub use meter::ReadCounts;
pub(crate) use reader::{DataFile, FileTotals, Reader, ReaderOptions, Scan, no_database};
pub(crate) use sst::{SstOptions, SstWriter};
pub use store::Level;
pub(crate) use store::{Store, levels_of, options_of};
pub(crate) use table_check::TableCheck;
pub(crate) use writer::{Batch, Writer};

/// The version of the bundled RocksDB.
pub const VERSION: &str = "11.12.0";

use std::path::Path;

use rust_rocksdb::properties::PropName;
use rust_rocksdb::{ColumnFamily, DB};

use crate::error::{Error, Result};
use crate::parallel;

fn wrap(action: &'static str, path: &Path) -> impl FnOnce(rust_rocksdb::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Rocks { action, path, message: error.into_string() }
}

/// A number that RocksDB knows about a column family; 0 if it does not know it.
fn number(db: &DB, family: &ColumnFamily, name: &PropName, path: &Path) -> Result<u64> {
    Ok(db.property_int_value_cf(family, name).map_err(wrap("inspect", path))?.unwrap_or_default())
}

/// The sums of the properties of a column family's files:
/// `# data blocks=9; # entries=99; ..; index block size (user-key? 1, delta-value? 1)=1234; filter block size=5678; ..`
fn table_properties(db: &DB, family: &ColumnFamily, path: &Path) -> Result<String> {
    let text = db.property_value_cf(family, "rocksdb.aggregated-table-properties").map_err(wrap("inspect", path))?;
    Ok(text.unwrap_or_default())
}

fn table_property(text: &str, name: &str) -> Option<u64> {
    text.split(';').map(str::trim).find(|field| field.starts_with(name))?.rsplit_once('=')?.1.trim().parse().ok()
}

/// Opens a database at `path` by `open`, in which RocksDB starts threads.
fn open_db(path: &Path, open: impl FnOnce() -> Result<DB, rust_rocksdb::Error> + Send) -> Result<DB> {
    parallel::without_handler(open)?.map_err(wrap("open", path))
}
