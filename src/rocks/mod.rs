//! The only module that uses the crate `rust_rocksdb`.

mod checks;
mod count;
mod facts;
pub(crate) mod key_ranges;
mod log_format;
mod merge_operator;
mod meter;
pub mod option_map;
pub mod options;
pub mod options_file;
mod private_copy;
mod reader;
pub mod rehearsal;
pub mod releases;
mod scan_memory;
mod scratch;
pub mod settings;
mod sst;
mod store;
mod table_check;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub(crate) use checks::{is_database, no_database};
pub(crate) use count::{FamilyScan, Visit, find_key};
pub(crate) use facts::{FamilyFacts, OPEN_ONCE, check_newest, declared_facts, family_facts, find_unkept, open_to_copy};
pub(crate) use log_format::{check_logs, is_content_file, is_database_file, wal_bytes};
pub(crate) use meter::Meter;
pub use meter::ReadCounts;
pub use option_map::{Group, OptionMap, field_of, fields_of};
pub(crate) use options_file::MAX_FILE;
pub use options_file::OptionsFile;
pub(crate) use private_copy::flush_in_copy;
pub(crate) use reader::{DataFile, FileTotals, Reader, ReaderOptions, Scan, TableSize, column_families};
pub(crate) use scan_memory::ScanMemory;
pub(crate) use scratch::sweep as sweep_scratch;
pub use settings::{BottommostLevel, CompactionSettings, IngestSettings, WriteSettings};
pub(crate) use sst::{SstOptions, SstWriter};
pub use store::Level;
pub(crate) use store::{Store, count_merged_files, levels_of, options_of, options_while_importing};
pub(crate) use table_check::TableCheck;
pub(crate) use writer::{Batch, Writer};

/// The version of the bundled RocksDB.
pub const VERSION: &str = "11.12.0";

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rust_rocksdb::{CStrLike, ColumnFamily, DB, ReadOptions};

use crate::error::{Error, Result, StateKind};
use crate::parallel;

/// The path of a database in memory, and that of a file beside it. `DB::open` creates the directory on the disk too, whatever the
/// environment, so it is one that always exists.
const IN_MEMORY: (&str, &str) = ("/.", "/1.sst");

fn wrap(action: &'static str, path: &Path) -> impl FnOnce(rust_rocksdb::Error) -> Error {
    move |error| match error.as_ref().contains(UNRESOLVED[1]) {
        true => {
            let reason = "has pending merge operands of an operator of its program";
            Error::state(path, StateKind::Mismatch, reason, "compact it with its program (CompactRange)")
        }
        false => Error::Rocks { action, path: path.to_owned(), message: error.into_string() },
    }
}

/// A number that RocksDB knows about a column family; 0 if it does not know it.
fn number(db: &DB, family: &ColumnFamily, name: impl CStrLike, path: &Path) -> Result<u64> {
    Ok(db.property_int_value_cf(family, name).map_err(wrap("inspect", path))?.unwrap_or_default())
}

/// Messages of RocksDB about merge operands that it cannot resolve, without an operator and with one that fails.
const UNRESOLVED: [&str; 2] = ["merge_operator_ must be set", "Merge operator failed"];

/// The sums of the properties of a column family's files.
fn file_totals(db: &DB, family: &ColumnFamily) -> Result<FileTotals, rust_rocksdb::Error> {
    let totals = Arc::new(Mutex::new(FileTotals::default()));
    let (sums, mut options) = (Arc::clone(&totals), ReadOptions::default());
    options.set_total_order_seek(true);
    // The filter skips every table, so the iterator opens each of them, and reads only the records of memtables.
    options.set_table_filter(move |table| {
        let mut sums = sums.lock();
        sums.entries += table.num_entries();
        sums.deletions += table.num_deletions();
        sums.merge_operands += table.num_merge_operands();
        sums.value_bytes += table.raw_value_size();
        sums.raw_bytes += table.raw_key_size() + table.raw_value_size();
        sums.filter_bytes += table.filter_size();
        sums.index_bytes += table.index_size();
        sums.tables.push(TableSize {
            entries: table.num_entries(),
            blocks: table.num_data_blocks(),
            bytes: table.raw_key_size() + table.raw_value_size(),
            index: table.index_size().min(u32::MAX.into()),
        });
        false
    });
    let mut iterator = db.raw_iterator_cf_opt(family, options);
    iterator.seek_to_first();
    while iterator.valid() {
        iterator.next();
    }
    let mut totals = std::mem::take(&mut *totals.lock());
    match iterator.status() {
        // Memtables have no counts of operands.
        Err(error) if UNRESOLVED.iter().any(|text| error.as_ref().contains(text)) => totals.merge_operands += 1,
        status => status?,
    }
    Ok(totals)
}

/// Opens a database at `path` by `open`, in which RocksDB starts threads.
fn open_db(path: &Path, open: impl FnOnce() -> Result<DB, rust_rocksdb::Error> + Send) -> Result<DB> {
    parallel::without_handler(open)?.map_err(|error| match error.as_ref().split_once("match existing comparator ") {
        Some((_, name)) => {
            let reason = format!("its program orders the keys by a comparator of its own, `{name}`");
            Error::state(path, StateKind::Mismatch, reason, "only a program with this comparator can read it")
        }
        None => wrap("open", path)(error),
    })
}
