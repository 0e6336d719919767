//! Counts blocks by size, codec and hash function, and checks them against their CIDs.

use std::collections::BTreeMap;
use std::path::Path;

use super::sizes::{SizeSum, Sizes};
use crate::error::Result;
use crate::hash::content_digest::ContentDigest;
use crate::hash::fingerprint::fingerprint;
use crate::hash::{BATCH, Checker, Claim, Function, problem_of};
use crate::read::snapshot::Snapshot;
use crate::read::visited::Visited;
use crate::report::{BadBlock, CodeCount, SizeClass};
use crate::source::car::chunk::Chunk;
use crate::source::car::{CidSpan, Section};

/// Bad blocks that are listed.
const LISTED: usize = 10;

/// A section of a chunk: its offset in the file, its CID and block, and the CID's parts.
type Found<'c> = (u64, &'c [u8], CidSpan);

/// Counts of one thread.
pub(super) struct BlockTally {
    checker: Checker,
    pub blocks: u64,
    pub distinct: u64,
    pub payload: u64,
    pub digest: ContentDigest,
    sizes: Sizes,
    codecs: BTreeMap<u64, SizeSum>,
    hashes: BTreeMap<u64, SizeSum>,
    pub bad: u64,
    first_bad: Vec<BadBlock>,
}

impl BlockTally {
    pub fn new() -> Self {
        Self {
            checker: Checker::new(),
            blocks: 0,
            distinct: 0,
            payload: 0,
            digest: ContentDigest::default(),
            sizes: Sizes::default(),
            codecs: BTreeMap::new(),
            hashes: BTreeMap::new(),
            bad: 0,
            first_bad: Vec::new(),
        }
    }

    /// Counts and hashes the blocks of a chunk and passes each to `see`.
    pub fn take(&mut self, path: &Path, chunk: &Chunk, visited: &Visited, see: &dyn Fn(&Section, &[u8])) -> Result<()> {
        let bytes = &*chunk.bytes;
        let mut found: Vec<Found<'_>> = Vec::with_capacity(chunk.starts.len());
        Snapshot::sections(path, chunk, |section, offset, _| {
            let body = section.body(bytes);
            see(section, body);
            found.push((offset, body, section.cid));
            Ok(())
        })?;
        for (_, body, span) in &found {
            let Some((cid, block)) = body.split_at_checked(span.len as usize) else { continue };
            let size = block.len() as u64;
            self.blocks += 1;
            self.payload += size;
            self.sizes.add(size);
            self.codecs.entry(span.codec).or_default().add(size);
            self.hashes.entry(span.hash).or_default().add(size);
            if visited.insert(fingerprint(cid))? {
                self.distinct += 1;
                self.digest.add_section(body, span.len as usize);
            }
        }
        found.chunks(BATCH).for_each(|batch| self.check(batch));
        Ok(())
    }

    fn check(&mut self, found: &[Found<'_>]) {
        let mut claims: Vec<Claim<'_>> = Vec::with_capacity(found.len());
        for (_, body, span) in found {
            let (cid, data) = body.split_at(body.len().min(span.len as usize));
            claims.push(Claim { code: span.hash, digest: cid.get(span.digest as usize..).unwrap_or_default(), data });
        }
        let (mut claims, mut found) = (claims.as_slice(), found);
        while let Err(failure) = self.checker.check(claims) {
            let (Some(claim), Some((offset, body, span))) = (claims.get(failure.index), found.get(failure.index))
            else {
                return;
            };
            self.bad += 1;
            let cid = body.get(..span.len as usize).unwrap_or_default();
            self.first_bad.push(BadBlock { offset: *offset, message: problem_of(cid, claim, &failure).to_string() });
            // Chunks are in file order, so each thread finds its first blocks first.
            self.first_bad.truncate(LISTED);
            claims = claims.get(failure.index + 1..).unwrap_or_default();
            found = found.get(failure.index + 1..).unwrap_or_default();
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.distinct += other.distinct;
        self.payload += other.payload;
        self.digest.merge(other.digest);
        self.sizes.merge(&other.sizes);
        other.codecs.into_iter().for_each(|(code, sum)| self.codecs.entry(code).or_default().merge(sum));
        other.hashes.into_iter().for_each(|(code, sum)| self.hashes.entry(code).or_default().merge(sum));
        self.bad += other.bad;
        self.first_bad.extend(other.first_bad);
        self.first_bad.sort_by_key(|bad| bad.offset);
        self.first_bad.truncate(LISTED);
    }

    pub fn first_bad(&self) -> Vec<BadBlock> {
        self.first_bad.clone()
    }

    pub fn sizes(&self) -> Vec<SizeClass> {
        self.sizes.classes()
    }

    pub fn codecs(&self) -> Vec<CodeCount> {
        counts(&self.codecs, |code| codec_name(code).map(str::to_owned))
    }

    pub fn hashes(&self) -> Vec<CodeCount> {
        counts(&self.hashes, |code| Function::from_code(code).map(|function| function.to_string()))
    }
}

/// Sorts by frequency, highest first.
fn counts(sums: &BTreeMap<u64, SizeSum>, name: impl Fn(u64) -> Option<String>) -> Vec<CodeCount> {
    let count =
        |(&code, sum): (&u64, &SizeSum)| CodeCount { code, name: name(code), blocks: sum.blocks, bytes: sum.bytes };
    let mut counts: Vec<CodeCount> = sums.iter().map(count).collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.blocks));
    counts
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
