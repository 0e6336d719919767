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
use std::io;
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
        match Self::make(Path::new("/sys/fs/cgroup"), bytes) {
            Ok(limit) => {
                let how = format!("control group {}", limit.dir.display());
                (Some(limit), MemoryLimit { bytes, enforced: true, how })
            }
            Err(why) => (None, MemoryLimit { bytes, enforced: false, how: why }),
        }
    }

    fn make(root: &Path, bytes: u64) -> Result<Self, String> {
        let text = fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
        let own =
            text.lines().find_map(|line| line.strip_prefix("0::")).ok_or("control groups are not of version 2")?;
        let parent = root.join(own.trim_start_matches('/'));
        let dir = parent.join(format!("bedload-bench-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&dir)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(format!("make {}: {error}", dir.display()));
        }
        let limit = Self { dir };
        let write = |name: &str, value: &str| {
            let path = limit.dir.join(name);
            fs::write(&path, value).map_err(|error| format!("write {}: {error}", path.display()))
        };
        if !limit.dir.join("memory.max").exists() {
            // The parent may hand the controller down; where processes live in it, the kernel refuses.
            let path = parent.join("cgroup.subtree_control");
            fs::write(&path, "+memory").map_err(|error| format!("write {}: {error}", path.display()))?;
        }
        write("memory.max", &bytes.to_string())?;
        // Without swap there is no such file.
        let _ = write("memory.swap.max", "0");
        Ok(limit)
    }

    /// What a process needs to enter.
    pub fn entrance(&self) -> Entrance {
        let path = self.dir.join("cgroup.procs").into_os_string();
        Entrance(CString::new(path.into_encoded_bytes()).unwrap_or_default())
    }
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
    fn where_no_group_can_be_made_the_reason_is_told() {
        let nowhere = tempfile::tempdir().expect("a folder").path().join("gone");
        let Err(why) = Limit::make(&nowhere, 1 << 30) else { panic!("made in no place") };
        assert!(why.starts_with("make ") || why == "control groups are not of version 2", "{why}");
    }
}
