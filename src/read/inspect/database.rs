//! Describes a RocksDB database: its column families, and if their records can be copied into a new database.

use crate::error::{Error, Result};
use crate::read::inspect::InspectOptions;
use crate::report::{DatabaseInfo, InspectReport};
use crate::rocks::{OptionsFile, check_logs, family_facts, wal_bytes};

pub(super) fn inspect(options: &InspectOptions, report: &mut InspectReport) -> Result<()> {
    let dir = &options.source;
    if options.full {
        return Err(Error::usage("--full reads a snapshot", "`bedload verify` reads all of a database"));
    }
    check_logs(dir)?;
    let column_families = family_facts(dir)?;
    let levels = || column_families.iter().flat_map(|family| &family.levels);
    let blobs: u64 = column_families.iter().map(|family| family.blob_bytes).sum();
    report.format = "rocksdb".into();
    report.compression.clear();
    report.bytes = Some(levels().map(|level| level.bytes).sum::<u64>() + blobs);
    report.database = Some(DatabaseInfo {
        rocksdb: OptionsFile::latest(dir).ok().and_then(|file| file.rocksdb_version),
        files: levels().map(|level| level.files).sum(),
        wal_bytes: wal_bytes(dir),
        can_be_rebuilt: column_families.iter().all(|family| family.refused.is_none()),
        column_families,
    });
    Ok(())
}
