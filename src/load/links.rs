//! The links of blocks, collected while the source is read, to find those without a block.
//!
//! The keys of all blocks and of all links are entries of one list, which is sorted beyond memory (`external_sort`):
//!
//! ```text
//! XXH3-128 of the key; its lowest bit is 1 for a link, 0 for a block
//! ```
//!
//! In the sorted list a block precedes its links. The runs have no names and end with the process, so a resumed import reads the
//! source again for its links (`load/car/resume_source`).

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::blocks::dag::links::{codec, links};
use crate::error::{Error, Result};
use crate::external_sort::Sorter;
use crate::hash::IDENTITY;
use crate::hash::fingerprint::fingerprint;
use crate::report::LinkReport;
use crate::sort::KeyLayout;
use crate::source::car::{CidSpan, RawCid, read_cid};

/// The longest link that is followed, in bytes, as in a walk: a longer CID has the block itself.
const MAX_LINK: usize = u16::MAX as usize;

/// The most missing links whose names are looked for.
const WANTED: usize = 1 << 16;

/// The bit of an entry that is a link.
const LINK: u128 = 1;

/// The keys of blocks and links.
pub(super) struct LinkList {
    layout: KeyLayout,
    dir: PathBuf,
    list: Mutex<List>,
}

struct List {
    sorter: Sorter<u128>,
    malformed: u64,
}

/// Entries that one thread gathers.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    entries: Vec<u128>,
    malformed: u64,
}

/// The entries of some links without a block.
#[derive(Debug, Default)]
pub(super) struct MissingLinks(HashSet<u128>);

impl LinkList {
    /// A list within `memory` bytes, and files in `dir`.
    pub fn new(layout: KeyLayout, dir: &Path, memory: u64) -> Self {
        let sorter = Sorter::new(dir, usize::try_from(memory).unwrap_or(usize::MAX), usize::MAX);
        Self { layout, dir: dir.to_owned(), list: Mutex::new(List { sorter, malformed: 0 }) }
    }

    /// Gathers the key of a block and its links; `body` is its CID and its value.
    pub fn gather(&self, cid: &CidSpan, body: &[u8], gathered: &mut Gathered) {
        let (name, value) = body.split_at(cid.len as usize);
        gathered.entries.push(key_hash(name.get(self.layout.key_start(cid)..).unwrap_or_default()));
        let Gathered { entries, malformed } = gathered;
        *malformed += for_each_link(cid.codec, value, &mut |cid, span| {
            entries.extend(key_of(self.layout, cid, &span).map(|key| key_hash(key) | LINK));
        });
    }

    /// Gathers the key of a block that was in the database before.
    pub fn gather_key(key: &[u8], gathered: &mut Gathered) {
        gathered.entries.push(key_hash(key));
    }

    /// Adds the gathered entries.
    pub fn add(&self, gathered: &mut Gathered) -> Result<()> {
        let mut list = self.list.lock();
        list.malformed += std::mem::take(&mut gathered.malformed);
        let mut entries = gathered.entries.drain(..);
        entries.try_for_each(|entry| list.sorter.push(entry)).map_err(Error::io("sort links in", &self.dir))
    }

    /// Compares all links with all blocks. The list is empty then, and the report names no links yet.
    pub fn compare(&self) -> Result<(LinkReport, MissingLinks)> {
        let empty = List { sorter: Sorter::new(&self.dir, 0, 0), malformed: 0 };
        let List { sorter, malformed } = std::mem::replace(&mut *self.list.lock(), empty);
        let failed = |error| Error::io("sort links in", &self.dir)(error);
        let mut found = LinkReport { linked: 0, missing: 0, malformed, first_missing: Vec::new() };
        let mut wanted = HashSet::new();
        let mut last = None;
        for entry in sorter.sorted().map_err(failed)?.iter().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let before = last.replace(entry);
            if entry & LINK == 0 || before == Some(entry) {
                continue;
            }
            found.linked += 1;
            if before != Some(entry & !LINK) {
                found.missing += 1;
                if wanted.len() < WANTED {
                    wanted.insert(entry);
                }
            }
        }
        Ok((found, MissingLinks(wanted)))
    }
}

impl MissingLinks {
    /// Adds the missing links in `block` to `found`, up to `most`. The codec of a record is not always known. With a wrong one
    /// nothing is found, because a found link must be one of those that are missing.
    pub fn name_links(&self, layout: KeyLayout, block: &[u8], most: usize, found: &mut Vec<String>) {
        for codec in [codec::DAG_CBOR, codec::DAG_PB] {
            let mut take = |cid: &[u8], span: CidSpan| {
                let is_wanted =
                    || key_of(layout, cid, &span).is_some_and(|key| self.0.contains(&(key_hash(key) | LINK)));
                if found.len() < most
                    && is_wanted()
                    && let Ok(cid) = RawCid::from_bytes(cid)
                    && !found.contains(&cid.to_string())
                {
                    found.push(cid.to_string());
                }
            };
            // Malformed blocks and links have been counted.
            let _ = for_each_link(codec, block, &mut take);
        }
    }
}

/// Calls `follow` with each link of a block, and of the blocks inside its links. Returns the number of blocks that do not decode
/// by their codec, and of links that are no CID.
fn for_each_link(codec: u64, block: &[u8], follow: &mut dyn FnMut(&[u8], CidSpan)) -> u64 {
    let mut malformed = 0;
    let mut inside: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut next = Some((codec, Cow::Borrowed(block)));
    while let Some((codec, block)) = next {
        let found = links(codec, &block, &mut |cid| match span_of(cid) {
            None => malformed += 1,
            Some(span) if span.hash == IDENTITY => {
                inside.push((span.codec, cid.get(span.digest as usize..).unwrap_or_default().to_vec()));
            }
            Some(span) => follow(cid, span),
        });
        malformed += u64::from(found.is_err());
        next = inside.pop().map(|(codec, block)| (codec, Cow::Owned(block)));
    }
    malformed
}

/// The entry of a block's key.
fn key_hash(key: &[u8]) -> u128 {
    fingerprint(key) & !LINK
}

/// The parts of a link, if it is one whole CID and not too long.
fn span_of(cid: &[u8]) -> Option<CidSpan> {
    read_cid(cid).ok().flatten().filter(|span| span.len as usize == cid.len() && cid.len() <= MAX_LINK)
}

/// The key of the block of a link; `None` if it names no block.
fn key_of<'c>(layout: KeyLayout, cid: &'c [u8], span: &CidSpan) -> Option<&'c [u8]> {
    match span.codec {
        codec::COMMITMENT_UNSEALED | codec::COMMITMENT_SEALED => None,
        _ => cid.get(layout.key_start(span)..),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn missing(entries: &[u128], memory: u64) -> (LinkReport, MissingLinks) {
        let dir = tempfile::tempdir().expect("a directory");
        let list = LinkList::new(KeyLayout::Cid, dir.path(), memory);
        for entries in entries.chunks(7) {
            list.add(&mut Gathered { entries: entries.to_vec(), malformed: 1 }).expect("room");
        }
        list.compare().expect("readable")
    }

    proptest! {
        #[test]
        fn links_without_a_block_are_counted_once(entries in proptest::collection::vec(0u128..60, 0..200)) {
            let all: HashSet<u128> = entries.iter().copied().collect();
            let linked: Vec<u128> = all.iter().copied().filter(|entry| entry & LINK == 1).collect();
            let wanted: HashSet<u128> = linked.iter().copied().filter(|entry| !all.contains(&(entry & !LINK))).collect();
            let (found, missing) = missing(&entries, 0);
            prop_assert_eq!((found.linked, found.missing), (linked.len() as u64, wanted.len() as u64));
            prop_assert_eq!(missing.0, wanted);
            prop_assert_eq!(found.malformed, entries.len().div_ceil(7) as u64);
        }
    }

    #[test]
    fn a_list_beyond_memory_is_compared_as_well() {
        // Every number is a block and a link, but for each hundredth, which has no block; more runs than may wait.
        let entries: Vec<u128> = (0..400_000u128).rev().filter(|entry| entry % 200 != 0).collect();
        let (found, _) = missing(&entries, 16 << 10);
        assert_eq!((found.linked, found.missing), (200_000, 2000));
    }
}
