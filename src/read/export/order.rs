//! The exported blocks and their order.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::depth_first::DepthFirst;
use super::open::Export;
use super::options::{Selection, interrupted};
use super::selected::{Selected, Take};
use crate::error::{Error, Result};
use crate::hash::fingerprint::fingerprint;
use crate::read::queue::StepRef;
use crate::read::visited::Visited;
use crate::source::car::{RawCid, read_cid};

/// Listed blocks per lookup.
const BATCH: usize = 512;

/// Records between two checks for cancellation.
const CANCEL_EVERY: u64 = 1024;

/// Longest line of a list, in bytes; an identity CID may be long.
const MAX_LINE: u64 = 1 << 20;

pub(super) enum BlockOrder {
    Linked,
    All,
    Listed(CidList),
}

/// CIDs in a file, one per line.
pub(super) struct CidList {
    lines: Box<dyn BufRead>,
    path: PathBuf,
    number: u64,
    /// The first CID, which has been read already.
    first: Option<RawCid>,
}

impl BlockOrder {
    pub fn new(selection: &Selection) -> Result<Self> {
        Ok(match selection {
            Selection::Linked => Self::Linked,
            Selection::All => Self::All,
            Selection::Listed(path) => Self::Listed(CidList::open(path)?),
        })
    }

    /// Returns the first CID of a list.
    pub fn first_listed(&self) -> Option<RawCid> {
        if let Self::Listed(list) = self { list.first.clone() } else { None }
    }

    /// Passes every selected block to `take`.
    pub fn each(self, export: &Export<'_>, take: &mut Take<'_>) -> Result<Selected> {
        match self {
            Self::Linked => DepthFirst::new(export)?.each(&export.roots, take),
            Self::All => all(export, take),
            Self::Listed(list) => list.each(export, take),
        }
    }
}

/// Passes every record in the order of keys, which are CIDs.
fn all(export: &Export<'_>, take: &mut Take<'_>) -> Result<Selected> {
    let mut scan = export.reader.scan(&export.family, None, None)?;
    let mut count = 0u64;
    while let Some((key, value)) = scan.item() {
        let is_cid = read_cid(key).is_ok_and(|span| span.is_some_and(|span| span.len as usize == key.len()));
        if !is_cid {
            return Err(Error::State {
                path: export.options.db.clone(),
                reason: format!("has a record whose key is no CID: {}", crate::read::key_text(export.layout, key)),
                hint: "say with --key what blocks are stored under, or look with bedload verify".into(),
            });
        }
        take(key, 0, value)?;
        count += 1;
        if count.is_multiple_of(CANCEL_EVERY) && export.options.resources.stop.is_cancelled() {
            return Err(interrupted());
        }
        scan.next();
    }
    scan.status().map(|()| Selected::default())
}

impl CidList {
    fn open(path: &Path) -> Result<Self> {
        let lines: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            Box::new(BufReader::new(std::fs::File::open(path).map_err(Error::io("open", path))?))
        };
        let mut list = Self { lines, path: path.to_owned(), number: 0, first: None };
        list.first = list.read()?;
        if list.first.is_none() {
            return Err(Error::Usage {
                reason: format!("{} names no CID", path.display()),
                hint: "give a file with one CID a line".into(),
            });
        }
        Ok(list)
    }

    fn next(&mut self) -> Result<Option<RawCid>> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.read(),
        }
    }

    /// Returns the CID on the next line that is not empty.
    fn read(&mut self) -> Result<Option<RawCid>> {
        loop {
            let mut line = String::new();
            let mut limited = std::io::Read::take(&mut self.lines, MAX_LINE);
            let len = limited.read_line(&mut line).map_err(Error::io("read", &self.path))?;
            if len == 0 {
                return Ok(None);
            }
            self.number += 1;
            let text = line.trim();
            if text.is_empty() {
                continue;
            }
            return text.parse().map(Some).map_err(|problem| Error::Usage {
                reason: format!("line {} of {} is no CID: {problem}", self.number, self.path.display()),
                hint: "give a file with one CID a line".into(),
            });
        }
    }

    fn each(mut self, export: &Export<'_>, take: &mut Take<'_>) -> Result<Selected> {
        let resources = &export.options.resources;
        let visited = Visited::new(export.memory / 2, resources.scratch_parent());
        let mut selected = Selected::default();
        let mut more = true;
        while more {
            if resources.stop.is_cancelled() {
                return Err(interrupted());
            }
            let mut batch = Vec::with_capacity(BATCH);
            while more && batch.len() < BATCH {
                let Some(cid) = self.next()? else {
                    more = false;
                    break;
                };
                let Ok(Some(span)) = read_cid(cid.as_bytes()) else { continue };
                let start = export.layout.key_start(&span);
                let key = cid.as_bytes().get(start..).unwrap_or_default();
                if visited.insert(fingerprint(key))? {
                    batch.push((cid, start));
                }
            }
            let keys: Vec<&[u8]> =
                batch.iter().map(|(cid, start)| cid.as_bytes().get(*start..).unwrap_or_default()).collect();
            let values = export.reader.get_many(&export.family, &keys, false)?;
            for ((cid, start), value) in batch.iter().zip(values) {
                match value? {
                    Some(value) => take(cid.as_bytes(), *start, value.as_ref())?,
                    None => {
                        let step = StepRef { cid: cid.as_bytes(), parent: &[], tipset: 0, epoch: None };
                        selected.missing.note(step, None);
                    }
                }
            }
        }
        Ok(selected)
    }
}
