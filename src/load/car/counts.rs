//! Counts of the blocks of each source, while threads read it.

use parking_lot::Mutex;

use crate::hash::Content;
use crate::source::car::{Chunks, SourceRead};

/// Blocks, bytes of their values, and omitted blocks, of each source.
pub(super) struct Counts(Mutex<Vec<(Content, u64, u64)>>);

impl Counts {
    /// Begins with what an earlier run has read, in the order of the sources.
    pub fn new(sources: u32, known: &[SourceRead]) -> Self {
        let mut counts = vec![(Content::default(), 0, 0); sources as usize];
        for read in known {
            if let Some(count) = counts.get_mut(read.source as usize) {
                *count = (read.content(), read.payload, read.omitted);
            }
        }
        Self(Mutex::new(counts))
    }

    /// Adds blocks of one source.
    pub fn add(&self, source: u32, content: Content, payload: u64, omitted: u64) {
        if let Some((all, bytes, left_out)) = self.0.lock().get_mut(source as usize) {
            all.merge(content);
            *bytes += payload;
            *left_out += omitted;
        }
    }

    /// All blocks, and the bytes of their values.
    pub fn total(&self) -> (Content, u64) {
        let counts = self.0.lock();
        (counts.iter().map(|(content, ..)| *content).sum(), counts.iter().map(|(_, payload, _)| payload).sum())
    }

    /// Takes what the journal does not have of the sources from number `noted` on, which becomes the current source. No thread
    /// may be working on blocks.
    pub fn take_delta(&self, chunks: &mut Chunks, noted: &mut u32) -> Vec<SourceRead> {
        let first = std::mem::replace(noted, chunks.source);
        let last = chunks.source;
        let reads = self.fill(chunks).get_mut(first as usize..=last as usize).unwrap_or_default();
        reads.iter_mut().map(SourceRead::take_delta).collect()
    }

    /// All sources with their counts.
    pub fn all(&self, chunks: &mut Chunks) -> Vec<SourceRead> {
        self.fill(chunks).to_vec()
    }

    fn fill<'c>(&self, chunks: &'c mut Chunks) -> &'c mut [SourceRead] {
        let reads = chunks.update_reads();
        for (read, (content, payload, omitted)) in reads.iter_mut().zip(self.0.lock().iter()) {
            (read.blocks, read.digest, read.payload, read.omitted) =
                (content.records, content.digest, *payload, *omitted);
        }
        reads
    }
}
