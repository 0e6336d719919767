//! Parts: what each shard of an import has published, and the bundle that they come to.
//!
//! ```text
//! <place>/parts/latest          the set that was written to last
//! <place>/parts/<set>/<I>.json  what shard I holds: a description with a seal, as that of a bundle is
//! ```
//!
//! A set is named for what its shards must agree about, the source and how many shards there are, so nobody has to list it.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::document::{Bundle, BundleFile, MAX_BYTES, PART_SCHEMA, SCHEMA, is_sum};
use super::place::{Place, file};
use super::problem::BundleProblem;
use super::publish::describe;
use super::signature::Signer;
use super::target::Target;
use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::content_digest::Content;
use crate::parallel;
use crate::progress::{CancellationToken, Observer, Phase, Progress};
use crate::report::record::{sealed, unsealed};
use crate::report::{BUNDLED_SCHEMA, Blocks, BundleReport, ImportReport, ShardReport, SourceInfo};
use crate::sort::router::Count;
use crate::sort::shard::Shard;
use crate::source::remote::NetworkOptions;

/// The directory of the parts.
const PARTS: &str = "parts";
/// The pointer to the set that was written to last, and its longest text.
const LATEST_SET: &str = "parts/latest";
const MAX_LATEST: u64 = 256;

/// Files that are looked up at once.
const LOOKED_UP: usize = 8;
/// Missing parts that are named.
const NAMED: usize = 40;
/// Missing roots that a report names.
const ROOTS: usize = 10;

/// Where parts are, and which.
#[derive(Debug)]
pub(crate) struct JoinOptions {
    pub place: std::path::PathBuf,
    /// The set. Defaults to the one that was written to last.
    pub set: Option<String>,
    /// Who signs the bundle.
    pub signer: Option<Signer>,
    pub network: NetworkOptions,
    pub stop: CancellationToken,
}

/// Writes the part of one shard, whose files are there, and returns its set.
pub(super) fn put(target: &Target<'_>, part: &Bundle, shard: &ShardReport) -> Result<String> {
    let set = set_of(&part.record, shard);
    let name = name(&set, shard.number);
    let bytes = sealed(part, Path::new(&name))?;
    // What no join would take is not published.
    read(&bytes).map_err(|problem| Error::bad_input(Path::new(&name), None, problem))?;
    target.put(&name, &bytes)?;
    failpoint::reach("part");
    target.put(LATEST_SET, format!("{set}\n").as_bytes())?;
    Ok(set)
}

/// Makes a bundle of the parts of all shards of a source.
pub(crate) fn join(options: &JoinOptions, observer: &dyn Observer) -> Result<BundleReport> {
    let (report, seconds) = Progress::timed(observer, |progress| run(options, progress))?;
    Ok(BundleReport { seconds, ..report })
}

fn run(options: &JoinOptions, progress: &Progress<'_>) -> Result<BundleReport> {
    let place = Place::new(&options.place, &options.network);
    let target = Target::open(&place, None)?;
    progress.begin(Phase::Verify, None);
    let (set, of) = set(&place, options)?;
    let mut joined: Option<Joined> = None;
    let mut missing = BTreeSet::new();
    for number in 0..of {
        if options.stop.is_cancelled() {
            return Err(Error::interrupted());
        }
        let name = name(&set, number);
        let bad = |problem| Error::bad_input(&place.at(&name).0, None, problem);
        let Some(bytes) = place.read(&name, MAX_BYTES)? else {
            missing.insert(number);
            continue;
        };
        let (part, shard) = read(&bytes).map_err(bad)?;
        if (shard.number, shard.of) != (number, of) || set_of(&part.record, &shard) != set {
            return Err(bad(apart(format!(
                "it is of shard {}/{} of another source, or in the wrong place",
                shard.number, shard.of
            ))));
        }
        progress.add(0, part.record.blocks.written);
        joined = Some(match joined {
            None => Joined::new(part, shard),
            Some(joined) => joined.with(part, &shard).map_err(bad)?,
        });
    }
    let there = |joined: Option<Joined>| joined.filter(|_| missing.is_empty());
    let Some(joined) = there(joined) else { return Err(lacks(&place, of, &missing)) };
    let bad = |problem| Error::bad_input(&place.at(&format!("{PARTS}/{set}")).0, None, problem);
    let bundle = joined.finish().map_err(bad)?;
    are_there(&place, &target, &bundle, &options.stop)?;
    progress.begin(Phase::Commit, None);
    let id = describe((&place, &target), &bundle, &place.root, options.signer.as_ref())?;
    Ok(BundleReport {
        schema: BUNDLED_SCHEMA.into(),
        db: String::new(),
        place: place.root.display().to_string(),
        id,
        part: None,
        joined: Some(of),
        records: bundle.files.iter().map(|file| file.records).sum(),
        files: bundle.files.len() as u64,
        bytes: bundle.files.iter().map(|file| file.bytes).sum(),
        uploaded_files: 0,
        uploaded_bytes: 0,
        seconds: 0.0,
    })
}

fn name(set: &str, number: u32) -> String {
    format!("{PARTS}/{set}/{number}.json")
}

fn apart(reason: String) -> BundleProblem {
    BundleProblem::Apart { reason }
}

/// The set to join, and how many parts it has.
fn set(place: &Place, options: &JoinOptions) -> Result<(String, u32)> {
    let known = |set: &str| {
        let (id, of) = set.split_once("-of-")?;
        let of: u32 = of.parse().ok()?;
        (is_sum(id) && Shard::new(0, of).is_some()).then(|| (format!("{id}-of-{of}"), of))
    };
    if let Some(set) = &options.set {
        return known(set).ok_or_else(|| Error::Usage {
            reason: "--set names no set of parts".into(),
            hint: "give what `bedload bundle` or the import of a shard has said, 64 hex digits and -of-N; or leave it out for the \
                   set that was written to last"
                .into(),
        });
    }
    let Some(bytes) = place.read(LATEST_SET, MAX_LATEST)? else {
        return Err(Error::State {
            path: place.root.clone(),
            reason: "has no parts".into(),
            hint: "run the shards first: `bedload import SNAPSHOT --shard I/N` for each I from 0 to N-1".into(),
        });
    };
    let bad = || Error::bad_input(&place.at(LATEST_SET).0, None, apart("it names no set of parts".into()));
    known(String::from_utf8_lossy(&bytes).trim_end()).ok_or_else(bad)
}

/// The error for parts that are not there.
fn lacks(place: &Place, of: u32, missing: &BTreeSet<u32>) -> Error {
    let mut named: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    if missing.len() > NAMED {
        named.push(format!("and {} more", missing.len() - NAMED));
    }
    Error::State {
        path: place.root.clone(),
        reason: format!("lacks {} of {of} parts: {}", missing.len(), named.join(", ")),
        hint: "run these shards (again), counted from 0, and then the same command".into(),
    }
}

/// The part in these bytes.
fn read(bytes: &[u8]) -> Result<(Bundle, ShardReport), BundleProblem> {
    let form = |reason: String| BundleProblem::Form { reason };
    let bytes = unsealed(bytes).ok_or_else(|| form("it does not match its checksum".into()))?;
    let part = Bundle::parse(&bytes, PART_SCHEMA)?;
    let shard = part.record.shard.clone().ok_or_else(|| form("its report names no shard".into()))?;
    if Shard::new(shard.number, shard.of).is_none() {
        return Err(form(format!("there is no shard {}/{}", shard.number, shard.of)));
    }
    Ok((part, shard))
}

/// A report without what shards of one source differ in: what they hold, how they were made, and where each read the source.
fn agreed(record: &ImportReport) -> ImportReport {
    let mut record = record.clone();
    for source in std::iter::once(&mut record.source).chain(&mut record.sources) {
        (source.path, source.remote, source.blocks) = (String::new(), None, None);
    }
    record.blocks = Blocks { read: 0, written: 0, duplicate: 0, existing: None };
    (record.payload_bytes, record.digest, record.rocksdb_bytes_written) = Default::default();
    (record.missing_roots, record.first_missing_roots, record.head) = Default::default();
    record.hash_functions = record.hash_functions.map(|_| Vec::new());
    if let Some(shard) = &mut record.shard {
        (shard.number, shard.network) = (0, None);
    }
    record
}

/// The name of the set of a part: the BLAKE3 of what makes the source, and the number of shards.
fn set_of(record: &ImportReport, shard: &ShardReport) -> String {
    let agreed = agreed(record);
    let what = (&agreed.source, &agreed.sources, &agreed.column_family, agreed.key, &shard.classes);
    let id = blake3::hash(&serde_json::to_vec(&what).unwrap_or_default());
    format!("{id}-of-{}", shard.of)
}

/// The first field in which two documents differ.
fn difference(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let fields: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            fields.into_iter().find_map(|field| {
                let none = Value::Null;
                let inner = difference(one.get(field).unwrap_or(&none), other.get(field).unwrap_or(&none))?;
                Some(if inner.is_empty() { field.clone() } else { format!("{field}.{inner}") })
            })
        }
        (one, other) => (one != other).then(String::new),
    }
}

/// Parts that fit together.
struct Joined {
    bundle: Bundle,
    shard: ShardReport,
    /// What all agree about.
    agreed: Value,
    /// The shard of each file.
    shards: Vec<u32>,
}

/// What shards must agree about. The plan follows from the machine.
fn comparable(record: &ImportReport) -> Value {
    let mut value = serde_json::to_value(agreed(record)).unwrap_or_default();
    value.as_object_mut().map(|fields| fields.remove("plan"));
    value
}

impl Joined {
    fn new(part: Bundle, shard: ShardReport) -> Self {
        let agreed = comparable(&part.record);
        let shards = vec![shard.number; part.files.len()];
        Self { agreed, shards, bundle: part, shard }
    }

    fn with(mut self, part: Bundle, shard: &ShardReport) -> Result<Self, BundleProblem> {
        let Bundle { record, files, oldest_rocksdb, .. } = part;
        let other = comparable(&record);
        if let Some(field) = difference(&self.agreed, &other) {
            return Err(apart(format!("it has another `{field}` than the part of shard {}", self.shard.number)));
        }
        if oldest_rocksdb != self.bundle.oldest_rocksdb {
            return Err(apart(format!("it has another `oldest_rocksdb` than the part of shard {}", self.shard.number)));
        }
        self.shards.resize(self.shards.len() + files.len(), shard.number);
        self.bundle.files.extend(files);
        add(&mut self.bundle.record, record)?;
        self.shard.network = self.shard.network.or_else(|| shard.network.clone());
        Ok(self)
    }

    /// The bundle of all parts, if nothing is missing and nothing there twice.
    fn finish(self) -> Result<Bundle, BundleProblem> {
        let Self { mut bundle, shard, shards, .. } = self;
        let record = &mut bundle.record;
        let found = Count { blocks: record.blocks.read, bytes: record.payload_bytes };
        if Some(found) != shard.source() {
            let whole = shard.source().unwrap_or_default();
            return Err(apart(format!(
                "they have {} blocks of {} bytes, the source has {} of {}",
                found.blocks, found.bytes, whole.blocks, whole.bytes
            )));
        }
        record.shard = None;
        if let Some(head) = &mut record.head {
            head.network = head.network.take().or(shard.network);
        }
        let mut files: Vec<(BundleFile, u32)> = std::mem::take(&mut bundle.files).into_iter().zip(shards).collect();
        files.sort_by(|(one, _), (other, _)| one.first.cmp(&other.first));
        if let Some([(_, one), (_, other)]) =
            files.windows(2).find(|pair| matches!(pair, [(one, _), (other, _)] if one.last >= other.first))
        {
            return Err(apart(format!("the keys of shards {one} and {other} overlap")));
        }
        bundle.files = files.into_iter().map(|(file, _)| file).collect();
        SCHEMA.clone_into(&mut bundle.schema);
        Ok(bundle)
    }
}

/// Adds what another shard holds.
fn add(record: &mut ImportReport, other: ImportReport) -> Result<(), BundleProblem> {
    let sum = |one: &mut u64, other: u64| {
        *one = one.checked_add(other).ok_or_else(|| apart("their counts are too large".into()))?;
        Ok(())
    };
    let add_blocks = |one: &mut Blocks, other: &Blocks| {
        sum(&mut one.read, other.read)?;
        sum(&mut one.written, other.written)?;
        sum(&mut one.duplicate, other.duplicate)
    };
    add_blocks(&mut record.blocks, &other.blocks)?;
    sum(&mut record.payload_bytes, other.payload_bytes)?;
    sum(&mut record.missing_roots, other.missing_roots)?;
    if let (Some(one), Some(other)) = (&mut record.rocksdb_bytes_written, other.rocksdb_bytes_written) {
        sum(one, other)?;
    }
    let mut all = Content { records: 0, digest: record.digest };
    all.merge(Content { records: 0, digest: other.digest });
    record.digest = all.digest;
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

/// Checks that every file is there, with its length: each was compared with its BLAKE3 before it got its name.
fn are_there(place: &Place, target: &Target<'_>, bundle: &Bundle, stop: &CancellationToken) -> Result<()> {
    let files = &bundle.files;
    let looked = parallel::for_each(
        LOOKED_UP,
        files.len(),
        || (),
        |(), item| {
            let Some(wanted) = files.get(item) else { return Ok(()) };
            if stop.is_cancelled() {
                return Err(Error::interrupted());
            }
            let name = file(&wanted.name);
            let found = target.size_of(&name)?;
            let bad = |problem| Err(Error::bad_input(&place.at(&name).0, None, problem));
            match found {
                Some(bytes) if bytes == wanted.bytes => Ok(()),
                Some(found) => bad(BundleProblem::Length { found, expected: wanted.bytes }),
                None => bad(apart("it is not there, and a part names it".into())),
            }
        },
    );
    looked.map(drop)
}
