//! Entry points of the fuzz targets: parsers, each compared with a simple model.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use crate::source::block_log::{Dictionaries, EntryBatch, Forward, TornTail};
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::car::{HeaderStep, NullPadding, Step, next_section, read_header};
use crate::source::input::{Body, Input};

/// The longest block of the fuzzed reader, in bytes: longer than a chunk, and fast.
const MAX_BLOCK: u64 = 1 << 20;

/// Reads `data` as a CAR in chunks of at least `chunk` bytes. Panics unless the result matches a reader of the whole data.
pub fn car(data: &[u8], chunk: usize, null_padding: NullPadding) {
    let limits = Limits {
        max_block: MAX_BLOCK,
        null_padding,
        fits: MAX_BLOCK,
        budget: 4 * MAX_BLOCK,
        chunk,
        records_roots: true,
    };
    let input = Input { size: None, ..Input::plain("fuzz", 0, Body::Stream(Box::new(Cursor::new(Arc::from(data))))) };
    let (header, mut chunks) = match (Chunks::open(input, limits), read_header(data, Some(data.len() as u64))) {
        (Ok((header, chunks)), Ok(HeaderStep::Header(expected))) => {
            assert_eq!(header, expected);
            assert!(header.blocks_start <= header.blocks_end().unwrap_or(data.len() as u64));
            (header, chunks)
        }
        (Err(error), Ok(HeaderStep::NeedMore(_)) | Err(_)) => {
            assert!(!error.hint().is_empty());
            return;
        }
        (_, expected) => panic!("the reader disagrees with {expected:?}"),
    };
    let mut starts = Vec::new();
    let mut spare = None;
    let clean = loop {
        match chunks.next(spare.take()) {
            Ok(Some(chunk)) => {
                let at = chunk.base as usize;
                assert_eq!(data.get(at..at + chunk.bytes.len()), Some(&chunk.bytes[..]));
                starts.extend(chunk.starts.iter().map(|&start| at + start as usize));
                spare = chunk.bytes.release();
            }
            Ok(None) => break true,
            Err(error) => {
                assert!(!error.hint().is_empty());
                assert!(matches!(chunks.next(None), Ok(None)), "after an error nothing more is read");
                break false;
            }
        }
    };
    let end = header.blocks_end().unwrap_or(data.len() as u64) as usize;
    let (expected, expected_clean) =
        frames(data.get(..end).unwrap_or(data), header.blocks_start as usize, null_padding);
    assert_eq!(starts, expected);
    assert_eq!(clean, expected_clean);
}

/// Returns the starts of the sections in `data` from `at` on, and true if it ends correctly.
fn frames(data: &[u8], mut at: usize, null_padding: NullPadding) -> (Vec<usize>, bool) {
    let mut starts = Vec::new();
    loop {
        let rest = data.get(at..).unwrap_or_default();
        match next_section(data, at, MAX_BLOCK) {
            Ok(Step::Section(section)) => {
                starts.push(at);
                assert!(section.cid_start + section.cid.len as usize <= section.end && section.end <= data.len());
                at = section.end;
            }
            Ok(Step::End) => return (starts, true),
            Ok(Step::Padding) => {
                return (starts, null_padding == NullPadding::Eof && rest.iter().all(|&byte| byte == 0));
            }
            Ok(Step::Cut { .. }) => return (starts, false),
            // The worker of the chunk reports a wrong CID in a whole section. Framing continues.
            Err(_) => match unsigned_varint::decode::u64(rest) {
                Ok((len, body)) if len <= body.len() as u64 => {
                    starts.push(at);
                    at += rest.len() - body.len() + len as usize;
                }
                _ => return (starts, false),
            },
        }
    }
}

/// Walks `data` as a block log, forward in batches of about `batch` bytes and backward from its end. Panics unless both
/// find the same entries.
pub fn block_log(data: &[u8], batch: usize, trim: bool) {
    let dictionaries = Dictionaries::new(None).expect("no directory");
    let tail = if trim { TornTail::Trim } else { TornTail::Error };
    let stream = Box::new(Cursor::new(Arc::from(data)));
    let mut forward = match Forward::open(Path::new("fuzz"), stream, tail, &dictionaries) {
        Ok(forward) => forward,
        Err(error) => return assert!(!error.hint().is_empty()),
    };
    let framing = forward.framing;
    let start = forward.preamble.as_ref().map_or(0, |preamble| preamble.len());
    let (mut found, mut end, mut taken) = (Vec::new(), start, EntryBatch::default());
    let clean = loop {
        match forward.next(&mut taken, batch, None, &|_| ()) {
            Ok(false) => break true,
            Ok(true) => {
                assert_eq!(taken.at as usize, end, "batches follow each other");
                for &span in &taken.spans {
                    let at = taken.offset(span) as usize;
                    let stored = taken.bytes.get(span.start..span.end).expect("inside of the batch");
                    assert_eq!(data.get(at..at + stored.len()), Some(stored));
                    found.push((at, at + stored.len(), span.packing));
                }
                end += taken.len() as usize;
            }
            Err(error) => {
                assert!(!error.hint().is_empty());
                assert!(
                    matches!(forward.next(&mut taken, batch, None, &|_| ()), Ok(false)),
                    "after an error nothing is read"
                );
                break false;
            }
        }
    };
    assert_eq!(clean && end < data.len(), clean && forward.rest > 0, "only a torn tail is left out");
    let mut spans = Vec::new();
    let whole = data.get(start..end).unwrap_or_default();
    assert_eq!(framing.walk_back(whole, start as u64, whole.len(), &mut spans), Ok(()));
    let spans: Vec<_> = spans.iter().map(|span| (span.start + start, span.end + start, span.packing)).collect();
    assert_eq!(spans, found);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn valid() -> Vec<u8> {
        let cbor = b"\xa2\x65roots\x80\x67version\x01";
        let mut bytes = vec![cbor.len() as u8];
        bytes.extend(cbor);
        for len in [0u8, 1, 100] {
            bytes.extend([4 + len, 1, 0x55, 0, 0]);
            bytes.extend(vec![b'x'; len.into()]);
        }
        bytes
    }

    /// A log of three blocks without transactions.
    fn sound_log() -> Vec<u8> {
        use sha2::{Digest, Sha224};
        let (mut log, mut previous) = (Vec::new(), vec![0u8; 20]);
        for number in 1u32..=3 {
            let start = log.len();
            log.extend(&previous);
            log.extend((1_500_000_000 + number).to_le_bytes());
            log.extend(b"\x03abc");
            log.extend([0; 21]);
            log.extend([9; 65]);
            previous = Sha224::digest(&log[start..])[..20].to_vec();
            previous[..4].copy_from_slice(&number.to_be_bytes());
            log.push(0);
            log.extend((start as u64).to_le_bytes());
        }
        log
    }

    #[test]
    fn a_sound_log_is_walked_both_ways() {
        block_log(&sound_log(), 1, false);
        block_log(&sound_log(), 1 << 20, true);
    }

    proptest! {
        #[test]
        fn damaged_logs_are_walked_both_ways(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
            trim: bool,
        ) {
            let mut bytes = sound_log();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            block_log(&bytes, 1, trim);
        }

        #[test]
        fn any_bytes_are_walked_both_ways(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..500),
            trim: bool,
        ) {
            block_log(&bytes, 1, trim);
        }
    }

    proptest! {
        #[test]
        fn reader_and_model_agree_on_damaged_snapshots(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            tail in prop::collection::vec(0u8..3, 0..30),
            chunk in 1usize..300,
            eof: bool,
        ) {
            let mut bytes = valid();
            bytes.extend(tail);
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            car(&bytes, chunk, if eof { NullPadding::Eof } else { NullPadding::Error });
        }
    }
}
