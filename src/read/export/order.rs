//! The exported blocks and their order.

use std::io::{BufRead, BufReader, Read};
use std::iter::Peekable;
use std::path::Path;

use super::batch::SectionLoader;
use super::depth_first::DepthFirst;
use super::open::Export;
use super::options::{Selection, interrupted};
use crate::error::{Error, Result, StateKind};
use crate::hash::fingerprint::fingerprint;
use crate::read::keys::{key_text, whole_cid};
use crate::read::missing::MissingBlocks;
use crate::read::steps::LinkStep;
use crate::read::visited::Visited;
use crate::source::car::{RawCid, read_cid};

/// Few, because their blocks are in memory at once.
const BATCH: usize = 32;

/// Records between two checks for cancellation.
const CANCEL_EVERY: u64 = 1024;

/// Longest line of a list, in bytes; an identity CID may be long.
const MAX_LINE: u64 = 1 << 20;

pub(super) type CidList = Peekable<Box<dyn Iterator<Item = Result<RawCid>>>>;

/// Loads every selected block. `list` is the opened list of a selection that is one.
pub(super) fn each_block(
    export: &Export<'_>,
    list: Option<CidList>,
    loader: &mut SectionLoader<'_>,
) -> Result<MissingBlocks> {
    match list {
        Some(list) => listed(list, export, loader),
        None if export.options.selection == Selection::All => all(export, loader),
        None => DepthFirst::new(export)?.each(&export.roots, loader),
    }
}

/// Loads every record in the order of keys, which are CIDs.
fn all(export: &Export<'_>, loader: &mut SectionLoader<'_>) -> Result<MissingBlocks> {
    let mut scan = export.reader.scan(&export.family, None, None)?;
    let mut count = 0u64;
    while let Some((key, value)) = scan.item() {
        if whole_cid(key).is_none() {
            let reason = format!("has a record whose key is not a CID: {}", key_text(export.layout, key));
            let hint = "pass the key layout with --key, or check the database with bedload verify";
            return Err(Error::state(export.options.db.clone(), StateKind::Mismatch, reason, hint));
        }
        loader.add_section(key, 0, value)?;
        count += 1;
        if count.is_multiple_of(CANCEL_EVERY) {
            export.options.resources.stop.check(interrupted)?;
        }
        scan.next();
    }
    scan.status().map(|()| MissingBlocks::default())
}

/// Opens a list of CIDs, one per line, and reads the first one.
pub(super) fn open_list(path: &Path) -> Result<CidList> {
    let hint = "pass a file with one CID per line";
    let mut lines: Box<dyn BufRead> = match path == Path::new("-") {
        true => Box::new(BufReader::new(std::io::stdin())),
        false => Box::new(BufReader::new(std::fs::File::open(path).map_err(Error::io("open", path))?)),
    };
    let (owned, mut number) = (path.to_owned(), 0u64);
    let mut next = move || loop {
        let mut line = String::new();
        let read = lines.by_ref().take(MAX_LINE).read_line(&mut line);
        if read.map_err(Error::io("read", &owned))? == 0 {
            return Ok(None);
        }
        number += 1;
        let text = line.trim();
        if !text.is_empty() {
            return text.parse().map(Some).map_err(|problem| {
                Error::usage(format!("line {number} of {} is not a CID: {problem}", owned.display()), hint)
            });
        }
    };
    let list: Box<dyn Iterator<Item = _>> = Box::new(std::iter::from_fn(move || next().transpose()));
    let mut list = list.peekable();
    match list.next_if(Result::is_err) {
        Some(Err(error)) => Err(error),
        _ if list.peek().is_none() => Err(Error::usage(format!("{} contains no CID", path.display()), hint)),
        _ => Ok(list),
    }
}

/// Loads the blocks of a list, each once.
fn listed(mut list: CidList, export: &Export<'_>, loader: &mut SectionLoader<'_>) -> Result<MissingBlocks> {
    let visited = Visited::new(export.memory / 2, export.options.resources.scratch_parent());
    let mut missing = MissingBlocks::default();
    while list.peek().is_some() {
        export.options.resources.stop.check(interrupted)?;
        let mut batch = Vec::with_capacity(BATCH);
        for cid in list.by_ref().take(BATCH) {
            let cid = cid?;
            let Ok(Some(span)) = read_cid(cid.as_bytes()) else { continue };
            let start = export.layout.key_start(&span);
            if visited.insert(fingerprint(cid.as_bytes().get(start..).unwrap_or_default()))? {
                batch.push((cid, start));
            }
        }
        let keys: Vec<&[u8]> =
            batch.iter().map(|(cid, start)| cid.as_bytes().get(*start..).unwrap_or_default()).collect();
        let values = export.reader.get_many(&export.family, &keys, false)?;
        for ((cid, start), value) in batch.iter().zip(values) {
            let cid = cid.as_bytes();
            match value? {
                Some(value) => loader.add_section(cid, *start, value.as_ref())?,
                None => missing.note(LinkStep { cid, parent: &[], tipset: 0, epoch: None }, None),
            }
        }
    }
    Ok(missing)
}
