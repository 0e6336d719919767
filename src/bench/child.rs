//! Runs a process and measures it: time, processor, memory, descriptors, I/O.
//!
//! The clock runs from before the start of the process to its end. `waitid` leaves it unreaped, so that `/proc` still has its
//! I/O counters. A thread samples its memory and descriptors. The kernel kills the process if bedload is killed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::error::{Error, Result};
use crate::parallel;
use crate::progress::CancellationToken;
use crate::report::bench::ProcessFigures;

/// The time between two samples at first and at most. It grows with the age of the process.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
const MAX_EVERY: Duration = Duration::from_secs(1);

/// The time between SIGTERM and SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(3);

/// The most bytes of standard error that are read.
const MAX_ERRORS: u64 = 64 << 10;

pub(super) struct ChildJob<'a> {
    pub program: &'a Path,
    pub words: Vec<OsString>,
    /// The directory of its output, `name.out` and `name.err`.
    pub dir: &'a Path,
    pub name: &'static str,
    pub stop: &'a CancellationToken,
}

pub(super) struct Ended {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub process: ProcessFigures,
    pub output: PathBuf,
    /// The first 64 KiB of standard error.
    pub errors: String,
}

/// Runs a process to its end.
///
/// # Errors
/// [`Error::Io`]: it does not start; [`Error::Interrupted`]: the caller cancelled it, and it has ended.
pub(super) fn run(job: &ChildJob<'_>) -> Result<Ended> {
    let (output, errors) = (job.dir.join(format!("{}.out", job.name)), job.dir.join(format!("{}.err", job.name)));
    let create = |path: &PathBuf| File::create(path).map_err(Error::io("create", path));
    let mut command = Command::new(job.program);
    command.args(&job.words).stdin(Stdio::null()).stdout(create(&output)?).stderr(create(&errors)?);
    // Its runs do not report to the service manager.
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    // SAFETY: only system calls run between fork and exec, and they use no memory that is allocated there.
    unsafe {
        command.pre_exec(|| {
            let failed = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0;
            if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
    }

    let start = Instant::now();
    let child = command.spawn().map_err(Error::io("start", job.program))?;
    let pid = Pid::from_child(&child);
    let (over, is_over) = bounded::<()>(0);
    let mut process = std::thread::scope(|scope| {
        // If the system refuses a thread, there are no samples.
        let sampler = parallel::start(scope, move || watch(pid, start, job.stop, &is_over));
        // With a valid number it fails only if a signal interrupts it.
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {
        }
        let seconds = start.elapsed().as_secs_f64();
        drop(over);
        let sampled = sampler.map(|sampler| sampler.join().unwrap_or_default()).unwrap_or_default();
        let mut process = ProcessFigures { seconds, ..sampled };
        // The counters are readable until the process is reaped.
        sample_io(&mut process, pid);
        process
    });
    let (status, usage) = reap(pid).map_err(Error::io("wait for", job.program))?;
    drop(child);
    job.stop.check(Error::interrupted)?;
    let time = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (process.user_seconds, process.system_seconds) = (time(usage.ru_utime), time(usage.ru_stime));
    // The kernel's figure, in KiB, may be from before exec, when the child still had bedload's memory.
    let peak = || u64::try_from(usage.ru_maxrss).ok().map(|kib| kib * 1024);
    process.peak_rss_bytes = process.peak_rss_bytes.or_else(peak);
    let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    let exit = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    Ok(Ended { exit, signal, process, output, errors: read_start(&errors) })
}

fn read_start(path: &Path) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    // If it is unreadable, the exit code still shows the failure.
    let _ = File::open(path).map(|file| file.take(MAX_ERRORS).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reaps the process; returns its status and its resource usage.
fn reap(pid: Pid) -> io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    // SAFETY: all fields of `rusage` are integers, so zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to local variables of the right types.
        let found = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, 0, &raw mut usage) };
        if found >= 0 {
            return Ok((status, usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns the number after `name` in a file of `/proc`.
pub(super) fn proc_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Samples the process until it is over, and ends it once `stop` is set.
fn watch(pid: Pid, start: Instant, stop: &CancellationToken, is_over: &Receiver<()>) -> ProcessFigures {
    let mut peaks = ProcessFigures::default();
    let mut every = SAMPLE_EVERY;
    let mut asked: Option<Instant> = None;
    while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        if stop.is_cancelled() {
            // It may have ended already.
            let _ = match asked {
                None => kill_process(pid, Signal::TERM),
                Some(first) if first.elapsed() > TERM_TIMEOUT => kill_process(pid, Signal::KILL),
                Some(_) => Ok(()),
            };
            asked.get_or_insert_with(Instant::now);
        }
        sample(&mut peaks, pid);
        every = (start.elapsed() / 240).clamp(SAMPLE_EVERY, MAX_EVERY);
    }
    peaks
}

fn sample(peaks: &mut ProcessFigures, pid: Pid) {
    let pid_text = pid.as_raw_nonzero();
    let Ok(status) = fs::read_to_string(format!("/proc/{pid_text}/status")) else { return };
    let bytes = |name| proc_field(&status, name).map(|kib| kib * 1024);
    peaks.peak_rss_bytes = peaks.peak_rss_bytes.max(bytes("VmRSS:"));
    peaks.peak_anonymous_bytes = peaks.peak_anonymous_bytes.max(bytes("RssAnon:"));
    if let Ok(list) = fs::read_dir(format!("/proc/{pid_text}/fd")) {
        peaks.open_files = peaks.open_files.max(Some(list.count() as u64));
    }
    sample_io(peaks, pid);
}

fn sample_io(peaks: &mut ProcessFigures, pid: Pid) {
    let Ok(text) = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero())) else { return };
    let field = |name| proc_field(&text, name);
    (peaks.read_bytes, peaks.written_bytes) = (field("rchar:"), field("wchar:"));
    (peaks.disk_read_bytes, peaks.disk_written_bytes) = (field("read_bytes:"), field("write_bytes:"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, stop: &CancellationToken) -> Result<Ended> {
        let dir = tempfile::tempdir().expect("a folder");
        let words = ["-c".into(), script.into()].to_vec();
        run(&ChildJob { program: Path::new("/bin/sh"), words, dir: dir.path(), name: "sh", stop })
    }

    #[test]
    fn a_process_is_measured() {
        let script = "dd if=/dev/zero of=/dev/null bs=1000 count=500 2>/dev/null; sleep 0.2; echo oh >&2; exit 3";
        let ended = shell(script, &CancellationToken::default()).expect("it starts");
        assert_eq!((ended.exit, ended.signal, ended.errors.as_str()), (Some(3), None, "oh\n"));
        assert_ne!(ended.exit, Some(0));
        let process = ended.process;
        assert!(process.seconds >= 0.2, "{process:?}");
        assert!(process.peak_rss_bytes > Some(100 << 10), "{process:?}");
        assert!(process.open_files > Some(2), "{process:?}");
        assert!(process.peak_anonymous_bytes > Some(0), "{process:?}");
        assert!(process.read_bytes.is_some_and(|bytes| bytes >= 500_000), "of its children too: {process:?}");
    }

    #[test]
    fn cancellation_ends_a_process() {
        let ended = shell("kill -9 $$", &CancellationToken::default()).expect("it starts");
        assert_eq!((ended.exit, ended.signal), (None, Some(9)), "a signal is no exit code");
        let stop = CancellationToken::default();
        let asked = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            asked.cancel();
        });
        let Err(error) = shell("sleep 60", &stop) else { panic!("it went on") };
        assert!(matches!(error, Error::Interrupted { .. }), "{error}");
    }

    #[test]
    fn missing_program_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let stop = CancellationToken::default();
        let job =
            ChildJob { program: Path::new("/no/such"), words: Vec::new(), dir: dir.path(), name: "x", stop: &stop };
        let Err(error) = run(&job) else { panic!("it started") };
        assert_eq!(error.to_string(), "cannot start /no/such");
    }
}
