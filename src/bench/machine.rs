//! Describes the machine of a comparison.

use std::fs;
use std::path::Path;

use crate::os::resources;
use crate::report::Versions;
use crate::report::bench::BenchMachine;
use crate::rocks;

pub fn machine(dir: &Path) -> BenchMachine {
    let mount =
        fs::canonicalize(dir).ok().and_then(|dir| mount_of(&fs::read_to_string("/proc/self/mounts").ok()?, &dir));
    let (file_system, device) = mount.unzip();
    BenchMachine {
        cpu: fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu(&text)),
        cores: crate::parallel::cores(),
        memory_bytes: resources::memory(),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| format!("Linux {}", text.trim())),
        system: fs::read_to_string("/etc/os-release").ok().and_then(|text| system(&text)),
        file_system,
        device,
        dir: dir.display().to_string(),
        versions: Versions { bedload: env!("CARGO_PKG_VERSION").into(), rocksdb: rocks::VERSION.into() },
    }
}

fn cpu(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn system(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

/// Returns type and device of the file system of `dir`: the longest mount point above it, the last of equal ones.
fn mount_of(mounts: &str, dir: &Path) -> Option<(String, String)> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, at, kind) = (words.next()?, words.next()?, words.next()?);
        // The kernel writes spaces in octal.
        let at = at.replace("\\040", " ");
        dir.starts_with(&at).then(|| (at.len(), kind.to_owned(), device.to_owned()))
    });
    mounts.max_by_key(|(length, ..)| *length).map(|(_, kind, device)| (kind, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_mount_point_is_chosen() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /data/my\\040disk xfs rw 0 0\n";
        let of = |dir: &str| mount_of(mounts, Path::new(dir)).expect("something is mounted at /");
        assert_eq!(of("/home/me"), ("ext4".into(), "/dev/a".into()));
        assert_eq!(of("/tmp/x"), ("tmpfs".into(), "tmpfs".into()));
        assert_eq!(of("/tmpx"), ("ext4".into(), "/dev/a".into()));
        assert_eq!(of("/data/my disk/db"), ("xfs".into(), "/dev/b".into()));
    }

    #[test]
    fn names_are_parsed_from_system_files() {
        assert_eq!(cpu("processor : 0\nmodel name\t: A fast one\n").as_deref(), Some("A fast one"));
        assert_eq!(cpu("processor : 0\n"), None);
        assert_eq!(system("NAME=\"x\"\nPRETTY_NAME=\"Some Linux 12\"\n").as_deref(), Some("Some Linux 12"));
    }
}
