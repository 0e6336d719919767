//! Writing the description of a bundle, or of the part of one shard.
//!
//! ```text
//! <place>/parts/latest          the set that was written to last
//! <place>/parts/<set>/<I>.json  the description of shard I, with a checksum
//! ```
//!
//! The name of a set is a hash of the properties that its shards share, and their number. No directory has to be listed.

use std::path::Path;

use super::document::{Bundle, BundleFile, PART_SCHEMA, SCHEMA};
use super::place::{LATEST, description, signature_of};
use super::problem::BundleProblem;
use super::signature::{self, Signer};
use super::target::BundleTarget;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::report::record::{append_checksum, verify_checksum};
use crate::report::{BUNDLED_SCHEMA, BlockCounts, BundleReport, ImportReport, ShardReport};
use crate::rocks::releases::Release;
use crate::rocks::{options, options_of};
use crate::sort::shard::Shard;

pub(super) const PARTS: &str = "parts";
pub(super) const LATEST_SET: &str = "parts/latest";

/// Describes files that exist, as a bundle or as the part of a shard. `db` is the database of the files.
pub(super) fn write_description(
    target: &BundleTarget,
    record: ImportReport,
    files: Vec<BundleFile>,
    db: &Path,
    signer: Option<&Signer>,
) -> Result<BundleReport> {
    let map = options_of(db, &record.column_family)?.unwrap_or_default();
    let oldest_rocksdb = Release::reading(&map, options::defaults()).to_string();
    let shard = record.shard.clone();
    let schema = if shard.is_some() { PART_SCHEMA } else { SCHEMA };
    let bundle = Bundle { schema: schema.into(), oldest_rocksdb, record, files };
    let id = match &shard {
        Some(shard) => write_part(target, &bundle, shard)?,
        None => write_bundle(target, &bundle, db, signer)?,
    };
    Ok(BundleReport { part: shard.map(|shard| shard.number), ..report(target, id, &bundle) })
}

pub(super) fn report(target: &BundleTarget, id: String, bundle: &Bundle) -> BundleReport {
    BundleReport {
        schema: BUNDLED_SCHEMA.into(),
        place: target.place.root.display().to_string(),
        id,
        records: bundle.files.iter().map(|file| file.records).sum(),
        files: bundle.files.len() as u64,
        bytes: bundle.files.iter().map(|file| file.bytes).sum(),
        ..BundleReport::default()
    }
}

/// Writes the description of a bundle, its signature, then the pointer to it. Returns its id.
pub(super) fn write_bundle(
    target: &BundleTarget,
    bundle: &Bundle,
    from: &Path,
    signer: Option<&Signer>,
) -> Result<String> {
    let bad = |problem: BundleProblem| Error::bad_input(from, None, problem);
    let (bytes, id) = bundle.to_bytes().map_err(bad)?;
    // Publish only a description that a seed accepts.
    Bundle::read(&bytes, &id).map_err(bad)?;
    target.put(&description(&id), &bytes)?;
    failpoint::reach("bundle-described");
    if let Some(signer) = signer {
        let name = signature_of(&id);
        // Signatures of the same bytes differ: keep a valid one.
        let there = target.place.read(&name, signature::MAX_BYTES).ok().flatten();
        if !there.is_some_and(|there| signer.has_signed(&bytes, &there)) {
            target.put(&name, &signer.sign(&bytes, &id)?)?;
        }
        failpoint::reach("bundle-signed");
    }
    target.put(LATEST, format!("{id}\n").as_bytes())?;
    failpoint::reach("bundled");
    Ok(id)
}

/// Writes the part of one shard and returns its set.
fn write_part(target: &BundleTarget, part: &Bundle, shard: &ShardReport) -> Result<String> {
    let set = set_of(&part.record, shard);
    let name = part_name(&set, shard.number);
    let bytes = append_checksum(part, Path::new(&name))?;
    // Publish only a part that a join accepts.
    read_part(&bytes).map_err(|problem| Error::bad_input(Path::new(&name), None, problem))?;
    target.put(&name, &bytes)?;
    failpoint::reach("part");
    target.put(LATEST_SET, format!("{set}\n").as_bytes())?;
    Ok(set)
}

pub(super) fn read_part(bytes: &[u8]) -> Result<(Bundle, ShardReport), BundleProblem> {
    let form = BundleProblem::Form;
    let bytes = verify_checksum(bytes).ok_or_else(|| form("it does not match its checksum".into()))?;
    let part = Bundle::parse(&bytes, PART_SCHEMA)?;
    let shard = part.record.shard.clone().ok_or_else(|| form("its report names no shard".into()))?;
    if Shard::new(shard.number, shard.of).is_none() {
        return Err(form(format!("there is no shard {}/{}", shard.number, shard.of)));
    }
    Ok((part, shard))
}

pub(super) fn part_name(set: &str, number: u32) -> String {
    format!("{PARTS}/{set}/{number}.json")
}

/// The name of a part's set: the BLAKE3 of the source's properties, and the number of shards.
pub(super) fn set_of(record: &ImportReport, shard: &ShardReport) -> String {
    let shared = without_shard_data(record);
    let properties = (&shared.source, &shared.sources, &shared.column_family, shared.key, &shard.classes);
    let id = blake3::hash(&serde_json::to_vec(&properties).unwrap_or_default());
    format!("{id}-of-{}", shard.of)
}

/// A report without the fields that differ between the shards of a source.
pub(super) fn without_shard_data(record: &ImportReport) -> ImportReport {
    let mut record = record.clone();
    for source in std::iter::once(&mut record.source).chain(&mut record.sources) {
        (source.path, source.remote, source.blocks) = (String::new(), None, None);
    }
    record.blocks = BlockCounts { read: 0, written: 0, duplicate: 0, omitted: None, existing: None };
    (record.payload_bytes, record.digest, record.rocksdb_bytes_written) = Default::default();
    (record.missing_roots, record.first_missing_roots, record.head) = Default::default();
    record.hash_functions = record.hash_functions.map(|_| Vec::new());
    if let Some(shard) = &mut record.shard {
        (shard.number, shard.network) = (0, None);
    }
    record
}
