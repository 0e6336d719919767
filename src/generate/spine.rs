//! The chain of headers that links to every chunk.
//!
//! ```text
//! header = [miner: bytes, ticket: [bytes], election proof: [wins, bytes], beacon entries: [], win-post proof: [],
//!           parents: [link, ..], parent weight: bytes, height, parent state root: link, parent receipts: link,
//!           messages: link, aggregate: bytes, time, signature: bytes, fork signaling: 0, base fee: bytes]
//! ```
//!
//! These are the fields of a Filecoin header. The header of chunk N links to the header of chunk N-1, and as state,
//! receipts and messages to the chunk's root. The last chunk has several headers, the head tipset, which are the roots
//! of the CAR.

use cid::Cid;

use super::Spec;
use super::cbor::{self, BlockName};
use super::plan::{CHUNK_BYTES, section_len};
use super::random::Noise;
use super::{block, envelope};

/// Snapshots from this size on have several roots.
const TIPSET_FROM: u64 = 64 << 10;
const TIPSET: usize = 3;
/// Seconds between two heights, and the time of height 0: Filecoin's.
const EPOCH_SECONDS: u64 = 30;
const GENESIS: u64 = 1_598_306_400;
const HEADERS: u64 = 3 << 62;

/// The division of a snapshot into chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spine {
    seed: u64,
    pub(super) chunks: u64,
    roots: usize,
    body: u64,
}

impl Spine {
    pub(super) fn new(spec: &Spec) -> Self {
        let roots = if spec.size < TIPSET_FROM { 1 } else { TIPSET };
        let chunks = (spec.size.saturating_add(CHUNK_BYTES / 2) / CHUNK_BYTES).max(1);
        let spine = Self { seed: spec.seed, chunks, roots, body: 0 };
        let header = envelope::car_header(&spine.blank_roots()).len() as u64;
        Self { body: spec.size.saturating_sub(header), ..spine }
    }

    /// Roots of the right number and length, until the real ones are known.
    pub(super) fn blank_roots(&self) -> Vec<Cid> {
        vec![BlockName::BLANK.cid(); self.roots]
    }

    /// Bytes of the tree of a chunk: its share, less its headers.
    pub(super) fn budget(&self, chunk: u64) -> u64 {
        let upto = |n: u64| (u128::from(self.body) * u128::from(n) / u128::from(self.chunks)) as u64;
        let headers = self.headers(chunk, Some(BlockName::BLANK), BlockName::BLANK);
        let headers: u64 = headers.iter().map(|header| section_len(header.len())).sum();
        (upto(chunk + 1) - upto(chunk)).saturating_sub(headers).max(section_len(block::SMALLEST))
    }

    /// The headers of a chunk: one, or the head tipset. `parent` is ignored for the first.
    pub(super) fn headers(&self, chunk: u64, parent: Option<BlockName>, state: BlockName) -> Vec<Vec<u8>> {
        let parent = parent.filter(|_| chunk > 0);
        let miners = if chunk + 1 == self.chunks { self.roots } else { 1 };
        (0..miners as u64).map(|miner| self.header(chunk, miner, parent, &state)).collect()
    }

    fn header(&self, height: u64, miner: u64, parent: Option<BlockName>, state: &BlockName) -> Vec<u8> {
        let mut noise = Noise::new(self.seed, HEADERS | height);
        let mut out = Vec::with_capacity(1024);
        let bytes = |out: &mut Vec<u8>, content: &[u8]| {
            cbor::head(out, cbor::BYTES, content.len() as u64);
            out.extend_from_slice(content);
        };
        let mut random = |out: &mut Vec<u8>| {
            let mut content = [0; 96];
            noise.fill(&mut content);
            bytes(out, &content);
        };
        cbor::head(&mut out, cbor::ARRAY, 16);
        bytes(&mut out, &[0, 0x80 | miner as u8, 0x08]);
        cbor::head(&mut out, cbor::ARRAY, 1);
        random(&mut out);
        cbor::head(&mut out, cbor::ARRAY, 2);
        cbor::head(&mut out, cbor::UINT, 1);
        random(&mut out);
        // No beacon entries, no win-post proof.
        cbor::head(&mut out, cbor::ARRAY, 0);
        cbor::head(&mut out, cbor::ARRAY, 0);
        cbor::head(&mut out, cbor::ARRAY, u64::from(parent.is_some()));
        parent.iter().for_each(|parent| cbor::link(&mut out, parent));
        bytes(&mut out, &(height << 24).to_be_bytes());
        cbor::head(&mut out, cbor::UINT, height);
        (0..3).for_each(|_| cbor::link(&mut out, state));
        random(&mut out);
        cbor::head(&mut out, cbor::UINT, GENESIS + height * EPOCH_SECONDS);
        random(&mut out);
        cbor::head(&mut out, cbor::UINT, 0);
        bytes(&mut out, &[0, 0, 0, 0x64]);
        out
    }
}
