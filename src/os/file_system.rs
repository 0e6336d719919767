//! The file system of a path: type, free space, device.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// A directory and the file system it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// The nearest existing directory; absolute.
    pub path: PathBuf,
    pub device: u64,
    /// Type, e.g. `ext4`, or its number in hex.
    pub kind: String,
    pub total: u64,
    /// Bytes free for this user.
    pub free: u64,
}

impl FileSystem {
    /// The file system of the nearest directory that exists.
    pub fn of(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(Error::io("read metadata of", path))?;
        let path = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned();
        let device = path.metadata().map_err(Error::io("read metadata of", &path))?.dev();
        let failed = |error: rustix::io::Errno| Error::io("read the file system of", &path)(error.into());
        let stat = rustix::fs::statvfs(&path).map_err(failed)?;
        let kind = rustix::fs::statfs(&path).map_err(failed)?.f_type;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Self {
            device,
            kind: name(kind as u64 & 0xffff_ffff),
            total: bytes(stat.f_blocks),
            free: bytes(stat.f_bavail),
            path,
        })
    }
}

/// True if a file system, or a part of one, is mounted at a directory.
pub(crate) fn is_mount_point(path: &Path) -> bool {
    let flag = StatxAttributes::MOUNT_ROOT;
    match rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS) {
        Ok(there) if there.stx_attributes_mask.contains(flag) => there.stx_attributes.contains(flag),
        Err(Errno::NOENT | Errno::NOTDIR) => false,
        // Kernels before 5.8 do not report it, and some sandboxes forbid the call.
        _ => is_in_mount_table(path),
    }
}

fn is_in_mount_table(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(whole) = parent.canonicalize().map(|parent| parent.join(path.file_name().unwrap_or_default())) else {
        return false;
    };
    let mut escaped = Vec::new();
    for &byte in whole.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => escaped.extend(format!("\\{byte:03o}").into_bytes()),
            _ => escaped.push(byte),
        }
    }
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|&byte| byte == b'\n').any(|line| line.split(|&byte| byte == b' ').nth(4) == Some(&escaped))
}

fn name(kind: u64) -> String {
    let known = match kind {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xca45_1a4e => "bcachefs",
        0xf2f5_2010 => "f2fs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x794c_7630 => "overlay",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x00c3_6400 => "ceph",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x5346_544e | 0x7366_746e => "ntfs",
        0x4d44 => "vfat",
        0x2011_bab0 => "exfat",
        _ => return format!("{kind:x}"),
    };
    known.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_existing_directory_is_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = FileSystem::of(&dir.path().join("not/yet")).expect("it answers");
        assert_eq!(found.path, dir.path());
        assert!(found.total >= found.free && found.free > 0, "{found:?}");
        for is_mounted in [is_mount_point, is_in_mount_table] {
            assert!(is_mounted(Path::new("/proc")) && !is_mounted(dir.path()) && !is_mounted(&dir.path().join("no")));
        }
    }
}
