//! What was measured, kept for the predictions of later imports: one small file in the user's cache directory.
//!
//! ```text
//! $XDG_CACHE_HOME/bedload/measured.json, else ~/.cache/bedload/measured.json
//! ```
//!
//! It holds for the host, the number of cores and the version that measured it, and for [`HOLDS`]; speeds of cores are
//! kept for each set of options that files are built with, speeds of disks for each device. A file that is missing,
//! damaged or cannot be written only means that there is nothing to predict from.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::os::file_system::FileSystem;
use crate::report::{Rate, WorkSpeed};
use crate::rocks::option_map::{Group, OptionMap};

/// The version of the file.
const SCHEMA: &str = "bedload-measured-1";

/// How long a measurement holds: disks fill up and age.
const HOLDS: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the best of several measurements of the cores counts, in seconds.
const A_DAY: u64 = 24 * 3600;

/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The most entries of a kind; the oldest go.
const MAX_ENTRIES: usize = 64;

/// Everything that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    schema: String,
    host: String,
    cores: u64,
    version: String,
    work: BTreeMap<String, Entry<WorkSpeed>>,
    disks: BTreeMap<String, Entry<DiskRates>>,
}

/// What predictions need of a disk, in bytes a second and seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct DiskRates {
    /// Written and synced.
    pub write: Option<f64>,
    /// Read past the page cache.
    pub read: Option<f64>,
    /// Seconds of an `fsync`.
    pub sync: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry<T> {
    /// Seconds since 1970.
    at: u64,
    what: T,
}

impl Kept {
    /// What is kept for this host; nothing if that is nothing.
    pub fn load() -> Self {
        let empty = Self {
            schema: SCHEMA.into(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            cores: cores() as u64,
            version: env!("CARGO_PKG_VERSION").into(),
            work: BTreeMap::new(),
            disks: BTreeMap::new(),
        };
        let read = || {
            let path = path()?;
            let is_small = path.metadata().ok()?.len() <= MAX_FILE;
            let kept: Self = serde_json::from_slice(&std::fs::read(path).ok().filter(|_| is_small)?).ok()?;
            let same = (&kept.schema, &kept.host, kept.cores, &kept.version)
                == (&empty.schema, &empty.host, empty.cores, &empty.version);
            same.then_some(kept)
        };
        read().unwrap_or(empty)
    }

    /// What cores do with these options, and how many seconds ago that was measured.
    pub fn work(&self, loading: &OptionMap) -> Option<(WorkSpeed, u64)> {
        fresh(self.work.get(&options_key(loading))?)
    }

    /// What a file system does, and how many seconds ago that was measured.
    pub fn disk(&self, place: &FileSystem) -> Option<(DiskRates, u64)> {
        fresh(self.disks.get(&disk_key(place))?)
    }

    /// Keeps what cores do. Whoever else was at work while that was measured only made it slower, so within a day the
    /// best of all measurements counts.
    pub fn set_work(&mut self, loading: &OptionMap, what: WorkSpeed) {
        let known = self.work(loading).filter(|(_, age)| *age < A_DAY);
        set(&mut self.work, options_key(loading), known.map_or(what, |(known, _)| best(known, what)));
    }

    pub fn set_disk(&mut self, place: &FileSystem, what: DiskRates) {
        set(&mut self.disks, disk_key(place), what);
    }

    /// Writes it; where to, or `None` where that cannot be.
    pub fn save(&self) -> Option<PathBuf> {
        let path = path()?;
        let dir = path.parent()?;
        std::fs::create_dir_all(dir).ok()?;
        // Under another name first: whoever reads meanwhile gets one or the other.
        let mut file = tempfile::Builder::new().prefix(".measured-").tempfile_in(dir).ok()?;
        file.write_all(&serde_json::to_vec_pretty(self).ok()?).ok()?;
        file.persist(&path).ok()?;
        Some(path)
    }
}

/// Threads that can run at once.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn path() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("bedload/measured.json"))
}

fn best(one: WorkSpeed, other: WorkSpeed) -> WorkSpeed {
    let rate = |one: Rate, other: Rate| Rate {
        one_core: one.one_core.max(other.one_core),
        all_cores: one.all_cores.max(other.all_cores),
    };
    WorkSpeed {
        hash: rate(one.hash, other.hash),
        read: rate(one.read, other.read),
        build: rate(one.build, other.build),
        built_share: other.built_share,
    }
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())
}

fn fresh<T: Copy>(entry: &Entry<T>) -> Option<(T, u64)> {
    let age = now().checked_sub(entry.at)?;
    (age <= HOLDS.as_secs()).then_some((entry.what, age))
}

fn set<T>(entries: &mut BTreeMap<String, Entry<T>>, key: String, what: T) {
    entries.insert(key, Entry { at: now(), what });
    while entries.len() > MAX_ENTRIES {
        let Some(oldest) = entries.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone()) else { return };
        entries.remove(&oldest);
    }
}

/// A name for the options that decide how fast files are built.
fn options_key(loading: &OptionMap) -> String {
    let mut text = String::new();
    for (group, name, value) in loading.iter().filter(|(group, ..)| *group != Group::Db) {
        text.push_str(&format!("{group}.{name}={value}\n"));
    }
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(text.as_bytes()))
}

fn disk_key(place: &FileSystem) -> String {
    format!("{} {} of {}", place.kind, place.device, place.total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_until_it_is_too_old() {
        let place = FileSystem::of(std::path::Path::new("/")).expect("there");
        let mut kept = Kept::load();
        let rates = DiskRates { write: Some(1e9), read: None, sync: Some(0.001) };
        kept.set_disk(&place, rates);
        let mut other = place.clone();
        other.total += 1;
        assert_eq!(kept.disk(&place).map(|(found, _)| found), Some(rates));
        assert_eq!(kept.disk(&other), None);
        for (age, is_found) in [(HOLDS.as_secs() - 60, true), (HOLDS.as_secs() + 60, false)] {
            kept.disks.values_mut().for_each(|entry| entry.at = now() - age);
            assert_eq!(kept.disk(&place).is_some(), is_found, "{age}");
        }
        // A clock that was set back.
        kept.disks.values_mut().for_each(|entry| entry.at = now() + 1000);
        assert_eq!(kept.disk(&place), None);
    }

    #[test]
    fn a_machine_that_was_busy_for_a_moment_is_not_slow_for_a_month() {
        let rate = |rate: f64| Rate { one_core: rate, all_cores: 2.0 * rate };
        let work = |hash, read| WorkSpeed { hash: rate(hash), read: rate(read), build: rate(1.0), built_share: 1.0 };
        let (mut kept, options) = (Kept::load(), OptionMap::default());
        kept.work.clear();
        kept.set_work(&options, work(5.0, 3.0));
        kept.set_work(&options, work(4.0, 6.0));
        assert_eq!(kept.work(&options).map(|(found, _)| found), Some(work(5.0, 6.0)));
        kept.work.values_mut().for_each(|entry| entry.at = now() - A_DAY);
        kept.set_work(&options, work(2.0, 2.0));
        assert_eq!(kept.work(&options).map(|(found, _)| found), Some(work(2.0, 2.0)), "it has become slower");
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut kept = Kept::load();
        for number in 0..100 {
            set(&mut kept.disks, number.to_string(), DiskRates { write: None, read: None, sync: None });
        }
        assert_eq!(kept.disks.len(), MAX_ENTRIES);
    }

    #[test]
    fn descriptors_do_not_change_how_fast_files_are_built() {
        let map = |entries: &[(Group, &str, &str)]| {
            let mut map = OptionMap::default();
            entries.iter().for_each(|(group, name, value)| map.set(*group, *name, *value));
            options_key(&map)
        };
        let lz4 = (Group::Cf, "compression", "kLZ4Compression");
        assert_eq!(map(&[lz4, (Group::Db, "max_open_files", "7")]), map(&[lz4]));
        assert_ne!(map(&[lz4]), map(&[(Group::Cf, "compression", "kZSTD")]));
    }
}
