//! A limit of memory for single processes, by a control group.
//!
//! ```text
//! version 2   /sys/fs/cgroup/<ours>/bedload-bench-<pid>/memory.max                     the limit
//!                                                      /memory.swap.max                0: swapping would measure the disk
//!                                                      /cgroup.procs                   the processes
//! version 1   /sys/fs/cgroup/memory/<ours>/bedload-bench-<pid>/memory.limit_in_bytes   the limit
//!                                                             /memory.swappiness       0
//!                                                             /cgroup.procs            the processes
//! ```
//!
//! This needs the right to make a group, and the memory controller delegated to it. Where either is missing the limit
//! is not enforced, and the report says so and why.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::report::bench::MemoryLimit;

/// How a hierarchy of control groups names things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group that another one can be made in.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    dir: PathBuf,
    version: Version,
}

/// A control group that lasts as long as this value.
pub(super) struct Limit {
    dir: PathBuf,
}

/// What a process needs to enter, prepared before the fork.
pub(super) struct CgroupGuard(CString);

impl Limit {
    /// Makes a group that allows `bytes`; the second value says whether the limit is enforced.
    pub fn new(bytes: u64) -> (Option<Self>, MemoryLimit) {
        match own_group().and_then(|parent| Self::make(&parent, bytes)) {
            Ok(limit) => {
                let how = format!("control group {}", limit.dir.display());
                (Some(limit), MemoryLimit { bytes, enforced: true, how })
            }
            Err(why) => (None, MemoryLimit { bytes, enforced: false, how: why }),
        }
    }

    fn make(parent: &Parent, bytes: u64) -> Result<Self, String> {
        let Parent { dir: parent, version } = parent;
        let dir = parent.join(format!("bedload-bench-{}", std::process::id()));
        fs::create_dir(&dir).map_err(|error| format!("make {}: {error}", dir.display()))?;
        let limit = Self { dir };
        let (max, swap) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.swappiness"),
            Version::Two => ("memory.max", "memory.swap.max"),
        };
        if *version == Version::Two && !limit.dir.join(max).exists() {
            // The parent may delegate the controller; where processes live in it, the kernel refuses.
            write(&parent.join("cgroup.subtree_control"), "+memory")?;
        }
        write(&limit.dir.join(max), &bytes.to_string())?;
        // Without swap there is no such file.
        let _ = write(&limit.dir.join(swap), "0");
        Ok(limit)
    }

    /// What a process needs to enter.
    pub fn cgroup_guard(&self) -> CgroupGuard {
        let path = self.dir.join("cgroup.procs").into_os_string();
        CgroupGuard(CString::new(path.into_encoded_bytes()).unwrap_or_default())
    }
}

/// The group that this process is in, where memory is counted.
fn own_group() -> Result<Parent, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"));
    let parent = parent_of(&read("/proc/self/mounts")?, &read("/proc/self/cgroup")?);
    parent.ok_or_else(|| "no control groups that count memory are mounted".into())
}

/// The same from the system's tables. Where both versions are mounted, the controller belongs to the first one that names
/// it.
fn parent_of(mounts: &str, groups: &str) -> Option<Parent> {
    let mounted = |kind: &str, option: Option<&str>| {
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        mounts.find_map(|words| match words[..] {
            [_, at, of, options, ..]
                if of == kind && option.is_none_or(|it| options.split(',').any(|own| own == it)) =>
            {
                Some(PathBuf::from(at))
            }
            _ => None,
        })
    };
    let own = |of_memory: bool| {
        groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let found =
                if of_memory { controllers.split(',').any(|it| it == "memory") } else { controllers.is_empty() };
            found.then(|| path.trim_start_matches('/'))
        })
    };
    let parent = |root: Option<PathBuf>, own: Option<&str>, version| Some(Parent { dir: root?.join(own?), version });
    parent(mounted("cgroup", Some("memory")), own(true), Version::One)
        .or_else(|| parent(mounted("cgroup2", None), own(false), Version::Two))
}

/// Writes to a file of the kernel's: one that is not there is never made.
fn write(path: &Path, value: &str) -> Result<(), String> {
    let write = || fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes());
    write().map_err(|error| format!("write {}: {error}", path.display()))
}

impl CgroupGuard {
    /// Puts the calling process into the group. Only system calls: this runs between fork and exec.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: the path ends with a zero; the descriptor is our own; "0" stands for the process that writes.
        unsafe {
            let file = libc::open(self.0.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            let written = libc::write(file, c"0".as_ptr().cast(), 1);
            let error = io::Error::last_os_error();
            libc::close(file);
            if written == 1 { Ok(()) } else { Err(error) }
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // An empty group is all that can be removed; a process that is still dying keeps it a moment longer.
        for _ in 0..20 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_group_can_be_made_the_reason_is_reported_and_nothing_is_left() {
        let dir = tempfile::tempdir().expect("a folder");
        for version in [Version::One, Version::Two] {
            let refused = |dir: &Path| {
                let parent = Parent { dir: dir.to_owned(), version };
                Limit::make(&parent, 1 << 30).map(|_| ()).expect_err("this is no control group")
            };
            assert!(refused(&dir.path().join("gone")).starts_with("make "));
            assert!(refused(dir.path()).starts_with("write "), "an ordinary folder has no controllers");
            assert_eq!(dir.path().read_dir().expect("ours").count(), 0);
        }
    }

    #[test]
    fn the_group_is_found_in_the_hierarchy_that_counts_memory() {
        let of_version_2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let expected = Parent { dir: "/sys/fs/cgroup/user/one".into(), version: Version::Two };
        assert_eq!(parent_of(of_version_2, "0::/user/one\n"), Some(expected));
        let both = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                    cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                    cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let expected = Parent { dir: "/sys/fs/cgroup/memory/a/b".into(), version: Version::One };
        assert_eq!(parent_of(both, "5:cpu:/\n4:memory:/a/b\n0::/\n"), Some(expected));
        assert_eq!(parent_of("tmpfs /sys/fs/cgroup tmpfs rw 0 0\n", "0::/\n"), None);
    }
}
