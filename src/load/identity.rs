//! The identity of an import. Only an import with the same identity may resume it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, StateKind};
use crate::load::options::{Duplicates, F3Data, ImportOptions, Indexes, LogOptions, PlanChoice};
use crate::load::source_identity::{NOT_WHAT_IT_WAS, SourceFile, SourceIdentity, changed};
use crate::preset::Resolved;
use crate::report::Plan;
use crate::sort::KeyLayout;
use crate::source::block_log::TornTail;
use crate::source::car::NullPadding;
use crate::source::input::STDIN;

/// The end of the names of directories with partitions in a work directory.
const SPILL: &str = ".spill";

/// The source and the options that decide what is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub source: SourceIdentity,
    tool: String,
    preset: String,
    /// The options that the preset sets, with their values.
    settings: BTreeMap<String, String>,
    key: KeyLayout,
    column_family: String,
    verify: bool,
    null_padding: NullPadding,
    #[serde(default, skip_serializing_if = "is_false")]
    concatenated: bool,
    into_existing: bool,
    /// The treatment of F3 data, unless they are stored.
    f3: Option<String>,
    shard: Option<String>,
    work_dir: Option<PathBuf>,
    /// The value of `--plan`, if the user chose one.
    plan: Option<PlanChoice>,
    /// Bits of the digest that choose a partition. The first run derives them from its machine; later runs keep them.
    pub partition_bits: u32,
    /// A random number that distinguishes imports with the same paths.
    id: String,
    /// The options of a block log that differ from the defaults.
    log: Option<String>,
    #[serde(default)]
    duplicates: Duplicates,
    /// True if a filter omits blocks.
    #[serde(default, skip_serializing_if = "is_false")]
    filtered: bool,
    /// The taken families of a bundle, unless all are.
    pub part: Option<String>,
    /// The place where the replaced database is kept. A later run may leave the option out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_old: Option<PathBuf>,
    /// Standard input, if it is a source and a file, which has no name that could be opened again.
    #[serde(skip)]
    stdin: Option<SourceFile>,
}

/// The parts of an identity that name the directory of the partitions. The whole identity may take many MiB.
#[derive(Debug, Deserialize)]
pub(super) struct SpillPlace {
    id: String,
    work_dir: Option<PathBuf>,
}

impl SpillPlace {
    /// Returns the directory of the partitions of the import in `partial`, if they are in a work directory, which imports in
    /// different containers may share. `given` is the work directory as the user wrote it: the journal cannot represent every
    /// name.
    pub fn dir(&self, partial: &Path, given: Option<&Path>) -> Option<PathBuf> {
        let mut name = partial.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".{}{SPILL}", self.id));
        let known = self.work_dir.as_deref()?;
        Some(given.filter(|given| portable(given) == known).unwrap_or(known).join(name))
    }
}

impl Identity {
    /// True if a source can be read only once.
    pub fn has_pipe(&self) -> bool {
        self.source.sources.iter().any(|source| source.files.is_empty() && source.remote.is_none())
    }

    pub fn of(options: &ImportOptions, preset: &Resolved, plan: &Plan, source: SourceIdentity) -> Result<Self> {
        // A value derived from the machine (`cores`, `open_files`) may change with a reboot and does not change the files.
        let settings = preset
            .settings()
            .filter(|setting| preset.machine.number(&setting.written).is_none())
            .map(|setting| (setting.key.to_string(), setting.value.to_string()))
            .collect();
        let of_log = || plan.log().and_then(|log| log.transactions.as_ref());
        let partitions = plan.sort().map(|sort| &sort.partitions).or_else(of_log);
        Ok(Self {
            source,
            tool: env!("CARGO_PKG_VERSION").into(),
            preset: preset.preset.clone(),
            settings,
            key: options.key,
            column_family: options.column_family.clone(),
            verify: options.verify,
            null_padding: options.null_padding,
            concatenated: options.concatenated,
            into_existing: options.into_existing,
            f3: (options.f3 != F3Data::Store).then(|| "skip".to_owned()),
            shard: options.shard.map(|shard| shard.to_string()),
            work_dir: options.work_dir.as_deref().map(portable),
            plan: Some(options.plan).filter(|plan| *plan != PlanChoice::Auto),
            id: format!("{:016x}", RandomState::new().build_hasher().finish()),
            partition_bits: partitions.map_or(0, |partitions| partitions.bits),
            log: Some(chosen(&options.log)).filter(|log| !log.is_empty()),
            duplicates: options.duplicates,
            filtered: options.filter.is_some(),
            part: None,
            keep_old: options.keep_old.as_deref().map(portable),
            stdin: of_stdin(options)?,
        })
    }

    /// Adds the options of one more column family.
    pub fn add_family(&mut self, name: &str, preset: &Resolved) {
        let settings = preset.settings().map(|setting| (format!("{name}: {}", setting.key), setting.value.clone()));
        self.settings.extend(settings);
    }

    /// Checks that no program wrote to the source while it was read.
    pub fn check_unchanged(&self, options: &ImportOptions) -> Result<()> {
        if of_stdin(options)? != self.stdin {
            return Err(changed(Path::new(STDIN), NOT_WHAT_IT_WAS));
        }
        self.source.sources.iter().flat_map(|source| &source.files).try_for_each(SourceFile::check_unchanged)
    }

    pub fn spill_place(&self) -> SpillPlace {
        SpillPlace { id: self.id.clone(), work_dir: self.work_dir.clone() }
    }

    /// This identity with the derived and random values of the first run.
    pub fn resuming(&self, first: &Self) -> Self {
        let keep_old = self.keep_old.clone().or_else(|| first.keep_old.clone());
        Self { id: first.id.clone(), partition_bits: first.partition_bits, keep_old, ..self.clone() }
    }

    /// For each source, true if its files may have changed since the journal began.
    pub fn touched_since(&self, journal: &Self) -> Vec<bool> {
        let known = |number| journal.source.sources.get(number);
        self.source.sources.iter().enumerate().map(|(number, source)| source.is_touched_since(known(number))).collect()
    }

    /// The address where an earlier run found the source of this number and name on the network.
    pub fn address_of(&self, number: usize, name: &Path) -> Option<String> {
        let known = self.source.sources.get(number).filter(|source| Path::new(&source.name) == name)?;
        known.remote.as_ref()?.address.clone()
    }

    /// The differences from the import in the journal: name, value there, value here. A copy of the same source is no
    /// difference: see [`Identity::touched_since`].
    pub fn differences(&self, journal: &Self) -> Vec<(String, String, String)> {
        let value = |identity: &Self| {
            let mut value = serde_json::to_value(identity).unwrap_or_default();
            if let Some(fields) = value.as_object_mut() {
                // These are compared otherwise, or not at all.
                let mut hidden = vec!["source", "settings", "id", "partition_bits", "keep_old"];
                if self.plan.is_none() || journal.plan.is_none() {
                    hidden.push("plan");
                }
                hidden.into_iter().for_each(|name| drop(fields.remove(name)));
            }
            value
        };
        // The options of another preset are not listed.
        let of_one_preset = self.preset == journal.preset;
        let flat = |identity: &Self| {
            let options = identity.settings.iter().filter(|_| of_one_preset);
            let mut flat: BTreeMap<_, _> = options.map(|(option, value)| (option.clone(), value.clone())).collect();
            flatten("", &value(identity), &mut flat);
            flat
        };
        let (here, there) = (flat(self), flat(journal));
        let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
        let shown = |value: Option<&String>| value.cloned().unwrap_or_else(|| "nothing".into());
        let differ = names.into_iter().map(|name| (name, there.get(name), here.get(name)));
        let differ = differ.filter(|(_, there, here)| there != here);
        let differ = differ.map(|(name, there, here)| (name.clone(), shown(there), shown(here)));
        self.source.difference(&journal.source).into_iter().chain(differ).collect()
    }
}

/// The options of a block log that are not defaults.
fn chosen(options: &LogOptions) -> String {
    let LogOptions {
        dictionaries,
        tail,
        from,
        to,
        expect_head,
        checkpoints,
        indexes,
        links_only,
        skip_unknown_operations,
    } = options;
    let number = |name: &str, number: &Option<u32>| number.map(|number| format!("{name} {number}"));
    let block = |name: &str, (number, id): &(u32, crate::blocks::chain::Id)| format!("{name} {number}:{id}");
    let flag = |text: &str, given: bool| given.then(|| text.to_owned());
    let mut words: Vec<String> = Vec::new();
    words.extend(dictionaries.as_ref().map(|dir| format!("dictionaries {}", dir.display())));
    words.extend(flag("the tail is trimmed", *tail == TornTail::Trim));
    words.extend(number("from", from));
    words.extend(number("to", to));
    words.extend(expect_head.as_ref().map(|head| block("expect head", head)));
    // There may be as many checkpoints as blocks.
    if !checkpoints.is_empty() {
        let all: String = checkpoints.iter().map(|checkpoint| block("\n", checkpoint)).collect();
        let hash = twox_hash::XxHash3_64::oneshot(all.as_bytes());
        words.push(format!("checkpoint ({} blocks, {hash:016x})", checkpoints.len()));
    }
    words.extend((*indexes != Indexes::default()).then(|| format!("indexes {indexes}")));
    words.extend(flag("only links are verified", *links_only));
    words.extend(flag("unknown operations are skipped", *skip_unknown_operations));
    words.join(", ")
}

/// A path as JSON can represent it, absolute: the next run may start elsewhere.
fn portable(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().into_owned().into()
}

/// The error for a source that is not the one of the unfinished import. `name` is given if there are several.
pub(super) fn another_source(options: &ImportOptions, name: Option<&Path>) -> Error {
    let name = name.map(|name| format!(" {}", name.display())).unwrap_or_default();
    let hint = "give the same source again, or throw the unfinished import away with --restart";
    let reason = format!("the source{name} is not the one that the unfinished import has read");
    Error::state(&options.db, StateKind::Unfinished, reason, hint)
}

/// True if a source is a file, which can be identified without reading all of it.
pub(super) fn is_file(path: &Path) -> bool {
    path.as_os_str() != "-" && path.is_file()
}

/// True if a source can be read only once.
pub(super) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-" || path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// True if a directory has the name of an import's partitions.
pub(super) fn is_spill(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = name.strip_suffix(SPILL).and_then(|name| Some(name.rsplit_once('.')?.1)).unwrap_or_default();
    let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id && path.symlink_metadata().is_ok_and(|there| there.is_dir())
}

fn flatten(prefix: &str, value: &serde_json::Value, into: &mut BTreeMap<String, String>) {
    let text = match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('_', " ");
                let name = if prefix.is_empty() { name } else { format!("{prefix} {name}") };
                flatten(&name, value, into);
            }
            return;
        }
        serde_json::Value::Null => return,
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    into.insert(prefix.to_owned(), text);
}

/// Identifies standard input, if it is one of the sources and a file.
fn of_stdin(options: &ImportOptions) -> Result<Option<SourceFile>> {
    let path = Path::new(STDIN);
    if options.reader.is_some() || !options.sources.iter().any(|source| source == path) {
        return Ok(None);
    }
    let file = std::io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(Error::io("open", path))?;
    let is_file = file.metadata().map_err(Error::io("read metadata of", path))?.is_file();
    if is_file { SourceFile::of(path, &file).map(Some) } else { Ok(None) }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
