//! Counts blocks by size, codec and hash function, and checks them against their CIDs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Result;
use crate::hash::content_digest::{Content, ContentDigest};
use crate::hash::fingerprint::fingerprint;
use crate::hash::{BATCH, Checker, Claim, Function, problem_of};
use crate::read::keys::each_failure;
use crate::read::snapshot::SnapshotReader;
use crate::read::visited::Visited;
use crate::report::{BadBlock, CodeCount, InspectReport, SizeClass};
use crate::sort::router::Count;
use crate::source::car::chunk::Chunk;
use crate::source::car::{CidSpan, Section};

const LISTED: usize = 10;

/// Blocks and their bytes by codec, by hash function, or by the number of bits of their size.
#[derive(Default)]
pub(super) struct Sums(BTreeMap<u64, Count>);

impl Sums {
    fn add(&mut self, key: u64, Count { blocks, bytes }: Count) {
        let sum = self.0.entry(key).or_default();
        (sum.blocks, sum.bytes) = (sum.blocks + blocks, sum.bytes + bytes);
    }

    pub fn add_size(&mut self, bytes: u64) {
        self.add((u64::BITS - bytes.leading_zeros()).into(), Count { blocks: 1, bytes });
    }

    pub fn merge(&mut self, other: Self) {
        other.0.into_iter().for_each(|(key, count)| self.add(key, count));
    }

    pub fn total(&self) -> Count {
        let counts = || self.0.values();
        Count { blocks: counts().map(|it| it.blocks).sum(), bytes: counts().map(|it| it.bytes).sum() }
    }

    pub fn size_classes(&self) -> Vec<SizeClass> {
        let up_to = |bits: u64| if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
        let class = |(&bits, it): (&u64, &Count)| SizeClass { up_to: up_to(bits), blocks: it.blocks, bytes: it.bytes };
        self.0.iter().map(class).collect()
    }

    /// Sorts by frequency, highest first.
    fn codes(&self, name: impl Fn(u64) -> Option<String>) -> Vec<CodeCount> {
        let count =
            |(&code, it): (&u64, &Count)| CodeCount { code, name: name(code), blocks: it.blocks, bytes: it.bytes };
        let mut counts: Vec<CodeCount> = self.0.iter().map(count).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.blocks));
        counts
    }
}

/// A section of a chunk: its offset in the file, its CID and block, and the CID's parts.
type TalliedSection<'c> = (u64, &'c [u8], CidSpan);

/// Counts of one thread.
#[derive(Default)]
pub(super) struct BlockTally {
    checker: Checker,
    distinct: Content,
    sizes: Sums,
    codecs: Sums,
    hashes: Sums,
    bad: u64,
    first_bad: Vec<BadBlock>,
}

impl BlockTally {
    /// Counts and hashes the blocks of a chunk and passes each to `see`.
    pub fn take(&mut self, path: &Path, chunk: &Chunk, visited: &Visited, see: &dyn Fn(&Section, &[u8])) -> Result<()> {
        let bytes = &*chunk.bytes;
        let mut found: Vec<TalliedSection<'_>> = Vec::with_capacity(chunk.starts.len());
        SnapshotReader::sections(path, chunk, |section, offset, _| {
            let body = section.body(bytes);
            see(section, body);
            found.push((offset, body, section.cid));
            Ok(())
        })?;
        for (_, body, span) in &found {
            let Some((cid, block)) = body.split_at_checked(span.len as usize) else { continue };
            let bytes = block.len() as u64;
            let count = Count { blocks: 1, bytes };
            self.sizes.add_size(bytes);
            self.codecs.add(span.codec, count);
            self.hashes.add(span.hash, count);
            if visited.insert(fingerprint(cid))? {
                self.distinct.add(ContentDigest::of_section(body, cid.len()));
            }
        }
        found.chunks(BATCH).for_each(|batch| self.check(batch));
        Ok(())
    }

    fn check(&mut self, found: &[TalliedSection<'_>]) {
        let claims = found.iter().map(|(_, body, span)| {
            let (cid, data) = body.split_at(body.len().min(span.len as usize));
            Claim { code: span.hash, digest: cid.get(span.digest as usize..).unwrap_or_default(), data }
        });
        let claims: Vec<Claim<'_>> = claims.collect();
        each_failure(&mut self.checker, &claims, |index, failure| {
            let (Some(claim), Some((offset, body, span))) = (claims.get(index), found.get(index)) else { return };
            let cid = body.get(..span.len as usize).unwrap_or_default();
            self.bad += 1;
            self.first_bad.push(BadBlock { offset: *offset, message: problem_of(cid, claim, failure).to_string() });
            // Chunks are in file order, so each thread finds its first blocks first.
            self.first_bad.truncate(LISTED);
        });
    }

    pub fn merge(&mut self, other: Self) {
        self.distinct.merge(other.distinct);
        self.sizes.merge(other.sizes);
        self.codecs.merge(other.codecs);
        self.hashes.merge(other.hashes);
        self.bad += other.bad;
        self.first_bad.extend(other.first_bad);
        self.first_bad.sort_by_key(|bad| bad.offset);
        self.first_bad.truncate(LISTED);
    }

    /// Adds the counts of a whole snapshot to the report.
    pub fn fill(self, report: &mut InspectReport) {
        let total = self.sizes.total();
        report.blocks = Some(total.blocks);
        report.distinct = Some(self.distinct.records);
        report.duplicates = Some(total.blocks - self.distinct.records);
        report.payload_bytes = Some(total.bytes);
        report.digest = Some(self.distinct.digest);
        report.sizes = Some(self.sizes.size_classes());
        report.codecs = Some(self.codecs.codes(|code| codec_name(code).map(str::to_owned)));
        report.hashes = Some(self.hashes.codes(|code| Function::from_code(code).map(|function| function.to_string())));
        report.bad_blocks = Some(self.bad);
        report.first_bad = self.first_bad;
        report.valid = self.bad == 0;
    }
}

/// Names of the codecs that occur in snapshots, from the multicodec table.
fn codec_name(code: u64) -> Option<&'static str> {
    Some(match code {
        0x51 => "cbor",
        0x55 => "raw",
        0x70 => "dag-pb",
        0x71 => "dag-cbor",
        0x72 => "libp2p-key",
        0x78 => "git-raw",
        0x85 => "dag-jose",
        0x90 => "eth-block",
        0x0129 => "dag-json",
        0x0200 => "json",
        0xf101 => "fil-commitment-unsealed",
        0xf102 => "fil-commitment-sealed",
        _ => return None,
    })
}
