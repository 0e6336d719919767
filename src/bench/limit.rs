//! A limit of memory for single processes, by a control group of version 2.
//!
//! ```text
//! /sys/fs/cgroup/<ours>/bedload-bench-<pid>/memory.max        the limit
//!                                          /memory.swap.max   0: swapping would measure the disk
//!                                          /cgroup.procs      who enters
//! ```
//!
//! This needs the right to make a group, and the memory controller handed down to it. Where either is missing the limit
//! is not enforced, and the report says so and why.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::report::bench::MemoryLimit;

/// A control group that lasts as long as this value.
pub(super) struct Limit {
    dir: PathBuf,
}

/// What a process needs to enter, ready before it is made.
pub(super) struct Entrance(CString);

impl Limit {
    /// Makes a group that allows `bytes`; what came of it is in the second value.
    pub fn new(bytes: u64) -> (Option<Self>, MemoryLimit) {
        match own_group().and_then(|parent| Self::make(&parent, bytes)) {
            Ok(limit) => {
                let how = format!("control group {}", limit.dir.display());
                (Some(limit), MemoryLimit { bytes, enforced: true, how })
            }
            Err(why) => (None, MemoryLimit { bytes, enforced: false, how: why }),
        }
    }

    fn make(parent: &Path, bytes: u64) -> Result<Self, String> {
        let dir = parent.join(format!("bedload-bench-{}", std::process::id()));
        fs::create_dir(&dir).map_err(|error| format!("make {}: {error}", dir.display()))?;
        let limit = Self { dir };
        if !limit.dir.join("memory.max").exists() {
            // The parent may hand the controller down; where processes live in it, the kernel refuses.
            write(&parent.join("cgroup.subtree_control"), "+memory")?;
        }
        write(&limit.dir.join("memory.max"), &bytes.to_string())?;
        // Without swap there is no such file.
        let _ = write(&limit.dir.join("memory.swap.max"), "0");
        Ok(limit)
    }

    /// What a process needs to enter.
    pub fn entrance(&self) -> Entrance {
        let path = self.dir.join("cgroup.procs").into_os_string();
        Entrance(CString::new(path.into_encoded_bytes()).unwrap_or_default())
    }
}

/// The group that this process is in.
fn own_group() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"));
    let root = root_of(&read("/proc/self/mounts")?).ok_or("no control groups of version 2 are mounted")?;
    let groups = read("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).ok_or("this process is in no control group")?;
    Ok(root.join(own.trim_start_matches('/')))
}

/// Where the hierarchy of version 2 is mounted.
fn root_of(mounts: &str) -> Option<PathBuf> {
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find_map(|words| match words[..] {
        [_, at, "cgroup2", ..] => Some(PathBuf::from(at)),
        _ => None,
    })
}

/// Writes to a file of the kernel's: one that is not there is never made.
fn write(path: &Path, value: &str) -> Result<(), String> {
    let write = || fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes());
    write().map_err(|error| format!("write {}: {error}", path.display()))
}

impl Entrance {
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
    fn where_no_group_can_be_made_the_reason_is_told_and_nothing_is_left() {
        let dir = tempfile::tempdir().expect("a folder");
        let refused = |parent: &Path| Limit::make(parent, 1 << 30).map(|_| ()).expect_err("this is no control group");
        assert!(refused(&dir.path().join("gone")).starts_with("make "));
        assert!(refused(dir.path()).starts_with("write "), "an ordinary folder has no controllers");
        assert_eq!(dir.path().read_dir().expect("ours").count(), 0);
    }

    #[test]
    fn the_hierarchy_of_version_2_is_found_wherever_it_is_mounted() {
        let mixed = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(root_of(mixed), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(root_of("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"), None);
    }
}
