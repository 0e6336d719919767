//! A node that seeds its own database at its first start, from a snapshot or from a bundle, and opens it with its own RocksDB.
//!
//! ```console
//! cargo run --release --example node -- import snapshot.car.zst chain
//! cargo run --release --example node -- seed bundles chain
//! ```
//!
//! The node stops when its standard input ends. After a stop or a crash the next start resumes; if the snapshot was replaced
//! by a newer one meanwhile, the next start deletes the unfinished work and begins again.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use bedload::progress::{CancellationToken, Event, Observer, Sample};
use bedload::{Error, ImportOptions, InputKind, SeedOptions, StateKind, Unfinished};
use rust_rocksdb::{Cache, DB, Env, Options};

/// Memory for an import, in bytes: the node needs the rest.
const MEMORY: u64 = 1 << 30;

/// Seconds between two lines of progress.
const INTERVAL: f64 = 2.0;

/// The source of the database.
pub enum Source {
    /// A file or URL.
    Snapshot(PathBuf),
    /// A directory or URL with bundles.
    Bundle(PathBuf),
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [command, place, db] = &args[..] else { return usage() };
    let source = match command.to_str() {
        Some("import") => Source::Snapshot(place.into()),
        Some("seed") => Source::Bundle(place.into()),
        _ => return usage(),
    };
    let stop = CancellationToken::default();
    let node = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        node.cancel();
    });
    // The library leaves limits and signal handlers to the program. These two calls make an import faster.
    bedload::raise_open_files();
    bedload::handle_sigbus();
    match start(&source, Path::new(db), &stop, &Log::new(std::io::stderr())) {
        Ok(_db) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("[node] {failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: node import SNAPSHOT DB\n       node seed BUNDLES DB");
    ExitCode::from(2)
}

/// Opens the database, and seeds it first if it does not exist.
pub fn start<W: Write + Send>(
    source: &Source,
    db: &Path,
    stop: &CancellationToken,
    log: &Log<W>,
) -> Result<DB, Failure> {
    if db.exists() {
        log.line("the database exists");
    } else {
        seed(source, db, false, stop, log)?;
    }
    open(db)
}

/// Seeds the database. It appears under its name when it is complete.
pub fn seed<W: Write + Send>(
    source: &Source,
    db: &Path,
    replace: bool,
    stop: &CancellationToken,
    log: &Log<W>,
) -> Result<(), Failure> {
    let (stop, unfinished) = (stop.clone(), Unfinished::ResumeOrRestart);
    let report = match source {
        Source::Snapshot(file) => {
            let options =
                ImportOptions::new(file, db).memory(MEMORY).replace(replace).unfinished(unfinished).stop(stop);
            bedload::import(&options, log)?
        }
        Source::Bundle(place) => {
            let options = SeedOptions::new(place, db).memory(MEMORY).replace(replace).unfinished(unfinished).stop(stop);
            bedload::seed(&options, log)?
        }
    };
    log.line(&format!("seeded {} records, digest {}", report.blocks.written, report.digest));
    Ok(())
}

/// Opens the database with the options that its import has recorded.
fn open(db: &Path) -> Result<DB, Failure> {
    let (options, families) = Options::load_latest(db, Env::new()?, true, Cache::new_lru_cache(64 << 20))?;
    Ok(DB::open_cf_descriptors(&options, db, families)?)
}

/// The reason why the node did not start.
#[derive(Debug)]
pub enum Failure {
    /// The caller has stopped it.
    Stopped,
    /// Another process seeds the same database.
    Busy(Error),
    /// A process, which may be this one, has the database open.
    Open(Error),
    /// The snapshot does not exist.
    NoSuchFile(Error),
    /// The snapshot or bundle is damaged: another copy of it may be good.
    BadSource(Error),
    /// The disk has no room for the database.
    DiskFull(Error),
    /// All other errors.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Interrupted { .. } => Self::Stopped,
            Error::State { kind: StateKind::Busy, .. } => Self::Busy(error),
            Error::State { kind: StateKind::Open, .. } => Self::Open(error),
            Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => Self::NoSuchFile(error),
            Error::BadInput { kind: InputKind::HashMismatch | InputKind::Truncated | InputKind::Damaged, .. } => {
                Self::BadSource(error)
            }
            Error::NoSpace { .. } => Self::DiskFull(error),
            _ => Self::Other(error.into()),
        }
    }
}

impl From<rust_rocksdb::Error> for Failure {
    fn from(error: rust_rocksdb::Error) -> Self {
        Self::Other(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (error, advice): (&dyn std::error::Error, _) = match self {
            Self::Stopped => return write!(to, "stopped; the next start resumes"),
            Self::Busy(error) => (error, "; wait until it has finished"),
            Self::Open(error) => (error, "; close the database first"),
            Self::NoSuchFile(error) => (error, "; correct the path in the configuration"),
            Self::BadSource(error) => (error, "; fetch the snapshot again"),
            Self::DiskFull(error) => (error, "; the next start resumes when there is room"),
            Self::Other(error) => (error.as_ref(), ""),
        };
        write!(to, "{error}")?;
        if let Some(cause) = error.source() {
            write!(to, ": {cause}")?;
        }
        write!(to, "{advice}")
    }
}

/// The log of the node: rare events, and progress every two seconds.
pub struct Log<W> {
    /// The log, and the time of the last line of progress.
    to: Mutex<(W, f64)>,
}

impl<W: Write + Send> Log<W> {
    /// A log without progress so far.
    pub fn new(to: W) -> Self {
        Self { to: Mutex::new((to, 0.0)) }
    }

    /// Writes a line. An error of the log must not stop the node.
    pub fn line(&self, text: &str) {
        let _ = writeln!(self.to.lock().unwrap_or_else(PoisonError::into_inner).0, "[node] {text}");
    }
}

impl<W: Write + Send> Observer for Log<W> {
    fn event(&self, event: &Event) {
        match event {
            Event::Resumed { source_bytes, .. } => self.line(&format!("resumed after {source_bytes} bytes")),
            Event::PhaseDone { phase, seconds, .. } => self.line(&format!("{}: {seconds:.1} s", phase.name())),
            Event::Warning { message } => self.line(message),
            _ => {}
        }
    }

    /// About ten times a second.
    fn sample(&self, sample: &Sample) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if sample.seconds < to.1 + INTERVAL {
            return;
        }
        to.1 = sample.seconds;
        drop(to);
        let share = sample.done().map_or(String::new(), |share| format!(", {:.0} %", share * 100.0));
        self.line(&format!("{}: {} MiB{share}", sample.phase.name(), sample.bytes >> 20));
    }
}
