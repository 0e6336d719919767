//! Joining: builds one bundle from the parts of all shards of an import.

use std::collections::BTreeSet;

use serde_json::Value;

use super::description::{LATEST_SET, PARTS, part_name, read_part, report, set_of, without_shard_data, write_bundle};
use super::document::{Bundle, BundleFile, MAX_BYTES, SCHEMA, is_sum};
use super::place::{BundlePlace, MAX_LATEST, file};
use super::problem::BundleProblem::{self, Mismatch};
use super::signature::Signer;
use super::target::BundleTarget;
use crate::error::{Error, Result, StateKind};
use crate::parallel;
use crate::progress::{CancellationToken, Observer, Phase, Progress};
use crate::report::{BlockCounts, BundleReport, ImportReport, ShardReport, SourceInfo};
use crate::sort::router::Count;
use crate::sort::shard::Shard;
use crate::source::remote::NetworkOptions;

const LOOKED_UP: usize = 8;
const NAMED: usize = 40;
const ROOTS: usize = 10;

pub(crate) struct JoinOptions {
    pub place: std::path::PathBuf,
    /// The set of parts. Defaults to the one that was written to last.
    pub set: Option<String>,
    pub signer: Option<Signer>,
    pub network: NetworkOptions,
    pub stop: CancellationToken,
}

pub(crate) fn join(options: &JoinOptions, observer: &dyn Observer) -> Result<BundleReport> {
    let (report, seconds) = Progress::timed(observer, |progress| run(options, progress))?;
    Ok(BundleReport { seconds, ..report })
}

fn run(options: &JoinOptions, progress: &Progress<'_>) -> Result<BundleReport> {
    let target = BundleTarget::open(&options.place, &options.network, None)?;
    let place = &target.place;
    progress.begin(Phase::Verify, None);
    let (set, of) = find_set(place, options)?;
    let mut joined: Option<Joined> = None;
    let mut missing = Vec::new();
    for number in 0..of {
        options.stop.check(Error::interrupted)?;
        let name = part_name(&set, number);
        let bad = |problem| Error::bad_input(&place.at(&name).0, None, problem);
        let Some(bytes) = place.read(&name, MAX_BYTES)? else {
            missing.push(number);
            continue;
        };
        let (part, shard) = read_part(&bytes).map_err(bad)?;
        if (shard.number, shard.of) != (number, of) || set_of(&part.record, &shard) != set {
            return Err(bad(Mismatch(format!(
                "it is shard {}/{} of a different source, or has the wrong name",
                shard.number, shard.of
            ))));
        }
        progress.add(0, part.record.blocks.written);
        joined = Some(match joined {
            None => Joined::new(part, shard),
            Some(joined) => joined.with(part, &shard).map_err(bad)?,
        });
    }
    let Some(joined) = joined.filter(|_| missing.is_empty()) else { return Err(missing_parts(place, of, &missing)) };
    let bad = |problem| Error::bad_input(&place.at(&format!("{PARTS}/{set}")).0, None, problem);
    let bundle = joined.finish().map_err(bad)?;
    check_files_exist(&target, &bundle.files, &options.stop)?;
    progress.begin(Phase::Commit, None);
    let id = write_bundle(&target, &bundle, &place.root, options.signer.as_ref())?;
    Ok(BundleReport { joined: Some(of), ..report(&target, id, &bundle) })
}

/// The set to join, and the number of its parts.
fn find_set(place: &BundlePlace, options: &JoinOptions) -> Result<(String, u32)> {
    let known = |set: &str| {
        let (id, of) = set.split_once("-of-")?;
        let of: u32 = of.parse().ok()?;
        (is_sum(id) && Shard::new(0, of).is_some()).then(|| (format!("{id}-of-{of}"), of))
    };
    if let Some(set) = &options.set {
        let hint = "pass the set that the import of a shard has printed (64 hex digits and -of-N), or omit --set for the one \
                   that was written to last";
        return known(set).ok_or_else(|| Error::usage("the name is not one of a set of parts", hint));
    }
    let bytes = place.read(LATEST_SET, MAX_LATEST)?.ok_or_else(|| {
        Error::state(
            place.root.clone(),
            StateKind::Other,
            "has no parts",
            "run the shards first: `bedload import SNAPSHOT --shard I/N` for each I from 0 to N-1",
        )
    })?;
    let bad = || Error::bad_input(&place.at(LATEST_SET).0, None, Mismatch("it does not contain a set of parts".into()));
    known(String::from_utf8_lossy(&bytes).trim_end()).ok_or_else(bad)
}

fn missing_parts(place: &BundlePlace, of: u32, missing: &[u32]) -> Error {
    let mut named: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    if missing.len() > NAMED {
        named.push(format!("and {} more", missing.len() - NAMED));
    }
    let reason = format!("{} of {of} parts are missing: {}", missing.len(), named.join(", "));
    let hint = "run these shards (counted from 0), then the same command";
    Error::state(place.root.clone(), StateKind::Other, reason, hint)
}

/// The first field that differs between two documents.
fn difference(one: &Value, other: &Value) -> Option<String> {
    let (Value::Object(fields), Value::Object(others)) = (one, other) else {
        return (one != other).then(String::new);
    };
    let names: BTreeSet<&String> = fields.keys().chain(others.keys()).collect();
    names.into_iter().find_map(|name| {
        let inner = difference(&one[name], &other[name])?;
        Some(if inner.is_empty() { name.clone() } else { format!("{name}.{inner}") })
    })
}

struct Joined {
    bundle: Bundle,
    shard: ShardReport,
    shared: Value,
    /// Files of all parts, and the shard of each.
    files: Vec<(BundleFile, u32)>,
}

/// Properties that all shards must share. The plan depends on the machine.
fn comparable(part: &Bundle) -> Value {
    let mut value = serde_json::to_value(without_shard_data(&part.record)).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("plan");
        fields.insert("oldest_rocksdb".into(), part.oldest_rocksdb.clone().into());
    }
    value
}

fn take_files(part: &mut Bundle, shard: u32) -> impl Iterator<Item = (BundleFile, u32)> {
    std::mem::take(&mut part.files).into_iter().map(move |file| (file, shard))
}

impl Joined {
    fn new(mut part: Bundle, shard: ShardReport) -> Self {
        let files = take_files(&mut part, shard.number).collect();
        Self { shared: comparable(&part), files, bundle: part, shard }
    }

    fn with(mut self, mut part: Bundle, shard: &ShardReport) -> Result<Self, BundleProblem> {
        if let Some(field) = difference(&self.shared, &comparable(&part)) {
            return Err(Mismatch(format!("its `{field}` differs from that of shard {}", self.shard.number)));
        }
        self.files.extend(take_files(&mut part, shard.number));
        add(&mut self.bundle.record, part.record)?;
        self.shard.network = self.shard.network.or_else(|| shard.network.clone());
        Ok(self)
    }

    /// Returns the bundle if no block is missing and no keys overlap.
    fn finish(self) -> Result<Bundle, BundleProblem> {
        let Self { mut bundle, shard, mut files, .. } = self;
        let record = &mut bundle.record;
        let found = Count { blocks: record.blocks.read, bytes: record.payload_bytes };
        if Some(found) != shard.source() {
            let whole = shard.source().unwrap_or_default();
            return Err(Mismatch(format!(
                "they have {} blocks of {} bytes, the source has {} of {}",
                found.blocks, found.bytes, whole.blocks, whole.bytes
            )));
        }
        record.shard = None;
        if let Some(head) = &mut record.head {
            head.network = head.network.take().or(shard.network);
        }
        files.sort_by(|(one, _), (other, _)| one.first.cmp(&other.first));
        let mut pairs = files.iter().zip(files.iter().skip(1));
        if let Some(((_, one), (_, other))) = pairs.find(|((one, _), (other, _))| one.last >= other.first) {
            return Err(Mismatch(format!("the keys of shards {one} and {other} overlap")));
        }
        let files = files.into_iter().map(|(file, _)| file).collect();
        Ok(Bundle { schema: SCHEMA.into(), files, ..bundle })
    }
}

/// Adds the counts of another shard.
fn add(record: &mut ImportReport, other: ImportReport) -> Result<(), BundleProblem> {
    let sum = |one: &mut u64, other: u64| {
        *one = one.checked_add(other).ok_or_else(|| Mismatch("their counts are too large".into()))?;
        Ok(())
    };
    let add_blocks = |one: &mut BlockCounts, other: &BlockCounts| {
        sum(&mut one.read, other.read)?;
        sum(&mut one.written, other.written)?;
        sum(&mut one.duplicate, other.duplicate)
    };
    add_blocks(&mut record.blocks, &other.blocks)?;
    sum(&mut record.payload_bytes, other.payload_bytes)?;
    sum(&mut record.missing_roots, other.missing_roots)?;
    record.digest.merge(other.digest);
    record.first_missing_roots.extend(other.first_missing_roots.iter().cloned());
    let order = |root: &String| record.source.roots.iter().position(|known| known == root);
    record.first_missing_roots.sort_by_key(order);
    record.first_missing_roots.truncate(ROOTS);
    let height = |record: &ImportReport| record.head.as_ref().map(|head| (head.height, head.time.clone()));
    if height(record) < height(&other) {
        record.head.clone_from(&other.head);
    }
    if let (Some(functions), Some(more)) = (&mut record.hash_functions, other.hash_functions) {
        functions.extend(more);
        functions.sort_unstable();
        functions.dedup();
    }
    let add_source = |(one, other): (&mut SourceInfo, &SourceInfo)| match (&mut one.blocks, &other.blocks) {
        (Some(one), Some(other)) => add_blocks(one, other),
        _ => Ok(()),
    };
    record.sources.iter_mut().zip(&other.sources).try_for_each(add_source)
}

/// Checks the length of every file. Each was compared with its BLAKE3 before it got its name.
fn check_files_exist(target: &BundleTarget, files: &[BundleFile], stop: &CancellationToken) -> Result<()> {
    let check = |(): &mut (), item: usize| {
        let Some(wanted) = files.get(item) else { return Ok(()) };
        stop.check(Error::interrupted)?;
        let name = file(&wanted.name);
        let problem = match target.size_of(&name)? {
            Some(bytes) if bytes == wanted.bytes => return Ok(()),
            Some(found) => BundleProblem::Length { found, expected: wanted.bytes },
            None => Mismatch("a part names it, but it does not exist".into()),
        };
        Err(Error::bad_input(&target.place.at(&name).0, None, problem))
    };
    parallel::for_each(LOOKED_UP, files.len(), || (), check).map(drop)
}
