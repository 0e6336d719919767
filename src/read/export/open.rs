//! A prepared export of a CAR.

use super::options::{ExportOptions, Selection};
use crate::error::{Error, Result, StateKind};
use crate::read::access::BlockLocation;
use crate::report::record::roots;
use crate::report::{ImportReport, KeyFrom};
use crate::rocks::Reader;
use crate::sort::key::KeyLayout;
use crate::source::car::RawCid;

pub(super) struct Export<'a> {
    pub options: &'a ExportOptions,
    pub record: Option<&'a ImportReport>,
    pub reader: Reader,
    pub family: String,
    pub layout: KeyLayout,
    pub roots: Vec<RawCid>,
    pub memory: u64,
}

impl<'a> Export<'a> {
    /// Validates the options and opens the database, before anything is written.
    pub fn open(options: &'a ExportOptions, record: Option<&'a ImportReport>) -> Result<Self> {
        if let Some(record) = record
            && record.source.format != "car"
        {
            let is_records = record.key == KeyLayout::Any;
            let what = if is_records { "records".into() } else { format!("a {}", record.source.format) };
            let reason = format!("contains {what}, not the blocks of a CAR");
            let hint = "give --db the database of a CAR; `ldb --hex dump` writes the records of any database";
            return Err(Error::state(options.db.clone(), StateKind::Mismatch, reason, hint));
        }
        let reader = options.reader()?;
        let BlockLocation { family, layout, known_from } = options.location.find(&options.db, record, Some(&reader))?;
        if options.selection == Selection::All && layout != KeyLayout::Cid {
            let source = if known_from == KeyFrom::Caller { "the options" } else { "its record" };
            let reason = format!(
                "the export of all blocks requires CIDs as keys, but the key layout is {} according to {source}",
                layout.name()
            );
            let hint = "omit --all to follow the links from the roots, or list the CIDs with --cids";
            return Err(Error::usage(reason, hint));
        }
        let hint = match layout {
            KeyLayout::Cid => "name one with --root CID, or export every record with --all",
            _ => "name one with --root CID, or the blocks to export with --cids FILE",
        };
        let roots = match &options.selection {
            Selection::Linked => roots(&options.roots, record, "export", hint)?,
            Selection::All => roots(&options.roots, record, "export", hint).unwrap_or_default(),
            Selection::Listed(_) => options.roots.clone(),
        };
        Ok(Self { options, record, reader, family, layout, roots, memory: options.memory()? })
    }
}
