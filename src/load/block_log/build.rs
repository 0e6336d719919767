//! Building a range: each block is checked, and its records go to the sinks.

use std::path::Path;

use crate::blocks::chain::Header;
use crate::error::Result;
use crate::hash::{Content, ContentDigest};
use crate::load::block_log::transactions::{ErrorAt, Finder, RangeTransactions};
use crate::load::built::{RangeDone, Tally};
use crate::load::sink::Sink;
use crate::report::BlockRef;
use crate::schema::NUMBER;
use crate::source::block_log::{Chain, Checked, EntryBatch, Packing};

const ID_RECORD: usize = 32 + NUMBER;

pub(super) struct RangeBuilder<'a> {
    pub chain: Chain<'a>,
    blocks: Sink<'a>,
    ids: Sink<'a>,
    finder: Option<Finder<'a>>,
    first: Option<Header>,
    pub last: Option<Header>,
    payload: u64,
    /// The records of all blocks that were verified, and of their ids.
    verified: [Content; 2],
}

impl<'a> RangeBuilder<'a> {
    pub fn new(chain: Chain<'a>, [blocks, ids]: [Sink<'a>; 2], finder: Option<Finder<'a>>) -> Self {
        let verified = Default::default();
        Self { chain, blocks, ids, finder, first: None, last: None, payload: 0, verified }
    }

    /// From now on only counts records, which are in the database already.
    pub fn only_count(&mut self) {
        self.blocks.only_count();
        self.ids.only_count();
        self.finder = None;
    }

    /// Checks one block, and builds it if it is not before `from`.
    pub fn take(&mut self, batch: &mut EntryBatch, index: usize, from: u32, bad: ErrorAt<'_>) -> Result<Header> {
        let packed = batch.spans.get(index).is_some_and(|span| span.packing != Packing::Raw);
        let offset = batch.spans.get(index).map_or(0, |span| batch.offset(*span));
        let Checked { record, header } = match self.chain.take(batch, index) {
            Ok(checked) => checked,
            Err(problem) => {
                self.flush(bad)?;
                return Err(bad(offset, problem));
            }
        };
        if header.number < from {
            return Ok(header);
        }
        let block = record.get(NUMBER..).unwrap_or_default();
        if let Some(finder) = &mut self.finder {
            finder.take(block, &header, packed, offset, bad)?;
        }
        self.payload += block.len() as u64;
        let [blocks, ids] = &mut self.verified;
        blocks.add(ContentDigest::of_section(record, NUMBER));
        self.blocks.put(record, NUMBER)?;
        let (id_record, len) = id_record(&header);
        let id_record = id_record.get(..len + NUMBER).unwrap_or_default();
        ids.add(ContentDigest::of_section(id_record, len));
        self.ids.put(id_record, len)?;
        self.first.get_or_insert(header);
        self.last = Some(header);
        Ok(header)
    }

    /// Checks deferred transactions. The caller does so at the end of each batch, before it reports a later fault.
    pub fn flush(&mut self, bad: ErrorAt<'_>) -> Result<()> {
        self.finder.as_mut().map_or(Ok(()), |finder| finder.flush(bad))
    }

    /// Completes the range between the bytes `start` and `end`; `None` if it has no wanted blocks. It is an error if the records
    /// that went to RocksDB are not the verified ones.
    pub fn finish(self, part: usize, start: u64, end: u64, partial: &Path) -> Result<Option<RangeDone>> {
        let Self { chain, blocks, ids, finder, first, last, payload, verified: [of_blocks, of_ids] } = self;
        let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
        let RangeTransactions { transactions, unknown_operations, extents } =
            finder.map(Finder::finish).transpose()?.unwrap_or_default();
        let (blocks, ids) = (blocks.finish_verified(of_blocks, partial)?, ids.finish_verified(of_ids, partial)?);
        Ok(Some(RangeDone {
            part,
            start,
            end,
            before: first.previous.to_string(),
            first: BlockRef::of(&first),
            last: BlockRef::of(&last),
            blocks,
            ids,
            payload,
            packings: chain.packings,
            checkpoints: chain.checkpoints,
            transactions,
            unknown_operations,
            extents,
        }))
    }

    pub fn counted(self) -> Result<Tally> {
        Ok(self.blocks.finish()?.tally)
    }
}

/// The record that finds a block by its id, and the bytes of the id.
pub(super) fn id_record(header: &Header) -> ([u8; ID_RECORD], usize) {
    let mut record = [0; ID_RECORD];
    let id = header.id.as_bytes();
    let len = id.len() + NUMBER;
    if let Some((to, number)) = record.get_mut(..len).and_then(|record| record.split_at_mut_checked(id.len())) {
        to.copy_from_slice(id);
        number.copy_from_slice(&header.number.to_be_bytes());
    }
    (record, id.len())
}
