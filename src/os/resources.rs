//! Resources of this process and this machine, as the system reports them. Memory is in bytes.

use std::fs;
use std::path::Path;

/// User and system time of this process, in seconds.
pub fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

pub fn peak_rss() -> Option<u64> {
    field("/proc/self/status", "VmHWM:").map(|kib| kib * 1024)
}

pub fn rss() -> Option<u64> {
    field("/proc/self/status", "VmRSS:").map(|kib| kib * 1024)
}

/// Bytes this process has read and written through system calls.
pub fn io_bytes() -> Option<(u64, u64)> {
    Some((field("/proc/self/io", "rchar:")?, field("/proc/self/io", "wchar:")?))
}

/// The smallest of this machine's memory, the control group's limit and the limit of the address space, in bytes.
pub fn memory() -> Option<u64> {
    [machine_memory(), cgroup_memory(), address_space()].into_iter().flatten().min()
}

/// Limit of this process's address space, in bytes.
pub fn address_space() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

pub fn machine_memory() -> Option<u64> {
    field("/proc/meminfo", "MemTotal:").map(|kib| kib * 1024)
}

/// Memory that is available without swapping, in bytes. The page cache counts as free.
pub fn available_memory() -> Option<u64> {
    field("/proc/meminfo", "MemAvailable:").map(|kib| kib * 1024)
}

/// The lowest memory limit of this process's control group and those above it.
pub fn cgroup_memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().flat_map(|line| {
        // `0::/path` of version 2, `4:memory:/path` of version 1. In a container the path may be missing, and its own
        // group is the top one.
        let mut parts = line.splitn(3, ':').skip(1);
        let (root, file) = match parts.next() {
            Some("") => ("/sys/fs/cgroup", "memory.max"),
            Some("memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let path = Path::new(root).join(parts.next().unwrap_or_default().trim_start_matches('/'));
        let above = path.ancestors().take_while(|path| path.starts_with(root));
        above.filter_map(|path| fs::read_to_string(path.join(file)).ok()?.trim().parse().ok()).collect()
    });
    // Version 1 writes "no limit" as a number larger than any machine.
    limits.min().filter(|&limit| limit < 1 << 60)
}

/// The soft and the hard limit of open files of this process; `None` is unlimited.
pub fn open_files() -> (Option<u64>, Option<u64>) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    (limit.current, limit.maximum)
}

/// Raises this process's limit of open files to its hard limit. The library keeps within the current limit.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Limits the freed memory that the allocator keeps. By default glibc keeps up to 64 MiB for each thread that has freed
/// buffers of some MiB.
pub(crate) fn limit_kept_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both take numbers; it is called before other threads start.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 << 20);
    }
}

fn field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Prefetches the cache line of a byte, on x86-64.
#[inline]
pub(crate) fn prefetch(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing; the address is that of a live reference.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
