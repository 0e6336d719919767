//! Set-up of partitions: the router, and the sources that partitions refer to.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::load::car::blocks::Block;
use crate::load::context::Job;
use crate::load::planner;
use crate::load::sink::batches::block_share;
use crate::report::SortPlan;
use crate::sort::{KeyLayout, ReferencedSource, ReferencedSources, Router, Spill};
use crate::source::car::{Chunk, Chunks};

/// The most bytes of sections from which the classes of keys are learned, but for the first section. This is less than a
/// chunk in any memory budget: the classes decide where files end.
const SAMPLE: usize = 448 << 10;

/// Sources that stay open while partitions that refer to them are built; each of more is opened when it is needed.
const KEPT_OPEN: usize = 16;

/// Learns the classes of keys from the beginning of the first chunk.
pub(super) fn learn_router(first: Option<&Chunk>, bits: u32, layout: KeyLayout) -> Router {
    let sample = first.into_iter().flat_map(|chunk| {
        chunk.starts.iter().filter_map(move |&start| {
            let block = Block::at(chunk, start)?;
            let block = Some(block).filter(|block| start == 0 || block.section.end <= SAMPLE)?;
            Some((block.record(layout).key(), layout.digest_in_key(&block.section.cid)))
        })
    });
    Router::learn(sample, bits)
}

/// Prepares the partitions. They refer to the source if the run that made them decided so.
pub(super) fn prepare_spill(job: &Job<'_>, sort: &SortPlan, router: &Router, chunks: &Chunks) -> Result<Spill> {
    let Job { plan, resumed, .. } = *job;
    let by_reference = resumed.car.by_reference.unwrap_or(sort.by_reference && resumed.digest_key.is_some());
    let referenced = if by_reference { referenced_sources(job, chunks)? } else { None };
    let piece_bytes = planner::piece_bytes_for(plan, sort, router.partitions());
    // An import from a network makes many checkpoints, each of which would pad every partition to a whole block.
    let cached = sort.cached || job.sources.has_remote();
    // The run that began may have had more memory, and have accepted larger blocks.
    let budget = resumed.car.read.as_ref().map(|_| (job.options.memory_budget(), block_share(plan)));
    let mut spill = Spill::new(job.target.spill.clone(), router.partitions());
    (spill.referenced, spill.budget) = (referenced, budget);
    spill.with_page_cache(cached, piece_bytes, plan.threads)
}

/// The files that partitions refer to; `None` if a source is no file.
fn referenced_sources(job: &Job<'_>, chunks: &Chunks) -> Result<Option<ReferencedSources>> {
    let (names, sizes) = (&job.sources.names, job.sources.bytes());
    let mut sources = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        let file = match names.len() {
            // It may have no name that could be opened again.
            1 => match chunks.file() {
                Some(file) => Some(file.try_clone().map_err(Error::io("open", name))?),
                None => return Ok(None),
            },
            2..=KEPT_OPEN => Some(job.sources.reopen(number)?),
            _ => None,
        };
        let bytes = match (&file, sizes.get(number)) {
            (_, Some(Some(bytes))) => *bytes,
            (Some(file), _) => file.metadata().map_err(Error::io("read metadata of", name))?.len(),
            (None, _) => return Ok(None),
        };
        sources.push(ReferencedSource { name: name.clone(), bytes, file });
    }
    let known = Arc::clone(job.sources);
    Ok(Some(ReferencedSources { sources, open: Box::new(move |number| known.reopen(number)) }))
}
