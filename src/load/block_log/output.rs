//! The outputs of a range: the destinations of its records, and the tally of what went there.

use std::cell::RefCell;
use std::rc::Rc;

use crate::error::Result;
use crate::hash::content_digest::ContentDigest;
use crate::load::built::{FamilyDone, Tally};
use crate::load::sink::batches::BatchBuilder;
use crate::load::sink::sst::RotatingSstWriter;
use crate::rocks::{Batch, Writer};

/// Bytes of records that are written again at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// One family's part of a range that is being built, records in ascending order.
pub(super) struct Output<'a> {
    to: Destination<'a>,
    tally: Tally,
}

/// Where records go.
enum Destination<'a> {
    /// The import does not make the family.
    Discard,
    /// The family has the records already: they are counted.
    CountOnly,
    Files(RotatingSstWriter<'a>),
    Batches(BatchSink<'a>),
    Rewrite(Rewrite<'a>),
}

/// One family's way into the batches that a thread gathers.
#[derive(Clone)]
pub(super) struct BatchSink<'a> {
    pub writer: Rc<Writer<'a>>,
    pub batches: Rc<RefCell<BatchBuilder>>,
}

/// Records that were written in any order: the first one of each key is written again where there are several, so that it
/// is the last one written.
struct Rewrite<'a> {
    writer: Writer<'a>,
    batch: Batch,
}

impl BatchSink<'_> {
    pub fn put(&self, key: &[u8], value: &[u8]) {
        self.batches.borrow_mut().put(&self.writer, key, value);
    }
}

impl<'a> Output<'a> {
    /// Records go to files; without any they are discarded and not counted.
    pub fn to_files(files: Option<RotatingSstWriter<'a>>) -> Self {
        Self { to: files.map_or(Destination::Discard, Destination::Files), tally: Tally::default() }
    }

    /// Records go into batches; without any they are discarded and not counted.
    pub fn to_batches(sink: Option<BatchSink<'a>>) -> Self {
        Self { to: sink.map_or(Destination::Discard, Destination::Batches), tally: Tally::default() }
    }

    /// Records were written in any order; the first one of a repeated key is written again.
    pub fn rewrite(writer: Writer<'a>) -> Self {
        Self { to: Destination::Rewrite(Rewrite { writer, batch: Batch::default() }), tally: Tally::default() }
    }

    /// From now on records are only counted.
    pub fn only_count(&mut self) {
        if !matches!(self.to, Destination::Discard) {
            self.to = Destination::CountOnly;
        }
    }

    /// Appends a record whose value follows its key.
    pub fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        if matches!(self.to, Destination::Discard) {
            return Ok(());
        }
        let digest = ContentDigest::of_section(record, key_len);
        self.tally.digest.merge(digest);
        self.tally.records += 1;
        match &mut self.to {
            Destination::Discard | Destination::CountOnly | Destination::Rewrite(_) => Ok(()),
            Destination::Files(files) => files.put(record, key_len, digest),
            Destination::Batches(sink) => {
                let (key, value) = record.split_at(key_len);
                sink.put(key, value);
                Ok(())
            }
        }
    }

    /// Counts `record` as a duplicate of `kept`, which has the same key and stays.
    pub fn repeated(&mut self, record: &[u8], kept: &[u8], key_len: usize) -> Result<()> {
        self.tally.duplicates += 1;
        self.tally.duplicate_digest.add_section(record, key_len);
        match &mut self.to {
            Destination::Rewrite(rewrite) => rewrite.put(kept, key_len),
            _ => Ok(()),
        }
    }

    /// The tally so far; `None` where records are discarded.
    pub fn tally(&self) -> Option<Tally> {
        (!matches!(self.to, Destination::Discard)).then_some(self.tally)
    }

    /// Completes and syncs open files; the thread that owns the batch builder sends batches.
    pub fn finish(self) -> Result<FamilyDone> {
        let files = match self.to {
            Destination::Files(files) => files.finish()?,
            Destination::Rewrite(mut rewrite) => {
                rewrite.write()?;
                Vec::new()
            }
            Destination::Discard | Destination::CountOnly | Destination::Batches(_) => Vec::new(),
        };
        Ok(FamilyDone { files, tally: self.tally, repeats: Vec::new() })
    }
}

impl Rewrite<'_> {
    fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        let (key, value) = record.split_at(key_len);
        self.writer.put(&mut self.batch, key, value);
        if self.batch.bytes() >= REWRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        if self.batch.records() > 0 {
            self.writer.write(&self.batch)?;
            self.batch.clear();
        }
        Ok(())
    }
}
