//! What an earlier run has read: passed over, and compared where it may have changed since.

use crate::error::{Error, Result};
use crate::hash::content_digest::{Content, ContentDigest};
use crate::load::car::blocks::Block;
use crate::load::identity;
use crate::load::journal::{Checkpoint, ResumedState};
use crate::load::links::{Gathered, LinkList};
use crate::load::options::ImportOptions;
use crate::source::car::Section;
use crate::source::car::chunks::Chunks;
use crate::source::car::sources::SourceRead;

/// What an earlier run has read of each source.
pub(super) fn all(chunks: &mut Chunks, resumed: &ResumedState) -> Vec<SourceRead> {
    chunks.resume_sources(&resumed.sources);
    chunks.known()
}

/// The error for a source that is not what an earlier run has read; which one, where there are several.
pub(super) fn another_source(chunks: &Chunks, source: Option<u32>, options: &ImportOptions) -> Error {
    let name = source.filter(|_| chunks.sources() > 1).map(|source| chunks.name_of(source));
    identity::another_source(options, name)
}

/// Skips what an earlier run has taken, and checks that it is still the same: the last source, where it is a stream, by its
/// checksum, and what may have been touched by the content digest of its blocks. An earlier source that was not touched is
/// not opened. Their keys and links go to `links`.
pub(in crate::load) fn skip(
    chunks: &mut Chunks,
    checkpoint: &Checkpoint,
    options: &ImportOptions,
    resumed: &ResumedState,
    links: Option<&LinkList>,
) -> Result<()> {
    let known = |source: u32| resumed.sources.iter().find(|known| known.source == source).cloned().unwrap_or_default();
    let compared = |chunks: &mut Chunks, source: u32, offset: Option<u64>| {
        let known = known(source);
        let found = read_again(chunks, offset, options, resumed, links).map_err(|error| match error {
            // What was taken was valid.
            Error::BadInput { .. } => another_source(chunks, Some(source), options),
            error => error,
        })?;
        let is_same = found == known.content() && (offset.is_some() || chunks.is_at(known.offset, known.padding));
        if is_same { Ok(()) } else { Err(another_source(chunks, Some(source), options)) }
    };
    let go_to = |chunks: &mut Chunks, source: u32| match chunks.go_to(source) {
        Err(Error::BadInput { .. }) => Err(another_source(chunks, Some(source), options)),
        outcome => outcome,
    };
    for source in 0..checkpoint.source {
        if links.is_some() || resumed.is_source_touched(source) {
            go_to(chunks, source)?;
            compared(chunks, source, None)?;
        }
    }
    let last = checkpoint.source;
    go_to(chunks, last)?;
    if (links.is_some() || resumed.is_source_touched(last)) && checkpoint.checksum.is_none() {
        compared(chunks, last, Some(checkpoint.offset))?;
    }
    // Only a stream passes sections by here.
    let mut gathered = Gathered::default();
    let mut each = |bytes: &[u8], section: Section| match links {
        Some(links) => {
            links.gather(&section.cid, section.body(bytes), &mut gathered);
            links.add(&mut gathered)
        }
        None => Ok(()),
    };
    // What is known to be the same need not be read again.
    let is_known = !resumed.is_source_touched(last) && links.is_none();
    let restart = checkpoint.restart.as_ref().filter(|_| checkpoint.checksum.is_none() || is_known);
    match chunks.skip_to(checkpoint.offset, known(last).end, restart, links.is_some().then_some(&mut each)) {
        // What was taken was valid.
        Err(Error::BadInput { .. }) => return Err(another_source(chunks, Some(last), options)),
        outcome => outcome?,
    }
    if checkpoint.checksum.is_some() && chunks.checksum().is_some() && chunks.checksum() != checkpoint.checksum {
        return Err(another_source(chunks, Some(last), options));
    }
    chunks.resume_skipped_block(known(last).f3.as_deref());
    Ok(())
}

/// Checks that the sources are what an earlier run has read to its end. Untouched files are.
pub(in crate::load) fn is_whole(
    chunks: &mut Chunks,
    resumed: &ResumedState,
    options: &ImportOptions,
    links: Option<&LinkList>,
) -> Result<()> {
    if !resumed.is_touched() && links.is_none() {
        return Ok(());
    }
    let Some((checkpoint, padding)) = resumed.whole() else { return Err(another_source(chunks, None, options)) };
    chunks.resume_sources(&resumed.sources);
    skip(chunks, &checkpoint, options, resumed, links)?;
    match chunks.next(None) {
        Ok(None) if chunks.tail().padding == padding => Ok(()),
        Ok(_) | Err(Error::BadInput { .. }) => Err(another_source(chunks, Some(checkpoint.source), options)),
        Err(error) => Err(error),
    }
}

/// Reads the blocks of this source again, those before `offset` or all: the content of their records, of the shard alone
/// where there is one.
fn read_again(
    chunks: &mut Chunks,
    offset: Option<u64>,
    options: &ImportOptions,
    resumed: &ResumedState,
    links: Option<&LinkList>,
) -> Result<Content> {
    let router = resumed.router.as_ref();
    let mut found = Content::default();
    let mut gathered = Gathered::default();
    let mut spare = None;
    while offset.is_none_or(|offset| chunks.position() < offset) {
        let Some(chunk) = chunks.next_here(spare.take())? else {
            // Null padding may be what is left.
            break;
        };
        let before = |start: &&u32| offset.is_none_or(|offset| chunk.base + u64::from(**start) < offset);
        for &start in chunk.starts.iter().take_while(before) {
            let Some(block) = Block::at(&chunk, start) else {
                if options.shard.is_none() {
                    found.add(ContentDigest::default());
                }
                continue;
            };
            if let Some(links) = links {
                links.gather(&block.section.cid, block.body(), &mut gathered);
            }
            if router.is_none_or(|router| block.route(router, options.key).1.is_own) {
                found.add(block.record(options.key).checked_digest(resumed.digest_key.as_ref()));
            }
        }
        chunk.bytes.check()?;
        links.map_or(Ok(()), |links| links.add(&mut gathered))?;
        if options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        spare = chunk.bytes.release();
    }
    Ok(found)
}
