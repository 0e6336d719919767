//! Compares the files beside the SST files with the record of the import, and checks that the record is consistent. A node that
//! opens the database writes a newer OPTIONS file and deletes all but two, which is a note, not a problem.

use std::io::ErrorKind;
use std::path::Path;

use super::problems::Collector;
use crate::os::files::read_regular;
use crate::report::record::checksum;
use crate::report::{ImportReport, ProblemKind, RecordedFile};
use crate::rocks::options_file::{MAX_FILE, OptionsFile};
use crate::schema::{RECORD_FILE, TRANSACTIONS};

/// Checks the record and the small files of the database in `db`, and adds `notes`. `bad_record` is the problem of the record
/// itself. True if a node may have opened the database since: RocksDB writes a newer OPTIONS file then.
pub(super) fn check(
    db: &Path,
    (record, bad_record): (Option<&ImportReport>, Option<&str>),
    problems: &Collector<'_>,
    notes: &mut Vec<String>,
) -> bool {
    if let Some(words) = bad_record {
        problems.add(ProblemKind::Record, Some(&db.join(RECORD_FILE)), words.to_owned());
    }
    let Some(record) = record else { return false };
    check_tally(record, problems);
    let mut opened = record.small_files.is_empty();
    let newest = OptionsFile::latest_path(db).ok();
    for RecordedFile { name, checksum: known } in &record.small_files {
        // A recorded name has no separator: nothing outside of the database is read.
        let name = Path::new(name).file_name().unwrap_or_default();
        let number = OptionsFile::number(Path::new(name));
        let newer = newest.as_deref().filter(|newest| number.is_some() && OptionsFile::number(newest) > number);
        if let Some(newer) = newer.and_then(Path::file_name) {
            let note = format!(
                "a program has opened the database since the import: the current options are in {}",
                newer.display()
            );
            opened = true;
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let path = db.join(name);
        let message = match read_regular(&path, MAX_FILE) {
            Ok(bytes) if checksum(&bytes) == *known => continue,
            Ok(_) => "the file has changed since the import".to_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound && newer.is_some() => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => "the file is missing".to_owned(),
            Err(error) => format!("the file cannot be read: {error}"),
        };
        problems.add(ProblemKind::File, Some(&path), message);
    }
    opened
}

/// Checks that the record's counts add up: read blocks are written blocks and duplicates.
fn check_tally(record: &ImportReport, problems: &Collector<'_>) {
    let blocks = &record.blocks;
    let mut claims = vec![(String::new(), "blocks", blocks.read, blocks.written, blocks.duplicate)];
    for family in record.log.iter().flat_map(|log| &log.families) {
        let (what, read) = match family.name.as_str() {
            TRANSACTIONS => ("transactions", record.log.as_ref().and_then(|log| log.transactions)),
            _ => ("blocks", Some(blocks.read)),
        };
        if let Some(read) = read {
            claims.push((format!(" to {}", family.name), what, read, family.records, family.duplicates));
        }
    }
    for (to, what, read, written, duplicates) in claims {
        if written.checked_add(duplicates) != Some(read) {
            let message = format!(
                "according to the record, {read} {what} were read, {written} written{to}, and {duplicates} were duplicates"
            );
            problems.add(ProblemKind::Tally, None, message);
        }
    }
}
