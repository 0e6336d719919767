//! A rehearsal of an import in memory. RocksDB refuses some options only when it builds, ingests, writes,
//! compacts or reads, which would be after the whole source was read.

use std::path::{Path, PathBuf};

use rust_rocksdb::Env;

use super::options::{ProbeError, Refusal};
use super::scratch::{self, Tried};
use super::{
    Batch, CompactionSettings, Group, IN_MEMORY, IngestSettings, OptionMap, SstOptions, SstWriter, Store,
    WriteSettings, wrap,
};
use crate::error::{Error, Result, errno_of};

/// Records of a rehearsal: several restart points of a block.
pub(crate) const RECORDS: u32 = 100;

/// The most bytes of a dictionary.
const DICTIONARY: u64 = 16 << 10;

const FAMILY: &str = "default";

/// The way of records into the database.
#[derive(Debug, Clone)]
pub enum Way {
    Ingest(IngestSettings),
    Memtable {
        write: WriteSettings,
        /// The final compaction, and the options of the database during it.
        compaction: Option<(OptionMap, CompactionSettings)>,
    },
}

/// Imports some records with the options of `loading`, and reads them back with those of `node`: in memory, or in one of
/// the `places` if RocksDB maps files.
pub fn rehearse(loading: &OptionMap, node: &OptionMap, way: &Way, places: &[PathBuf]) -> Result<(), ProbeError> {
    // Files in memory cannot be mapped.
    if [loading, node].iter().any(|map| map.get(Group::Db, "allow_mmap_reads") == Some("true")) {
        return rehearse_in_files(loading, node, way, places);
    }
    let [db, sst] = [IN_MEMORY.0, IN_MEMORY.1].map(Path::new);
    let env = Env::mem_env().map_err(wrap("open", db)).map_err(ProbeError::Failed)?;
    import_in(Some(&env), (db, sst), loading, node, way).map_err(|error| match error {
        Error::Rocks { message, .. } => ProbeError::Refused(Refusal::of(&message)),
        error => ProbeError::Failed(error),
    })
}

fn rehearse_in_files(loading: &OptionMap, node: &OptionMap, way: &Way, places: &[PathBuf]) -> Result<(), ProbeError> {
    let answer = scratch::try_in_places(places, |dir| match import(dir, loading, node, way) {
        Ok(()) => Tried::Answered(Ok(())),
        Err(Error::Rocks { message, .. }) if message.starts_with("IO error") || errno_of(&message).is_some() => {
            scratch::failed_in(dir, message)
        }
        Err(Error::Rocks { message, .. }) => Tried::Answered(Err(ProbeError::Refused(Refusal::of(&message)))),
        Err(error) => Tried::Answered(Err(ProbeError::Failed(error))),
    });
    answer.map_err(ProbeError::Failed)?
}

/// Imports the records into `dir/db` and reads them back.
pub(crate) fn import(dir: &Path, loading: &OptionMap, node: &OptionMap, way: &Way) -> Result<()> {
    import_in(None, (&dir.join("db"), &dir.join("1.sst")), loading, node, way)
}

/// Imports the records into the database `db` of an environment, or of the file system, and reads them back.
fn import_in(
    env: Option<&Env>,
    (db, sst): (&Path, &Path),
    loading: &OptionMap,
    node: &OptionMap,
    way: &Way,
) -> Result<()> {
    let [loading, node] = [loading, node].map(in_scratch);
    match way {
        Way::Ingest(settings) => {
            let options = SstOptions::in_env(env, &loading, db)?;
            let mut file = SstWriter::create(&options, sst.to_owned())?;
            for number in 0..RECORDS {
                file.put(&key(number), &value(number))?;
            }
            let file = file.finish()?;
            let store = Store::connect(env, db, &[(FAMILY, &loading)], [true; 2], None)?;
            store.leave_sequence_zero()?;
            store.ingest(FAMILY, vec![file], settings)?;
        }
        Way::Memtable { write, compaction } => {
            let store = Store::connect(env, db, &[(FAMILY, &loading)], [true; 2], None)?;
            write_batches(&store, write)?;
            drop(store);
            if let Some((compacting, settings)) = compaction {
                let store = Store::connect(env, db, &[(FAMILY, &in_scratch(compacting))], [false; 2], None)?;
                store.compact(FAMILY, settings)?;
            }
        }
    }
    let store = Store::connect(env, db, &[(FAMILY, &node)], [false; 2], None)?;
    for number in 0..RECORDS {
        if store.get(FAMILY, &key(number))?.is_none_or(|found| found != value(number)) {
            let message = "a record is missing or differs".into();
            return Err(Error::Rocks { action: "read from", path: db.to_owned(), message });
        }
    }
    Ok(())
}

/// Writes two files of level 0 whose keys overlap, so that there is something to compact.
fn write_batches(store: &Store, settings: &WriteSettings) -> Result<()> {
    let writer = store.writer(FAMILY, settings)?;
    let mut batch = Batch::default();
    for first in [0, 1] {
        for number in (first..RECORDS).step_by(2) {
            writer.put(&mut batch, &key(number), &value(number));
        }
        writer.write(&batch)?;
        batch.clear();
        store.flush(FAMILY)?;
    }
    Ok(())
}

/// Switches off threads and preallocation, which would take time, and large dictionaries, which would take memory.
fn in_scratch(map: &OptionMap) -> OptionMap {
    let mut map = map.clone();
    map.bound_dictionaries(DICTIONARY);
    map.set(Group::Db, "max_file_opening_threads", "1");
    // A file that is mapped for writing needs its space.
    if map.get(Group::Db, "allow_mmap_writes") != Some("true") {
        map.set(Group::Db, "allow_fallocate", "false");
    }
    map
}

pub(crate) fn key(number: u32) -> Vec<u8> {
    format!("{:038}", number * 7).into_bytes()
}

pub(crate) fn value(number: u32) -> Vec<u8> {
    format!("value {number} ").repeat(10).into_bytes()
}
