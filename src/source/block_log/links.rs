//! Checks the links of a chain: decompresses one block after the other, and compares its id and its parent.

use std::collections::BTreeMap;

use super::framing::bad_header;
use super::unpack::ROOM;
use super::{EntryBatch, Framing, LogProblem, Packing, Packings, Unpacker};
use crate::blocks::chain::{self, Header, Id};
use crate::schema::NUMBER;

/// Expected links and ids of blocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expectations {
    /// True if each block must name the one before it.
    pub links: bool,
    /// The chain id in the preamble of an Antelope log, which block 1 must name.
    pub chain_id: Option<Id>,
    pub checkpoints: BTreeMap<u32, Id>,
}

pub(crate) struct Chain<'a> {
    framing: Framing,
    expectations: &'a Expectations,
    pub unpacker: Unpacker,
    pub next: u32,
    /// The id of the previous block, if it is in the log.
    pub before: Option<Id>,
    pub packings: Packings,
    pub checkpoints: u64,
}

/// A block that has passed all checks.
pub(crate) struct Checked<'b> {
    /// The key, then the block.
    pub record: &'b mut [u8],
    pub header: Header,
}

impl<'a> Chain<'a> {
    /// Starts at block `next`, which follows `before`.
    pub fn new(
        framing: Framing,
        expectations: &'a Expectations,
        unpacker: Unpacker,
        next: u32,
        before: Option<Id>,
    ) -> Self {
        Self { framing, expectations, unpacker, next, before, packings: Packings::default(), checkpoints: 0 }
    }

    /// Checks the entry `index` of a batch.
    pub fn take<'b>(&'b mut self, batch: &'b mut EntryBatch, index: usize) -> Result<Checked<'b>, LogProblem> {
        let number = self.next;
        let Some(&span) = batch.spans.get(index) else { return Err(LogProblem::NoEnd { number }) };
        let stored = (span.end - span.start) as u64;
        self.packings.stored_bytes += stored;
        let head = span.start + self.framing.head();
        let record = match span.packing {
            Packing::Raw => {
                self.packings.raw += 1;
                // The key overwrites the word of the previous block, which has been read.
                batch.bytes.get_mut(head - NUMBER..span.end).unwrap_or_default()
            }
            packing => {
                match packing {
                    Packing::Dictionary(_) => self.packings.zstd_dictionary += 1,
                    _ => self.packings.zstd += 1,
                }
                let stored = batch.bytes.get(head..span.end).unwrap_or_default();
                let unpacked = self.unpacker.unpack_with_room(stored, packing);
                let unpacked = unpacked.map_err(|problem| problem.at_block(Some(number)))?;
                unpacked.get_mut(ROOM - NUMBER..).unwrap_or_default()
            }
        };
        let header = self.framing.header(record.get(NUMBER..).unwrap_or_default());
        let header = header.map_err(|problem| bad_header(problem, span.packing, Some(number)))?;
        let Header { id, previous, .. } = header;
        if self.expectations.links
            && let Some(before) = self.before
            && previous != before
        {
            if let Packing::Dictionary(dictionary) = span.packing
                && header.number != number
            {
                return Err(LogProblem::WrongDictionary { number: Some(number), dictionary });
            }
            return Err(LogProblem::Link { number, previous, before });
        }
        if header.number != number {
            return Err(LogProblem::Number { expected: number, found: header.number });
        }
        if number == 1 && self.expectations.links && !previous.is_zero() {
            let before = Id::from_slice(&[0; 32][..previous.as_bytes().len()]).unwrap_or(previous);
            return Err(LogProblem::Link { number, previous, before });
        }
        if number == 1
            && let Some(head) = self.expectations.chain_id
        {
            let block = record.get(NUMBER..).unwrap_or_default();
            let named = chain::action_root(block).map_err(|problem| LogProblem::Block { number, problem })?;
            if named != head {
                return Err(LogProblem::Genesis { head, named });
            }
        }
        if !self.expectations.checkpoints.is_empty()
            && let Some(&expected) = self.expectations.checkpoints.get(&number)
        {
            if expected != id {
                return Err(LogProblem::Checkpoint { number, expected, found: id });
            }
            self.checkpoints += 1;
        }
        self.before = Some(id);
        self.next = number.wrapping_add(1);
        if let Some(key) = record.first_chunk_mut::<NUMBER>() {
            *key = number.to_be_bytes();
        }
        Ok(Checked { record, header })
    }
}
