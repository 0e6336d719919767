//! The output of one column family of a range: its sink, and the tally of its records.

use crate::error::Result;
use crate::hash::content_digest::ContentDigest;
use crate::load::built::{FamilyDone, Tally};
use crate::load::sink::Sink;

/// One column family of a range that is being built.
pub(super) struct Output<'a> {
    sink: Sink<'a>,
    tally: Tally,
}

impl<'a> Output<'a> {
    pub fn new(sink: Sink<'a>) -> Self {
        Self { sink, tally: Tally::default() }
    }

    /// From now on records are only counted.
    pub fn only_count(&mut self) {
        if !self.is_discarded() {
            self.sink = Sink::CountOnly;
        }
    }

    /// Writes a record whose value follows its key.
    pub fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        if self.is_discarded() {
            return Ok(());
        }
        let digest = ContentDigest::of_section(record, key_len);
        self.tally.written.add(digest);
        self.sink.put(record, key_len, digest)
    }

    /// Counts a record as a duplicate of an earlier one with the same key.
    pub fn repeated(&mut self, record: &[u8], key_len: usize) {
        self.tally.duplicates.add(ContentDigest::of_section(record, key_len));
    }

    /// The tally so far; `None` if records are discarded.
    pub fn tally(&self) -> Option<Tally> {
        (!self.is_discarded()).then_some(self.tally)
    }

    pub fn finish(self) -> Result<FamilyDone> {
        Ok(FamilyDone { files: self.sink.finish()?, tally: self.tally, repeats: Vec::new() })
    }

    fn is_discarded(&self) -> bool {
        matches!(self.sink, Sink::Discard)
    }
}
