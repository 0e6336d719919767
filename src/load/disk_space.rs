//! The space on disk that an import needs at its peak, and the free space where it writes.
//!
//! ```text
//! in memory          the database
//! spilled            the larger of partitions and database, plus one SST for each thread: a partition is deleted when its SST
//!                    is synced. A work directory on another file system takes the partitions alone
//! memtable           twice the database: the final compaction writes everything again before it deletes anything
//! ```
//!
//! A replaced database takes its space until the new one has its name. An existing database that is added to takes its size
//! twice: its backup is kept until the import is complete, and the final compaction writes the database again.
//!
//! The plan assumes that the database is as large as its blocks, but compression may make it much smaller. So too little space
//! for it is only a warning: a full disk loses nothing, and the same command resumes when there is space. Partitions, and a
//! database without compression, are not smaller than their blocks: if they do not fit and the source's size is certain, the
//! import does not start. The files of an earlier run are not counted again.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::load::journal::Journal;
use crate::load::target::Target;
use crate::os::file_system::FileSystem;
use crate::report::{Method, Plan, Space};
use crate::text::size::human;

/// RocksDB's own files, the journal, indexes and filters: a share of the blocks, as its reciprocal.
const OVERHEAD: u64 = 25;

/// Keys and links that are compared: a share of the blocks, as its reciprocal.
const LINKS: u64 = 16;

/// The space that an import needs on each file system, for a database of at least `least` bytes.
pub(in crate::load) fn of(plan: &Plan, exact: bool, least: u64, target: &Target) -> Result<Vec<Space>> {
    let database = FileSystem::of(target.working())?;
    let partitions = FileSystem::of(&target.spill)?;
    let there = [&target.sst, &target.staging, &target.swap].into_iter().map(|dir| size_of(dir)).sum::<u64>();
    let spilled = size_of(&target.spill);

    // Records may be packed to a small part of their size.
    let data = plan.expected_bytes.filter(|_| exact || plan.records().is_none());
    let with_overhead = data.map(|bytes| bytes + bytes / OVERHEAD);
    let spills = plan.spills_blocks();
    // Partitions only shrink when everything is read.
    let reads = Journal::peek(&target.partial).car.read_done.is_none();
    let certain = if spills && exact && reads { data.unwrap_or_default() } else { 0 };

    let beside = |holds: &str| match target.has_old() {
        true => format!("{holds} beside the one that is replaced"),
        false => holds.to_owned(),
    };
    // Partitions on a separate file system take no space from the database.
    let is_apart = spills && database.device != partitions.device;
    let (holds, peak) = match &plan.method {
        Method::CarMemtable { .. } | Method::BlockLogMemtable { .. } => {
            ("database", with_overhead.map(|bytes| bytes * 2))
        }
        Method::CarSst { sort } if spills && !is_apart => {
            // Blocks that are being built exist twice: in partitions and in SSTs.
            let in_hand = data.map_or(0, |bytes| {
                let part = plan.sst_target(bytes).max(bytes >> sort.partitions.bits);
                (plan.threads as u64 * part).min(bytes)
            });
            ("partitions and database", with_overhead.map(|bytes| bytes + in_hand))
        }
        Method::RecordsSst { records } if !records.is_sorted && data.is_none_or(|bytes| bytes > records.hold_bytes) => {
            ("sorted runs and database", with_overhead.map(|bytes| bytes * 2))
        }
        _ => ("database", with_overhead),
    };
    // Some entries of 16 bytes for each block, beyond what stays in memory.
    let links =
        data.filter(|_| plan.links_bytes > 0).map_or(0, |bytes| (bytes / LINKS).saturating_sub(plan.links_bytes));
    let kept = if target.into_existing { size_of(&target.db) } else { 0 } + links;
    let (kept, there_too, certain_here) = if is_apart { (0, there, 0) } else { (kept, there + spilled, certain) };
    let needed = peak.map(|bytes| (bytes + kept).saturating_sub(there_too));
    let mut space = needs(database, &beside(holds), needed, certain_here.saturating_sub(there_too));
    space.least_bytes = space.least_bytes.max(least.saturating_sub(there_too));
    let apart = is_apart.then(|| {
        let left = |bytes: u64| bytes.saturating_sub(spilled + there);
        needs(partitions, "partitions", data.map(left), left(certain))
    });
    Ok(std::iter::once(space).chain(apart).collect())
}

pub(in crate::load) fn warnings(space: &[Space]) -> Vec<String> {
    let scarce =
        |space: &&Space| space.certain_bytes <= space.free_bytes && space.needed_bytes > Some(space.free_bytes);
    let warn = |Space { path, needed_bytes, least_bytes, free_bytes, holds, .. }: &Space| {
        let (free, needed) = (human(*free_bytes), human(needed_bytes.unwrap_or_default()));
        let needed = match least_bytes {
            0 => format!("up to {needed}, less if the blocks compress well"),
            least => format!("{} to {needed}", human(*least)),
        };
        format!(
            "{path} has {free} free; the {holds} may need {needed}. If the disk gets full, free some space and run the same \
             command again"
        )
    };
    space.iter().filter(scarce).map(warn).collect()
}

/// Adds to an error of a full disk how much space is missing.
pub(in crate::load) fn explain(error: Error, now: impl FnOnce() -> Result<Vec<Space>>) -> Error {
    let path = match &error {
        Error::Io { source, path, .. } if is_full(source) => path,
        Error::Rocks { message, path, .. } if message.contains("No space left on device") => path,
        _ => return error,
    };
    let Ok(place) = FileSystem::of(path) else { return error };
    let needed = now().ok().and_then(|all| all.into_iter().find(|space| space.device == place.device)?.needed_bytes);
    Error::NoSpace { path: place.path.clone(), needed, free: place.free, source: Some(Box::new(error)) }
}

pub(in crate::load) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn needs(place: FileSystem, holds: &str, needed_bytes: Option<u64>, certain_bytes: u64) -> Space {
    Space {
        path: place.path.display().to_string(),
        file_system: place.kind,
        device: place.device,
        holds: holds.into(),
        needed_bytes,
        certain_bytes,
        least_bytes: certain_bytes,
        free_bytes: place.free,
    }
}

/// Bytes that the files in a directory take; a file that cannot be read takes none.
fn size_of(dir: &Path) -> u64 {
    let Ok(entries) = dir.read_dir() else { return 0 };
    let size = |entry: std::fs::DirEntry| Some(entry.metadata().ok()?.blocks() * 512);
    entries.filter_map(|entry| size(entry.ok()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::options::{ImportOptions, PlanChoice};
    use crate::load::planner;
    use crate::report::MemtablePlan;

    const GIB: u64 = 1 << 30;

    fn plan(choice: PlanChoice, bytes: Option<u64>) -> Plan {
        planner::choose(choice, bytes, bytes.is_some(), 4 * GIB, 2, 1024, 256 << 20)
    }

    fn with(space: Vec<Space>) -> Plan {
        Plan { space, ..plan(PlanChoice::Spill, Some(GIB)) }
    }

    fn target(dir: &Path) -> Target {
        Target::new(&ImportOptions::new("snapshot", dir.join("not/yet/db"))).expect("a name")
    }

    #[test]
    fn each_way_needs_what_it_has_on_disk_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = target(dir.path());
        let needs = |plan: &Plan| {
            let found = of(plan, true, 0, &target).expect("it answers");
            let [space] = &found[..] else { panic!("one file system: {found:?}") };
            assert_eq!(space.path, dir.path().display().to_string(), "the nearest directory that exists");
            (space.needed_bytes, space.certain_bytes)
        };
        assert_eq!(needs(&plan(PlanChoice::Memory, Some(25 * GIB))), (Some(26 * GIB), 0));
        // Two threads, each with one of 64 partitions.
        let spilled = plan(PlanChoice::Spill, Some(25 * GIB));
        assert_eq!(needs(&spilled), (Some(26 * GIB + (800 << 20)), 25 * GIB));
        let method = Method::CarMemtable { memtable: MemtablePlan::default() };
        assert_eq!(needs(&Plan { method, ..spilled }), (Some(52 * GIB), 0));
    }

    #[test]
    fn what_is_written_already_is_not_counted_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = target(dir.path());
        let needed = || of(&plan(PlanChoice::Spill, Some(25 * GIB)), true, 0, &target);
        let before = needed().expect("it answers")[0].needed_bytes.expect("known");
        std::fs::create_dir_all(&target.spill).expect("made");
        std::fs::write(target.spill.join("00000.part"), vec![1; 1 << 20]).expect("written");
        assert_eq!(before - needed().expect("it answers")[0].needed_bytes.expect("known"), 1 << 20);
    }

    #[test]
    fn unknown_size_passes_the_space_check() {
        let dir = tempfile::tempdir().expect("a directory");
        let space = of(&plan(PlanChoice::Auto, None), false, 0, &target(dir.path())).expect("it answers");
        assert_eq!(space[0].needed_bytes, None);
        assert!(space[0].describe().contains("needs an unknown amount; "), "{}", space[0].describe());
        assert_eq!(warnings(&space), Vec::<String>::new());
        with(space).check_space().expect("let through");
    }

    fn space(needed: u64, certain: u64, free: u64) -> Space {
        Space {
            path: "/data".into(),
            file_system: "ext4".into(),
            device: 1,
            holds: "database".into(),
            needed_bytes: Some(needed),
            certain_bytes: certain,
            least_bytes: certain,
            free_bytes: free,
        }
    }

    #[test]
    fn only_what_cannot_succeed_is_refused() {
        assert!(warnings(&[space(10, 8, 10)]).is_empty());
        let may_not_fit = vec![space(11 * GIB, 8 * GIB, 10 * GIB)];
        let warned = warnings(&may_not_fit);
        let [warning] = &warned[..] else { panic!("one warning: {warned:?}") };
        let why = "the database may need 8.0 GiB to 11.0 GiB. ";
        assert!(warning.starts_with(&format!("/data has 10.0 GiB free; {why}")), "{warning}");
        with(may_not_fit).check_space().expect("it may fit");
        let error = with(vec![space(12 * GIB, 11 * GIB, 10 * GIB)]).check_space().expect_err("cannot fit");
        assert_eq!(error.to_string(), "not enough space in /data: 12.0 GiB more needed, 10.0 GiB free");
        assert_eq!(error.exit(), crate::error::Exit::Failed);
        assert!(error.hint().contains("df -h /data"), "{}", error.hint());
    }

    #[test]
    fn full_disk_error_has_numbers_and_cause() {
        let full = || Error::io("write", "/proc/self/none")(rustix::io::Errno::NOSPC.into());
        let device = Path::new("/proc/self").metadata().expect("there").dev();
        let error = explain(full(), || Ok(vec![Space { device, ..space(3 * GIB, 0, 0) }]));
        assert_eq!(error.to_string(), "not enough space in /proc/self: 3.0 GiB more needed, 0 B free");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert_eq!(cause, "cannot write /proc/self/none");
        let other = explain(Error::io("write", "/proc/x")(rustix::io::Errno::IO.into()), || Ok(Vec::new()));
        assert!(matches!(other, Error::Io { .. }), "{other}");
    }
}
