//! A private directory in which a database is opened for writing, while its own directory stays as it is.

use std::path::Path;

use rust_rocksdb::{ColumnFamilyDescriptor, DB, Options};

use super::log_format::is_content_file;
use super::{declared_facts, open_db};
use crate::error::{Error, Result, StateKind};
use crate::os::private;

/// Size of the memtables that the WAL is read into, in bytes.
const WRITE_BUFFER: usize = 8 << 20;

/// Makes the directory `to` with links to the SST and blob files of the database in `from` and copies of its other files, and
/// flushes the WAL there. RocksDB deletes at most the links.
pub(crate) fn flush_in_copy(from: &Path, to: &Path) -> Result<()> {
    private::create_dir(to)?;
    let listed = from.read_dir().map_err(Error::io("list", from))?;
    let paths = listed.map(|entry| Ok(entry.map_err(Error::io("list", from))?.path())).collect::<Result<Vec<_>>>()?;
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = to.join(&name);
        let is_data = name.ends_with(".sst") || name.ends_with(".blob");
        if !is_content_file(&name) {
            continue;
        }
        let absolute = || std::path::absolute(&path);
        match () {
            () if !is_data => std::fs::copy(&path, &place).map(drop),
            // Another file system, or a file of another user.
            () => std::fs::hard_link(&path, &place).or_else(|_| std::os::unix::fs::symlink(absolute()?, &place)),
        }
        .map_err(Error::io("copy", &path))?;
    }
    let mut families = Vec::new();
    for facts in declared_facts(from)? {
        if let Some(reason) = facts.refused {
            let reason = format!("has a large WAL, and its column family `{}` cannot be opened: {reason}", facts.name);
            let hint = "pass a --memory of 9 times the WAL; or flush the database with its program";
            return Err(Error::state(from, StateKind::Mismatch, reason, hint));
        }
        let mut own = facts.reading(to)?;
        own.set_disable_auto_compactions(true);
        own.set_write_buffer_size(WRITE_BUFFER);
        families.push(ColumnFamilyDescriptor::new(facts.name, own));
    }
    open_db(to, || DB::open_cf_descriptors(&Options::default(), to, families)).map(drop)
}
