//! A small file system of a test's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::crash::succeeds;

/// A tmpfs that is mounted while this lives.
pub struct Disk(pub PathBuf);

impl Disk {
    /// Mounts it at `dir`, which is made. `None`, with a notice, if nothing may be mounted.
    pub fn new(dir: PathBuf, kib: u64) -> Option<Self> {
        std::fs::create_dir_all(&dir).expect("a folder");
        let mut mount = Command::new("mount");
        if succeeds(mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(&dir)) {
            return Some(Self(dir));
        }
        super::skipped("a small file system cannot be mounted here: that takes root");
        None
    }

    pub fn remount(&self, options: &str) {
        let is_done = succeeds(Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0));
        assert!(is_done, "{options}");
    }

    pub fn make_room(&self) {
        self.remount("size=200m");
    }

    pub fn arg(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg::<&Path>(&self.0).status();
    }
}
