//! Skipping what an earlier run has read, and comparing it with sources that may have changed since.

use crate::error::{Error, Result};
use crate::hash::{Content, ContentDigest};
use crate::load::car::blocks::Block;
use crate::load::context::Job;
use crate::load::identity;
use crate::load::journal::Checkpoint;
use crate::load::links::Gathered;
use crate::load::options::ImportOptions;
use crate::source::car::{Chunks, Section};

/// The error for a source that is not the one that an earlier run has read. It names the source if there are several.
pub(super) fn another_source(chunks: &Chunks, source: Option<u32>, options: &ImportOptions) -> Error {
    let name = source.filter(|_| chunks.sources() > 1).map(|source| chunks.name_of(source));
    identity::another_source(options, name)
}

/// Skips what an earlier run has taken, and checks that it is the same: a stream by its checksum, other sources that may have
/// been touched by the content digest of their blocks. An earlier source that was not touched is not opened. If links are
/// followed, all blocks are read again for their keys and links.
pub(super) fn skip(chunks: &mut Chunks, checkpoint: &Checkpoint, job: &Job<'_>) -> Result<()> {
    let Job { options, resumed, links, .. } = *job;
    let known =
        |source: u32| resumed.car.sources.iter().find(|known| known.source == source).cloned().unwrap_or_default();
    // What was taken was valid, so bad input shows another source.
    let or_another = |chunks: &Chunks, source: u32, error: Error| match error {
        Error::BadInput { .. } => another_source(chunks, Some(source), options),
        error => error,
    };
    let compare = |chunks: &mut Chunks, source: u32, offset: Option<u64>| {
        let known = known(source);
        let found = read_again(chunks, offset, job).map_err(|error| or_another(chunks, source, error))?;
        let is_same = found == known.content() && (offset.is_some() || chunks.is_at(known.offset, known.padding));
        if is_same { Ok(()) } else { Err(another_source(chunks, Some(source), options)) }
    };
    let go_to =
        |chunks: &mut Chunks, source: u32| chunks.go_to(source).map_err(|error| or_another(chunks, source, error));
    for source in 0..checkpoint.source {
        if links.is_some() || resumed.is_source_touched(source) {
            go_to(chunks, source)?;
            compare(chunks, source, None)?;
        }
    }
    let last = checkpoint.source;
    go_to(chunks, last)?;
    // Only a touched source need be read again.
    let is_known = !resumed.is_source_touched(last) && links.is_none();
    if !is_known && checkpoint.checksum.is_none() {
        compare(chunks, last, Some(checkpoint.offset))?;
    }
    // Only a stream passes sections by here.
    let mut gathered = Gathered::default();
    let mut each = |bytes: &[u8], section: Section| {
        let Some(links) = links else { return Ok(()) };
        if options.keeps(&section, bytes)? {
            links.gather(&section.cid, section.body(bytes), &mut gathered);
        }
        links.add(&mut gathered)
    };
    let restart = checkpoint.restart.as_ref().filter(|_| checkpoint.checksum.is_none() || is_known);
    let skipped = chunks.skip_to(checkpoint.offset, known(last).end, restart, links.is_some().then_some(&mut each));
    skipped.map_err(|error| or_another(chunks, last, error))?;
    if checkpoint.checksum.is_some() && chunks.checksum().is_some() && chunks.checksum() != checkpoint.checksum {
        return Err(another_source(chunks, Some(last), options));
    }
    chunks.resume_skipped_block(known(last).f3.as_deref());
    Ok(())
}

/// Checks that the sources are those that an earlier run has read to their ends. Untouched files are.
pub(in crate::load) fn check_whole(chunks: &mut Chunks, job: &Job<'_>) -> Result<()> {
    let Job { options, resumed, .. } = *job;
    if !resumed.is_touched() && job.links.is_none() {
        return Ok(());
    }
    let Some((checkpoint, padding)) = resumed.whole() else { return Err(another_source(chunks, None, options)) };
    chunks.resume_sources(&resumed.car.sources);
    skip(chunks, &checkpoint, job)?;
    match chunks.next(None) {
        Ok(None) if chunks.tail().padding == padding => Ok(()),
        Ok(_) | Err(Error::BadInput { .. }) => Err(another_source(chunks, Some(checkpoint.source), options)),
        Err(error) => Err(error),
    }
}

/// Reads the blocks of this source again, those before `offset` or all. Returns the content of their records, or of those of
/// the shard.
fn read_again(chunks: &mut Chunks, offset: Option<u64>, job: &Job<'_>) -> Result<Content> {
    let Job { options, resumed, links, .. } = *job;
    let router = resumed.car.router.as_ref();
    let mut found = Content::default();
    let mut gathered = Gathered::default();
    let mut spare = None;
    while offset.is_none_or(|offset| chunks.position() < offset) {
        // Null padding may follow.
        let Some(chunk) = chunks.next_here(spare.take())? else { break };
        let before = |start: &&u32| offset.is_none_or(|offset| chunk.base + u64::from(**start) < offset);
        for &start in chunk.starts.iter().take_while(before) {
            let Some(block) = Block::at(&chunk, start) else {
                if options.shard.is_none() {
                    found.add(ContentDigest::default());
                }
                continue;
            };
            if !options.keeps(&block.section, &chunk.bytes)? {
                continue;
            }
            if let Some(links) = links {
                links.gather(&block.section.cid, block.body(), &mut gathered);
            }
            if router.is_none_or(|router| block.route(router, options.key).1.is_own) {
                found.add(block.record(options.key).checked_digest(resumed.digest_key.as_ref()));
            }
        }
        chunk.bytes.check()?;
        links.map_or(Ok(()), |links| links.add(&mut gathered))?;
        options.check_cancelled()?;
        spare = chunk.bytes.release();
    }
    Ok(found)
}
