//! One chunk of a snapshot: sections with correct CIDs, children before their parents.

use blake2b_simd::Params;
use blake2b_simd::many::{HashManyJob, hash_many};

use super::block::Filler;
use super::cbor::{self, BlockName, CID_LEN, CID_PREFIX};
use super::plan::{ChunkPlan, FANOUT, Leaf, levels};
use super::random::{Noise, mix};

/// Room for the number of a block within its chunk.
const ORDINAL_BITS: u32 = 20;

#[derive(Debug)]
pub(super) struct Maker {
    seed: u64,
    filler: Filler,
    params: Params,
}

#[derive(Debug, Default)]
pub(super) struct GeneratedChunk {
    pub(super) bytes: Vec<u8>,
    pub(super) sections: Vec<GeneratedSection>,
    pub(super) repeats: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct GeneratedSection {
    /// Start of the block in the chunk's bytes, after its CID.
    pub(super) body: usize,
    pub(super) end: usize,
    pub(super) name: BlockName,
}

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        let mut params = Params::new();
        params.hash_length(32);
        Self { seed, filler: Filler::new(seed), params }
    }

    /// Makes a chunk after its plan, in the memory of `out`. Returns the name of the tree's root.
    pub(super) fn make(&self, plan: &ChunkPlan, out: &mut GeneratedChunk) -> BlockName {
        out.bytes.clear();
        out.sections.clear();
        out.repeats = plan.repeats.len() as u64;
        let (own, others): (Vec<_>, Vec<_>) = plan.repeats.iter().partition(|repeat| repeat.chunk == plan.chunk);
        (0..plan.leaves.len()).for_each(|number| self.leaf(out, plan.leaf(number)));
        others.into_iter().for_each(|&repeat| self.leaf(out, repeat));
        out.name_all(&self.params, 0);
        own.into_iter().for_each(|repeat| out.repeat(repeat.number));

        let mut nodes = plan.nodes.iter().enumerate();
        let names = |sections: &[GeneratedSection]| sections.iter().map(|section| section.name).collect::<Vec<_>>();
        let mut children = names(&out.sections[..plan.leaves.len()]);
        for _ in levels(plan.leaves.len()).skip(1) {
            let level = out.sections.len();
            for (links, (node, &size)) in children.chunks(FANOUT).zip(&mut nodes) {
                let (tag, mut noise) = self.identity(plan.chunk, plan.leaves.len() + node);
                out.section(cbor::DAG_CBOR, size, |bytes| self.filler.dag_cbor(bytes, size, tag, links, &mut noise));
            }
            out.name_all(&self.params, level);
            children = names(&out.sections[level..]);
        }
        children[0]
    }

    /// Appends a block that is already encoded.
    pub(super) fn push(&self, out: &mut GeneratedChunk, body: &[u8]) -> BlockName {
        let at = out.sections.len();
        out.section(cbor::DAG_CBOR, body.len(), |bytes| bytes.extend_from_slice(body));
        out.name_all(&self.params, at);
        out.sections[at].name
    }

    fn leaf(&self, out: &mut GeneratedChunk, Leaf { chunk, number, size, raw }: Leaf) {
        let (tag, mut noise) = self.identity(chunk, number);
        out.section(if raw { cbor::RAW } else { cbor::DAG_CBOR }, size, |bytes| match raw {
            true => self.filler.raw(bytes, size, tag, &mut noise),
            false => self.filler.dag_cbor(bytes, size, tag, &[], &mut noise),
        });
    }

    /// The tag and the random numbers of a block, which depend on its place. Tags differ because [`mix`] is a
    /// bijection.
    fn identity(&self, chunk: u64, ordinal: usize) -> (u64, Noise) {
        let place = chunk << ORDINAL_BITS | ordinal as u64;
        (mix(place ^ mix(self.seed)), Noise::new(self.seed, place))
    }
}

impl GeneratedChunk {
    /// Appends a section whose CID is blank.
    fn section(&mut self, codec: u8, size: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = unsigned_varint::encode::usize_buffer();
        self.bytes.extend_from_slice(unsigned_varint::encode::usize(CID_LEN + size, &mut buffer));
        let name = BlockName { codec, digest: [0; 32] };
        self.bytes.extend_from_slice(&name.bytes());
        let body = self.bytes.len();
        write(&mut self.bytes);
        self.sections.push(GeneratedSection { body, end: self.bytes.len(), name });
    }

    fn repeat(&mut self, leaf: usize) {
        let start = leaf.checked_sub(1).map_or(0, |before| self.sections[before].end);
        let GeneratedSection { body, end, name } = self.sections[leaf];
        let shift = self.bytes.len() - start;
        self.bytes.extend_from_within(start..end);
        self.sections.push(GeneratedSection { body: body + shift, end: end + shift, name });
    }

    /// Fills in the CIDs of all sections from number `from` on, several blocks at once by vector instructions.
    fn name_all(&mut self, params: &Params, from: usize) {
        let mut jobs: Vec<HashManyJob<'_>> = self.sections[from..]
            .iter()
            .map(|section| HashManyJob::new(params, &self.bytes[section.body..section.end]))
            .collect();
        hash_many(jobs.iter_mut());
        for (section, job) in self.sections[from..].iter_mut().zip(&jobs) {
            section.name.digest.copy_from_slice(job.to_hash().as_bytes());
        }
        drop(jobs);
        for section in &self.sections[from..] {
            let digest = section.body - CID_LEN + CID_PREFIX..section.body;
            self.bytes[digest].copy_from_slice(&section.name.digest);
        }
    }
}
