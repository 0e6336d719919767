//! The file of `--metrics`, and systemd's `sd_notify`. Both are updated once per second at most.
//!
//! A thread of its own writes, so that a slow disk under the file delays nothing. It takes the lock of the figures each
//! time: the watchdog ends a process that hangs or is stopped, not one that waits for a disk or a network.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use sd_notify::NotifyState;

use crate::os::files;
use crate::os::resources;
use crate::progress::{Event, Phase, Sample};
use crate::{Error, Result};

use super::bar;
use super::status::Status;
use crate::cli::render::numbers::percent;

const EVERY: Duration = Duration::from_secs(1);

/// The shortest interval of watchdog signals.
const SHORTEST: Duration = Duration::from_millis(10);

/// The mode of the file, which another user's collector reads.
const MODE: u32 = 0o644;

/// The beginning of each file that bedload wrote.
const BEGINNING: &str = "# HELP bedload_";

/// The most characters of a status for systemd.
const STATUS: usize = 200;

/// The one monitor of the process. Signals and errors end it, too.
static MONITOR: OnceLock<Monitor> = OnceLock::new();

struct Monitor {
    figures: Mutex<Figures>,
    /// Locked while it is written; `None` without one, or after the last write.
    file: Mutex<Option<PathBuf>>,
    is_ready: AtomicBool,
}

/// The state of the command. Times are in seconds since 1970.
#[derive(Default)]
pub struct Figures {
    command: String,
    /// A label that distinguishes several imports: the file's name without its extension.
    name: String,
    start: f64,
    last: Option<Sample>,
    phases: Vec<PhaseFigures>,
    resumed_bytes: Option<u64>,
    warnings: u64,
    /// The number of the current run of a comparison, and the number of runs.
    runs: Option<(u64, u64)>,
    /// The status in words, and the share done.
    status: Option<(String, Option<f64>)>,
    ended: Option<(f64, u8)>,
}

struct PhaseFigures {
    phase: Phase,
    began: Instant,
    seconds: Option<f64>,
    /// Those that are done, and all.
    bytes: (u64, Option<u64>),
    blocks: (u64, Option<u64>),
}

/// Begins to monitor `command`, if `--metrics` or systemd requests it.
///
/// # Errors
/// [`Error::Usage`]: the file cannot be written, or is not one of bedload's; [`Error::Io`]: the system refuses a thread.
pub fn begin(command: &str, metrics: Option<&Path>) -> Result<()> {
    let notifies = std::env::var_os("NOTIFY_SOCKET").is_some();
    if metrics.is_none() && !notifies {
        return Ok(());
    }
    let stem = metrics.and_then(Path::file_stem).unwrap_or_default();
    let figures = Figures::new(command, &stem.to_string_lossy());
    if let Some(path) = metrics {
        check(path)?;
        files::replace(path, figures.text(seconds(SystemTime::now())).as_bytes(), MODE).map_err(|error| {
            let reason = format!("the metrics cannot be written: {:#}", anyhow::Error::from(error));
            Error::Usage { reason, hint: "give --metrics a file in a writable directory".into() }
        })?;
    }
    let monitor = Monitor {
        figures: Mutex::new(figures),
        file: Mutex::new(metrics.map(Path::to_owned)),
        is_ready: AtomicBool::new(false),
    };
    let monitor = MONITOR.get_or_init(|| monitor);
    let watchdog = sd_notify::watchdog_enabled().filter(|_| notifies).map(|time| (time / 2).max(SHORTEST));
    let watch = move || monitor.watch(notifies, watchdog);
    std::thread::Builder::new().name("monitor".into()).spawn(watch).map_err(Error::io("start", "a thread"))?;
    Ok(())
}

/// Refuses to replace a file of another program, and a file inside a database.
fn check(path: &Path) -> Result<()> {
    let usage = |reason: String, hint: &str| Err(Error::Usage { reason, hint: hint.into() });
    if path.extension().is_none_or(|extension| extension != "prom") {
        let reason = format!("--metrics {}: the name does not end in .prom", path.display());
        return usage(reason, "choose a name that ends in .prom: node_exporter reads no other files");
    }
    if path.with_file_name("CURRENT").exists() {
        let reason = format!("--metrics {}: the directory is a RocksDB database", path.display());
        return usage(reason, "choose another directory");
    }
    let is_own = || {
        let mut beginning = [0; BEGINNING.len()];
        let read = files::open_regular(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut beginning));
        read.is_ok() && beginning == BEGINNING.as_bytes()
    };
    let problem = match path.symlink_metadata() {
        Ok(there) if !there.is_file() => "is not a regular file",
        Ok(there) if there.len() > 0 && !is_own() => "has no metrics of bedload",
        _ => return Ok(()),
    };
    usage(format!("--metrics would replace {}, which {problem}", path.display()), "choose another name")
}

/// Notes that the command has accepted its options and begins to work.
pub fn ready() {
    if let Some(monitor) = MONITOR.get()
        && !monitor.is_ready.swap(true, Ordering::Relaxed)
    {
        notify(&[NotifyState::Ready]);
    }
}

pub fn update(change: impl FnOnce(&mut Figures)) {
    if let Some(monitor) = MONITOR.get() {
        change(&mut monitor.figures.lock());
    }
}

pub fn is_there() -> bool {
    MONITOR.get().is_some()
}

/// Takes the status of a comparison, with the number of the current run and of all runs.
pub fn status(status: &Status, runs: Option<(u64, u64)>) {
    update(|figures| {
        figures.status = Some((in_words(status), status.done));
        figures.runs = runs.or(figures.runs);
    });
}

/// Notes a signal: the work ends within `time`.
pub fn stopping(time: Duration) {
    if MONITOR.get().is_some() {
        let time = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        notify(&[NotifyState::Stopping, NotifyState::Status("stopping"), NotifyState::ExtendTimeoutUsec(time)]);
    }
}

/// Notes the exit code, and writes the file for the last time.
pub fn end(exit: u8) {
    let Some(monitor) = MONITOR.get() else { return };
    monitor.figures.lock().ended.get_or_insert((seconds(SystemTime::now()), exit));
    if let Some(path) = monitor.file.lock().take() {
        monitor.write_to(&path);
    }
    if exit == 0 {
        // A short command may not have done so yet.
        ready();
    }
    let status = format!("ended with exit code {exit}");
    notify(&[NotifyState::Stopping, NotifyState::Status(&status)]);
}

/// Sends states to systemd. Errors are ignored: there may be no listener.
fn notify(states: &[NotifyState<'_>]) {
    let socket = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let _ = match socket.as_bytes().strip_prefix(b"@") {
        None => sd_notify::notify(states),
        // An abstract socket, as in containers, which the crate does not support.
        Some(name) => SocketAddr::from_abstract_name(name).and_then(|address| {
            let message: String = states.iter().map(|state| format!("{state}\n")).collect();
            UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
        }),
    };
}

/// `read 42 %, 0.4 of 1.2 GiB, 640.0 MiB/s, 12 s left`
fn in_words(status: &Status) -> String {
    let done = status.done.map(|done| format!(" {} %", percent(done))).unwrap_or_default();
    let text = status.text(STATUS);
    let rest = if text.is_empty() { String::new() } else { format!(", {text}") };
    format!("{}{done}{rest}", status.name)
}

impl Monitor {
    fn watch(&self, notifies: bool, watchdog: Option<Duration>) {
        let (mut written, mut alive, mut said) = (Instant::now(), Instant::now(), String::new());
        let step = watchdog.map_or(EVERY, |time| time.min(EVERY));
        loop {
            std::thread::sleep(step);
            let text = self.figures.lock().in_words();
            if watchdog.is_some_and(|time| alive.elapsed() + step / 2 >= time) {
                alive = Instant::now();
                notify(&[NotifyState::Watchdog]);
            }
            if written.elapsed() < EVERY {
                continue;
            }
            written = Instant::now();
            if notifies && text != said {
                notify(&[NotifyState::Status(&text)]);
                said = text;
            }
            if let Some(path) = &*self.file.lock() {
                self.write_to(path);
            }
        }
    }

    fn write_to(&self, path: &Path) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let text = self.figures.lock().text(seconds(SystemTime::now()));
        if let Err(error) = files::replace(path, text.as_bytes(), MODE)
            && !WARNED.swap(true, Ordering::Relaxed)
        {
            bar::print_warning(&format!("the metrics are not up to date: {:#}", anyhow::Error::from(error)));
        }
    }
}

impl Figures {
    fn new(command: &str, name: &str) -> Self {
        let start = seconds(SystemTime::now());
        Self { command: command.to_owned(), name: name.to_owned(), start, ..Self::default() }
    }

    fn phase(&mut self, phase: Phase) -> &mut PhaseFigures {
        let at = self.phases.iter().position(|known| known.phase == phase).unwrap_or_else(|| {
            let (began, none) = (Instant::now(), (0, None));
            self.phases.push(PhaseFigures { phase, began, seconds: None, bytes: none, blocks: none });
            self.phases.len() - 1
        });
        &mut self.phases[at]
    }

    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Phase { phase } => {
                let phase = self.phase(*phase);
                (phase.began, phase.seconds) = (Instant::now(), None);
            }
            Event::PhaseDone { phase, seconds, bytes, blocks, .. } => {
                let phase = self.phase(*phase);
                (phase.seconds, phase.bytes.0, phase.blocks.0) = (Some(*seconds), *bytes, *blocks);
            }
            Event::Resumed { source_bytes, .. } => self.resumed_bytes = Some(*source_bytes),
            Event::Warning { .. } => self.warnings += 1,
            _ => {}
        }
    }

    pub fn sample(&mut self, sample: &Sample, status: &Status) {
        let phase = self.phase(sample.phase);
        (phase.bytes, phase.blocks) = ((sample.bytes, sample.total), (sample.blocks, sample.total_blocks));
        self.last = Some(*sample);
        self.status = Some((in_words(status), status.done));
    }

    fn in_words(&self) -> String {
        self.status.as_ref().map_or(&self.command, |(text, _)| text).clone()
    }

    fn text(&self, now: f64) -> String {
        let mut text = Text { name: escaped(&self.name), out: String::new() };
        let is_running = self.ended.is_none();
        let last = self.last.filter(|_| is_running);
        // A comparison has no samples; its share remains.
        let done = self.status.as_ref().filter(|_| last.is_some() || self.last.is_none()).and_then(|(_, done)| *done);
        let (network, backlog) = (last.and_then(|last| last.network), last.and_then(|last| last.backlog));
        let count = |value: Option<u64>| value.map(|value| value as f64);

        let what = format!("version=\"{}\",command=\"{}\"", env!("CARGO_PKG_VERSION"), escaped(&self.command));
        text.family("info", "The program and its command; always 1.", [(what, 1.0)]);
        for (metric, help, value) in [
            ("start_time_seconds", "When the command began, in seconds since 1970.", Some(self.start)),
            ("update_time_seconds", "When this file was written, in seconds since 1970.", Some(now)),
            ("running", "1 while the command runs, 0 once it has ended.", Some(f64::from(is_running))),
            ("end_time_seconds", "When the command ended, in seconds since 1970.", self.ended.map(|(at, _)| at)),
            ("exit_code", "The exit code of an ended command; 0 is success.", self.ended.map(|(_, exit)| exit.into())),
            ("warnings", "Warnings so far.", Some(self.warnings as f64)),
            ("resident_memory_bytes", "Memory that the process has resident.", count(resources::rss())),
            ("progress_ratio", "The share that is done, from 0 to 1, of the current phase, or of all runs.", done),
            ("remaining_seconds", "Estimated time until the last phase ends.", last.and_then(|last| last.seconds_left)),
            ("resumed_bytes", "Bytes of the source that an earlier run had read.", count(self.resumed_bytes)),
            ("network_received_bytes", "Bytes received over the network.", count(network.map(|it| it.received_bytes))),
            ("network_connections", "Open connections.", count(network.map(|it| it.connections))),
            ("network_wait_seconds", "Time spent waiting for the network.", network.map(|it| it.waited_seconds)),
            ("rocksdb_level0_files", "Files at level 0.", count(backlog.map(|it| it.level0_files))),
            ("rocksdb_pending_compaction_bytes", "Bytes to be compacted.", count(backlog.map(|it| it.pending_bytes))),
            ("run_number", "The current run of a comparison, from 1 on.", count(self.runs.map(|(number, _)| number))),
            ("expected_runs", "Runs of the comparison in all.", count(self.runs.map(|(_, of)| of))),
        ] {
            text.family(metric, help, value.map(|value| (String::new(), value)));
        }
        let now = last.map(|last| last.phase);
        let took = |it: &PhaseFigures| it.seconds.unwrap_or_else(|| it.began.elapsed().as_secs_f64());
        type Value<'a> = &'a dyn Fn(&PhaseFigures) -> Option<f64>;
        let phases: [(&str, &str, Value<'_>); 6] = [
            ("active", "1 for the current phase.", &|it| Some(f64::from(now == Some(it.phase)))),
            ("seconds", "Duration of the phase so far.", &|it| Some(took(it))),
            ("bytes", "Bytes done: of the source as stored while reading, of blocks while building.", &|it| {
                Some(it.bytes.0 as f64)
            }),
            ("expected_bytes", "Bytes of the whole phase; while reading, the size of the source.", &|it| {
                count(it.bytes.1)
            }),
            ("blocks", "Blocks done.", &|it| Some(it.blocks.0 as f64)),
            ("expected_blocks", "Blocks of the whole phase, where an index says so.", &|it| count(it.blocks.1)),
        ];
        for (metric, help, value) in phases {
            let labelled = |it: &PhaseFigures| Some((format!("phase=\"{}\"", it.phase.name()), value(it)?));
            text.family(&format!("phase_{metric}"), help, self.phases.iter().filter_map(labelled));
        }
        text.out
    }
}

/// Metric families in Prometheus' text format.
struct Text {
    name: String,
    out: String,
}

impl Text {
    fn family(&mut self, metric: &str, help: &str, samples: impl IntoIterator<Item = (String, f64)>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            self.out.push_str(&format!("# HELP bedload_{metric} {help}\n# TYPE bedload_{metric} gauge\n"));
        }
        for (labels, value) in samples {
            let comma = if labels.is_empty() { "" } else { "," };
            self.out.push_str(&format!("bedload_{metric}{{name=\"{}\"{comma}{labels}}} {value}\n", self.name));
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(time: SystemTime) -> f64 {
    let millis = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_help_once_and_escape_labels() {
        let mut figures = Figures::new("import", "a\"b\\c\nd");
        figures.event(&Event::Phase { phase: Phase::Read });
        let done = |phase| Event::PhaseDone { phase, seconds: 2.0, bytes: 1 << 33, blocks: 5, earlier_bytes: 0 };
        figures.event(&done(Phase::Read));
        figures.event(&Event::Phase { phase: Phase::Build });
        figures.event(&Event::Warning { message: "w".into() });
        figures.ended = Some((0.0, 3));
        let text = figures.text(0.0);
        let name = r#"name="a\"b\\c\nd""#;
        for line in [
            format!("bedload_phase_bytes{{{name},phase=\"read\"}} 8589934592\n"),
            format!("bedload_phase_blocks{{{name},phase=\"build\"}} 0\n"),
            format!("bedload_exit_code{{{name}}} 3\n"),
            format!("bedload_running{{{name}}} 0\n"),
            format!("bedload_warnings{{{name}}} 1\n"),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.starts_with(BEGINNING), "{text}");
        let mut metrics: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let all = metrics.len();
        metrics.sort_unstable();
        metrics.dedup();
        assert_eq!(metrics.len(), all, "each family appears once");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let value = line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
            assert!(value.is_some() && !line.contains('\r'), "{line}");
        }
        assert!(!text.contains("bedload_network"), "unknown values are omitted");
    }

    #[test]
    fn running_command_has_no_exit_code() {
        let text = Figures::new("import", "x").text(0.0);
        assert!(text.contains("bedload_running{name=\"x\"} 1\n") && !text.contains("bedload_exit_code"), "{text}");
    }
}
