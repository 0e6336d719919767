//! A prepared export of a CAR.

use crate::error::{Error, Result};
use crate::read::access::BlockLocation;
use crate::read::export::options::{ExportOptions, MIN_MEMORY, Selection};
use crate::report::record::roots;
use crate::report::{ImportReport, KeyFrom};
use crate::rocks::{Reader, ReaderOptions};
use crate::sort::key::KeyLayout;
use crate::source::car::RawCid;

/// A validated export of a CAR.
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
            return Err(Error::State {
                path: options.db.clone(),
                reason: format!("holds a {}, which has no blocks of a CAR", record.source.format),
                hint: "give --db the database of a CAR".into(),
            });
        }
        let cache = usize::try_from(options.resources.memory_budget()?.max(MIN_MEMORY) / 8).unwrap_or(usize::MAX);
        let reader =
            Reader::open(&options.db, &ReaderOptions { cache, open_files: -1, lenient: false, in_order: false })?;
        let BlockLocation { family, layout, known_from } = options.location.find(&options.db, record, Some(&reader))?;
        if options.selection == Selection::All && layout != KeyLayout::Cid {
            let source = if known_from == KeyFrom::Caller { "--key says" } else { "its record says" };
            return Err(Error::Usage {
                reason: format!(
                    "not every record can be exported: blocks are stored by {} ({source}), which does not name their codecs",
                    layout.name()
                ),
                hint: "leave --all out to follow links from the roots, or name the CIDs with --cids".into(),
            });
        }
        let hint = match layout {
            KeyLayout::Cid => "name one with --root CID, or export every record with --all",
            _ => "name one with --root CID, or the blocks to export with --cids FILE",
        };
        let roots = match &options.selection {
            Selection::Linked => roots(&options.roots, record, "export", hint)?,
            Selection::All => roots(&options.roots, record, "export", hint).unwrap_or_default(),
            Selection::Listed(_) if options.roots.is_empty() => Vec::new(),
            Selection::Listed(_) => options.roots.clone(),
        };
        let memory = options.resources.memory_budget()?.max(MIN_MEMORY);
        Ok(Self { options, record, reader, family, layout, roots, memory })
    }
}
