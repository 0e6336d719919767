//! Advice on a valid database: findings with remedies.

use std::path::Path;

use super::access::open_lenient;
use crate::error::Result;
use crate::report::Advice;
use crate::rocks::Reader;
use crate::text::escape::shell_word;

/// Returns the warnings for the database in `dir`; nothing if there is none.
pub(crate) fn on_database_in(dir: &Path) -> Result<Vec<Advice>> {
    if !dir.join("CURRENT").exists() {
        return Ok(Vec::new());
    }
    on_database(&open_lenient(dir)?, dir)
}

/// Returns the advice for a column family whose files lack totals.
pub(super) fn on_unreadable_files(db: &Path, family: &str) -> Advice {
    Advice {
        id: "unreadable-files".into(),
        finding: format!(
            "files of the column family `{family}` are missing or damaged: its number of entries is not known"
        ),
        remedy: format!("bedload verify {} names them", shell_word(db)),
    }
}

/// Returns the warnings for an open database.
pub(crate) fn on_database(reader: &Reader, db: &Path) -> Result<Vec<Advice>> {
    if reader.last_sequence() > 0 || reader.files()?.is_empty() {
        return Ok(Vec::new());
    }
    let db = db.display();
    Ok(vec![Advice {
        id: "sequence-zero".into(),
        finding: format!(
            "{db} has the sequence number 0: an older RocksDB (seen: 7.8 to 9.8) drops its records if it compacts while a \
             snapshot exists that is older than the first write"
        ),
        remedy: format!(
            "write one record before any snapshot is taken, with the node or with its RocksDB's tool (ldb --db={db} \
             --ignore_unknown_options put KEY VALUE); a database that is imported today has a higher number"
        ),
    }])
}
