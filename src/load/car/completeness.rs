//! The completeness of a snapshot: its roots and the linked blocks are among its blocks. Also finds its head.

use std::collections::BTreeMap;

use crate::blocks::dag::header::chain_header;
use crate::error::{Error, InputKind, Problem, Result};
use crate::load::context::{Completeness, Job};
use crate::load::links::{Gathered, LinkList, MissingLinks};
use crate::load::options::Links;
use crate::progress::{Event, Phase};
use crate::report::{F3Report, Head, LinkReport, rfc3339};
use crate::rocks::{Reader, ReaderOptions, Visit};
use crate::sort::{KeyLayout, Router};
use crate::source::StatedProblem;
use crate::source::car::{Metadata, RawCid, SkippedCount, SourceRead, read_cid};
use crate::text::size::{counted, grouped};

/// Number of missing roots and links that the report names.
const NAMED: usize = 10;

/// Number of these in a message.
const NAMED_IN_MESSAGE: usize = 3;

/// Roots that are looked up at once.
const LOOKED_UP: usize = 256;

/// Keys of an existing database that are added at once.
const ADDED: usize = 1 << 12;

/// The networks of Filecoin, and the block of the genesis of each.
const GENESIS: [(&str, &str); 2] = [
    ("mainnet", "bafy2bzacecnamqgqmifpluoeldx7zzglxcljo6oja4vrmtj7432rphldpdmm2"),
    ("calibnet", "bafy2bzacecyaggy24wol5ruvs6qm73gjibs2l2iyhcqmvi7r7a4ph7zx3yqd4"),
];

/// Returns the F3 data of snapshots of version 2 (FRC-0108) that all sources skipped, and adds their keys to those that links
/// may lead to.
pub(super) fn report_f3(job: &Job<'_>, sources: &[SourceRead]) -> Result<Vec<F3Report>> {
    let mut found = BTreeMap::new();
    for SkippedCount { cid, blocks, bytes } in sources.iter().filter_map(|source| source.f3.as_deref()) {
        if *blocks > 0 {
            let new = || F3Report { cid: cid.clone(), blocks: 0, bytes: bytes / blocks };
            found.entry(cid).or_insert_with(new).blocks += blocks;
        }
    }
    if let Some(links) = job.links {
        let mut gathered = Gathered::default();
        for cid in found.keys().filter_map(|cid| cid.parse::<RawCid>().ok()) {
            LinkList::gather_key(key_of(job.options.key, &cid), &mut gathered);
        }
        links.add(&mut gathered)?;
    }
    Ok(found.into_values().collect())
}

/// Looks for the roots and compares links with blocks, in a database that is closed and not yet under its name. It is an error
/// if something is missing that the caller requires.
pub(in crate::load) fn check(job: &Job<'_>, roots: &[RawCid], router: Option<&Router>) -> Result<Completeness> {
    let mut found = Completeness::default();
    let links = job.options.links;
    if roots.is_empty() && job.links.is_none() {
        return Ok(found);
    }
    let reader = Reader::open(job.target.working(), &ReaderOptions::once()).map_err(|error| job.damaged(error))?;
    // Roots of other shards are not checked.
    let is_own = |root: &&RawCid| router.is_none_or(|router| is_own(job.options.key, router, root));
    let own: Vec<RawCid> = roots.iter().filter(is_own).cloned().collect();
    look_for_roots(job, &reader, &own, &mut found)?;
    if job.options.shard.is_some() {
        found.network = network(job, &reader)?;
    }
    let lacks_roots = |found: &Completeness| {
        let (missing, of) = (grouped(found.missing_roots), grouped(roots.len() as u64));
        let reason = format!("the blocks lack {missing} of {of} roots: {}", listed(&found.first_missing_roots));
        let hint = "a node that starts from these roots needs them: the snapshot is cut, or a part of another one";
        StatedProblem::new(InputKind::Incomplete, reason, hint)
    };
    if found.missing_roots > 0 {
        fail_or_warn(job, links == Links::Roots, lacks_roots(&found))?;
    }
    if let Some(list) = job.links {
        let report = compare(job, &reader, list)?;
        if report.missing > 0 {
            let (missing, of, first) = (grouped(report.missing), grouped(report.linked), listed(&report.first_missing));
            let reason = format!("the blocks lack {missing} of the {of} that they link to: {first}");
            let hint = "a lite snapshot omits the blocks before its tail; one that was cut after a block is incomplete: compare \
                        its size and sha256 with the publisher's";
            let problem = StatedProblem::new(InputKind::Incomplete, reason, hint);
            fail_or_warn(job, links == Links::Require, problem)?;
        }
        if report.malformed > 0 {
            let count = counted(report.malformed, "block or link is", "blocks or links are");
            let reason = format!("{count} not what their codec says, so that not all links could be followed");
            let hint =
                "the blocks match their hashes, so the program that wrote them made them so: `bedload walk` names them";
            fail_or_warn(job, links == Links::Require, StatedProblem::new(InputKind::Damaged, reason, hint))?;
        }
        found.links = Some(report);
    }
    // A root is a link of the header.
    if found.missing_roots > 0 && links == Links::Require {
        fail_or_warn(job, true, lacks_roots(&found))?;
    }
    Ok(found)
}

/// Returns an error if the caller requires what is missing, otherwise reports a warning.
fn fail_or_warn(job: &Job<'_>, required: bool, problem: StatedProblem) -> Result<()> {
    if required {
        return Err(Error::bad_input(&job.sources.shown(), None, problem));
    }
    job.progress.report(&Event::Warning { message: format!("{problem} ({})", problem.hint()) });
    Ok(())
}

/// Looks the roots up. The head is the highest root that is a header of a Filecoin chain, or that the metadata of a snapshot of
/// version 2 name.
fn look_for_roots(job: &Job<'_>, reader: &Reader, roots: &[RawCid], found: &mut Completeness) -> Result<()> {
    let (layout, family) = (job.options.key, &job.options.column_family);
    let (mut head, mut named) = (None, Vec::new());
    let header = |block: &[u8]| chain_header(block).map(|header| (header.height, header.timestamp));
    for roots in roots.chunks(LOOKED_UP) {
        let keys: Vec<&[u8]> = roots.iter().map(|root| key_of(layout, root)).collect();
        for (root, value) in roots.iter().zip(reader.get_many(family, &keys, false)?) {
            match value.map_err(|error| job.damaged(error))? {
                Some(block) => {
                    head = head.max(header(block.as_ref()));
                    named.extend(Metadata::read(block.as_ref()).map(|metadata| metadata.head_tipset));
                }
                // The root itself has its block.
                None if root.is_identity() => {}
                None => {
                    found.missing_roots += 1;
                    if found.first_missing_roots.len() < NAMED {
                        found.first_missing_roots.push(root.to_string());
                    }
                }
            }
        }
    }
    for named in named.concat().chunks(LOOKED_UP) {
        let keys: Vec<&[u8]> = named.iter().map(|cid| key_of(layout, cid)).collect();
        for value in reader.get_many(family, &keys, false)? {
            let block = value.map_err(|error| job.damaged(error))?;
            head = head.max(block.and_then(|block| header(block.as_ref())));
        }
    }
    if let Some((height, timestamp)) = head {
        let network = network(job, reader)?;
        found.head = Some(Head { chain: "filecoin".into(), network, height, time: rfc3339(timestamp) });
    }
    Ok(())
}

/// The network whose genesis is in the database, if it is known.
fn network(job: &Job<'_>, reader: &Reader) -> Result<Option<String>> {
    for (name, genesis) in GENESIS {
        let genesis: Option<RawCid> = genesis.parse().ok();
        let key = genesis.as_ref().map(|genesis| key_of(job.options.key, genesis)).unwrap_or_default();
        if reader.has_key(&job.options.column_family, key)? {
            return Ok(Some(name.into()));
        }
    }
    Ok(None)
}

/// True if a block of this CID is in the shard of the router.
fn is_own(layout: KeyLayout, router: &Router, root: &RawCid) -> bool {
    let span = read_cid(root.as_bytes()).ok().flatten();
    span.is_none_or(|span| router.route(key_of(layout, root), layout.digest_in_key(&span)).is_own)
}

/// The key of the block of a CID.
fn key_of(layout: KeyLayout, cid: &RawCid) -> &[u8] {
    let bytes = cid.as_bytes();
    let span = read_cid(bytes).ok().flatten();
    span.and_then(|span| bytes.get(layout.key_start(&span)..)).unwrap_or(bytes)
}

/// Compares links with blocks, those of an existing database included, and names some missing ones.
fn compare(job: &Job<'_>, reader: &Reader, links: &LinkList) -> Result<LinkReport> {
    job.progress.begin(Phase::Check, None);
    let family = &job.options.column_family;
    if job.existing.is_some() {
        let new = || Keys { links, gathered: Gathered::default(), keys: 0 };
        job.scan(reader, &reader.files()?, family).visit(new)?;
    }
    let (mut report, missing) = links.compare()?;
    if report.missing > 0 {
        let most = NAMED.min(usize::try_from(report.missing).unwrap_or(NAMED));
        report.first_missing = names(job, reader, &missing, most)?;
    }
    Ok(report)
}

/// The first missing links, in the order of the keys of the blocks that have them.
fn names(job: &Job<'_>, reader: &Reader, missing: &MissingLinks, most: usize) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut scan = reader.scan(&job.options.column_family, None, None)?;
    while let Some((_, value)) = scan.item()
        && found.len() < most
    {
        job.options.check_cancelled()?;
        missing.name_links(job.options.key, value, most, &mut found);
        job.progress.add(value.len() as u64, 1);
        scan.next();
    }
    scan.status().map(|()| found)
}

/// Joins some missing CIDs for a message.
fn listed(first: &[String]) -> String {
    let more = (first.len() > NAMED_IN_MESSAGE).then_some("..");
    first.iter().take(NAMED_IN_MESSAGE).map(String::as_str).chain(more).collect::<Vec<_>>().join(", ")
}

/// The keys of an existing database.
struct Keys<'a> {
    links: &'a LinkList,
    gathered: Gathered,
    keys: usize,
}

impl Visit for Keys<'_> {
    fn record(&mut self, key: &[u8], _: &[u8]) -> Result<()> {
        LinkList::gather_key(key, &mut self.gathered);
        self.keys += 1;
        if self.keys.is_multiple_of(ADDED) { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<()> {
        self.links.add(&mut self.gathered)
    }
}
