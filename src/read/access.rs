//! Options that all read commands share: resources and the location of the blocks.

use std::path::{Path, PathBuf};

use derive_setters::Setters;

use super::keys::{read_multihash, whole_cid};
use crate::error::{Error, Result, StateKind};
use crate::os::resources;
use crate::progress::{CancellationToken, Progress};
use crate::report::{ImportReport, KeyFrom};
use crate::rocks::{DataFile, FamilyScan, Reader, ReaderOptions};
use crate::sort::key::KeyLayout;

/// Memory in bytes if the system does not report it.
const SOME_MEMORY: u64 = 1 << 30;

/// Minimum memory of a read command, in bytes.
const LEAST_MEMORY: u64 = 1 << 20;

/// Usual lengths of digests, in bytes.
const DIGESTS: [usize; 5] = [20, 28, 32, 48, 64];

/// The resources of a command. The defaults depend on the machine.
#[derive(Debug, Clone, Default, Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Resources"))]
#[setters(strip_option)]
#[non_exhaustive]
pub struct Resources {
    /// Threads to use; the default is the number of cores
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = clap::builder::RangedI64ValueParser::<usize>::new().range(1..=crate::parallel::MAX_THREADS as i64)))]
    pub(crate) threads: Option<usize>,
    /// Memory to use; the default is a quarter of what the machine has
    #[cfg_attr(feature = "cli", arg(long, value_name = "SIZE", value_parser = crate::text::size::parse))]
    pub(crate) memory: Option<u64>,
    /// Directory for spilled data; the default is a temporary directory
    #[cfg_attr(feature = "cli", arg(long, value_name = "DIR", hide_short_help = true))]
    #[setters(into)]
    pub(crate) work_dir: Option<PathBuf>,
    /// Token that the caller cancels to end the command.
    #[cfg_attr(feature = "cli", arg(skip))]
    pub(crate) stop: CancellationToken,
}

impl Resources {
    pub(super) fn thread_count(&self) -> usize {
        crate::parallel::count(self.threads)
    }

    pub(super) fn memory_budget(&self) -> Result<u64> {
        if let Some(memory) = self.memory.filter(|memory| *memory < LEAST_MEMORY) {
            return Err(Error::memory_too_small(memory, LEAST_MEMORY));
        }
        Ok(self.memory.or_else(|| resources::memory().map(|all| all / 4)).unwrap_or(SOME_MEMORY))
    }

    /// Returns a scan of all records of a column family.
    pub(super) fn scan<'a>(
        &'a self,
        reader: &'a Reader,
        files: &'a [DataFile],
        family: &'a str,
        progress: &'a Progress<'a>,
    ) -> FamilyScan<'a> {
        FamilyScan { reader, files, family, threads: self.thread_count(), progress, stop: &self.stop }
    }

    pub(super) fn scratch_parent(&self) -> PathBuf {
        self.work_dir.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Location of the blocks. Defaults to the record in `BEDLOAD.json`; without that file, CID keys in the column family `default`.
#[derive(Debug, Clone, Default, Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Database"))]
#[setters(strip_option)]
#[non_exhaustive]
pub struct Location {
    /// Key layout of the blocks: cid, multihash or digest; any for records of a program; see BEDLOAD.json
    #[cfg_attr(feature = "cli", arg(long, value_name = "LAYOUT", hide_possible_values = true, hide_short_help = true))]
    pub(crate) key: Option<KeyLayout>,
    /// Column family of the blocks or records; see BEDLOAD.json
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME"))]
    #[setters(into)]
    pub(crate) column_family: Option<String>,
}

/// Resolved location of the blocks in a database.
pub(super) struct BlockLocation {
    pub family: String,
    /// Key layout of the blocks, and its origin.
    pub layout: KeyLayout,
    pub known_from: KeyFrom,
}

impl Location {
    /// Finds the blocks of the database in `db`. Without a record, the first and the last key in `reader` must fit the layout.
    pub(super) fn find(
        &self,
        db: &Path,
        record: Option<&ImportReport>,
        reader: Option<&Reader>,
    ) -> Result<BlockLocation> {
        let conflict = |reason: String, hint: &str| Error::state(db.to_owned(), StateKind::Mismatch, reason, hint);
        if let Some(record) = record {
            if self.key.is_some_and(|key| key != record.key) {
                let reason = format!("the keys of this database are {}", plural(record.key));
                return Err(conflict(reason, "omit --key: BEDLOAD.json records the key layout"));
            }
            let own = &record.column_family;
            let is_other = |family: &&String| *family != own && record.key != KeyLayout::Any;
            if let Some(family) = self.column_family.as_ref().filter(is_other) {
                let reason = format!("the blocks of this database are in the column family {own}, not in {family}");
                return Err(conflict(reason, "omit --column-family: BEDLOAD.json records it"));
            }
        }
        let recorded = || record.map(|record| record.column_family.clone());
        let family = self.column_family.clone().or_else(recorded).unwrap_or_else(|| "default".into());
        let (layout, known_from) = match (self.key, record, reader) {
            (Some(key), ..) => (key, KeyFrom::Caller),
            (None, Some(record), _) => (record.key, KeyFrom::Record),
            (None, None, Some(reader)) if has_foreign_keys(reader, &family) => (KeyLayout::Any, KeyFrom::Assumed),
            (None, None, _) => (KeyLayout::default(), KeyFrom::Assumed),
        };
        if let (None, Some(reader)) = (record, reader)
            && self.key != Some(KeyLayout::Any)
            && let Some(other) = other_layout(layout, &end_keys(reader, &family)?)
        {
            let reason = format!("the keys of this database are {}", plural(other));
            let name = other.name();
            let hint = format!("give --key {name}, or --key any if they are records of another program");
            return Err(conflict(reason, &hint));
        }
        Ok(BlockLocation { family, layout, known_from })
    }
}

/// Opens a database for few reads, even if files are missing or damaged.
pub(super) fn open_lenient(db: &Path) -> Result<Reader> {
    Reader::open(db, &ReaderOptions { lenient: true, ..ReaderOptions::once() })
}

fn plural(layout: KeyLayout) -> &'static str {
    match layout {
        KeyLayout::Cid => "CIDs",
        KeyLayout::Multihash => "multihashes",
        KeyLayout::Digest => "digests",
        KeyLayout::Number => "block numbers",
        KeyLayout::Any => "any bytes",
    }
}

fn end_keys(reader: &Reader, family: &str) -> Result<Vec<Vec<u8>>> {
    let mut scan = reader.pick(family)?;
    scan.seek(&[]);
    let first = scan.item().map(|(key, _)| key.to_vec());
    scan.seek_to_last();
    Ok(first.into_iter().chain(scan.item().map(|(key, _)| key.to_vec())).collect())
}

/// The layouts of keys that can be recognised.
const LAYOUTS: [KeyLayout; 3] = [KeyLayout::Cid, KeyLayout::Multihash, KeyLayout::Digest];

/// True if a key may be of a layout. Digests are recognised by their usual lengths.
fn fits(layout: KeyLayout, key: &[u8]) -> bool {
    let (is_cid, is_multihash) = (whole_cid(key).is_some(), read_multihash(key).is_some());
    match layout {
        KeyLayout::Cid => is_cid,
        KeyLayout::Multihash => is_multihash,
        KeyLayout::Digest => DIGESTS.contains(&key.len()) && !is_cid && !is_multihash,
        KeyLayout::Number | KeyLayout::Any => false,
    }
}

/// Returns the layout that all of `keys` fit, if none of them fits `layout`.
fn other_layout(layout: KeyLayout, keys: &[Vec<u8>]) -> Option<KeyLayout> {
    if keys.is_empty() || keys.iter().any(|key| fits(layout, key)) {
        return None;
    }
    LAYOUTS.into_iter().find(|other| keys.iter().all(|key| fits(*other, key)))
}

/// True if the first and the last key of a column family are not made from CIDs, or, if it is empty, those of all families: another
/// program wrote the database.
fn has_foreign_keys(reader: &Reader, family: &str) -> bool {
    let is_foreign = |key: &Vec<u8>| LAYOUTS.iter().all(|layout| !fits(*layout, key));
    let own = end_keys(reader, family).unwrap_or_default();
    let all = || reader.families.iter().filter_map(|family| end_keys(reader, family).ok()).flatten().collect();
    let keys = if own.is_empty() { all() } else { own };
    !keys.is_empty() && keys.iter().all(is_foreign)
}
