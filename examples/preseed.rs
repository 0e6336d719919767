//! A node that imports its database at its first start, and writes the progress to its own log.
//!
//! ```console
//! cargo run --release --example preseed -- snapshot.car.zst chain
//! ```
//!
//! If the node is killed during the import, its next start resumes the import. If the database exists, the node opens it.
//! The library does not print anything; the node decides what to show.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use bedload::progress::{Event, Observer, Sample};
use bedload::{Error, ImportOptions, Location, Lookup, Outcome, StatOptions, stat};

/// Seconds between two lines in the log.
const EVERY: f64 = 2.0;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [snapshot, db] = args.as_slice() else {
        eprintln!("usage: preseed SNAPSHOT DB");
        return ExitCode::from(2);
    };
    match start(Path::new(snapshot), Path::new(db), &mut std::io::stderr()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The message of an error does not repeat that of its cause.
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            eprintln!("[node] cannot start: {error}{cause}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the node: imports the database if it does not exist, and looks up the head of the chain.
fn start(snapshot: &Path, db: &Path, log: &mut (impl Write + Send)) -> bedload::Result<()> {
    if db.exists() {
        note(log, &format!("{} is there", db.display()));
    } else {
        seed(snapshot, db, log)?;
    }
    // The record of the import is in the database, and has the head of the chain.
    let state = stat(&StatOptions::new(db), &bedload::progress::Silent)?;
    let roots = state.import.as_ref().and_then(|import| import.pointer("/source/roots")?.as_array().cloned());
    let lookup = Lookup::open(db, &Location::default())?;
    for root in roots.unwrap_or_default().iter().filter_map(|root| root.as_str()) {
        let wanted = lookup.wanted(root)?;
        let found = lookup.get(&[wanted])?.pop().flatten();
        let size = found.map_or_else(|| "not in the snapshot".into(), |found| format!("{} bytes", found.block.len()));
        note(log, &format!("head {root}: {size}"));
    }
    Ok(())
}

/// Imports the snapshot. The database exists under its name only after the import.
fn seed(snapshot: &Path, db: &Path, log: &mut (impl Write + Send)) -> bedload::Result<()> {
    // The library changes no limits and signal handlers itself. These two calls make an import faster and safer.
    bedload::raise_open_files();
    bedload::handle_sigbus();
    // The node needs memory for other things.
    let options = ImportOptions::new(snapshot, db).memory(1u64 << 30);
    let progress = Log { log: Mutex::new((log, 0.0)) };
    let Outcome::Imported(report) = bedload::import(&options, &progress)? else {
        return Err(Error::Usage { reason: "nothing was imported".into(), hint: "leave dry_run out".into() });
    };
    progress.note(&format!("seeded with {} blocks, digest {}", report.blocks.written, report.digest));
    Ok(())
}

/// The node's own way of showing progress: a line in its log every two seconds.
struct Log<'a, W> {
    log: Mutex<(&'a mut W, f64)>,
}

impl<W: Write + Send> Log<'_, W> {
    fn note(&self, text: &str) {
        note(self.log.lock().unwrap_or_else(PoisonError::into_inner).0, text);
    }
}

impl<W: Write + Send> Observer for Log<'_, W> {
    /// Rare things: a phase begins or ends, an earlier run is taken up, a warning.
    fn event(&self, event: &Event) {
        match event {
            Event::Resumed { source_bytes, .. } => self.note(&format!("resumed after {source_bytes} bytes")),
            Event::PhaseDone { phase, seconds, .. } => self.note(&format!("{} took {seconds:.1} s", phase.name())),
            Event::Warning { message } => self.note(message),
            _ => {}
        }
    }

    /// The counters, about ten times a second.
    fn sample(&self, sample: &Sample) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if sample.seconds - log.1 < EVERY {
            return;
        }
        log.1 = sample.seconds;
        let percent = sample.total.map(|total| format!(", {} %", sample.bytes * 100 / total.max(1)));
        let text = format!("{}: {} MiB{}", sample.phase.name(), sample.bytes >> 20, percent.unwrap_or_default());
        note(log.0, &text);
    }
}

/// Writes a line. A log that cannot be written must not stop a node.
fn note(log: &mut impl Write, text: &str) {
    let _ = writeln!(log, "[node] {text}");
}

#[cfg(test)]
mod tests {
    use bedload::InputKind;
    use bedload::testing::generate::{Profile, Spec, write};

    use super::*;

    #[test]
    fn the_first_start_seeds_and_the_second_finds_it_done() {
        let dir = tempfile::tempdir().expect("a directory");
        let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
        let mut file = std::fs::File::create(&snapshot).expect("create");
        let made = write(&Spec::new(Profile::Calibnet, 4 << 20), &mut file).expect("generate");

        let mut log = Vec::new();
        start(&snapshot, &db, &mut log).expect("it starts");
        let log = String::from_utf8(log).expect("text");
        assert!(log.contains("[node] read took "), "{log}");
        assert!(log.contains(&format!("[node] seeded with {} blocks, digest ", made.blocks)), "{log}");

        std::fs::remove_file(&snapshot).expect("remove");
        let mut log = Vec::new();
        start(&snapshot, &db, &mut log).expect("it starts again");
        let log = String::from_utf8(log).expect("text");
        assert_eq!(log.lines().next(), Some(format!("[node] {} is there", db.display()).as_str()));
        for root in &made.roots {
            assert!(log.contains(&format!("[node] head {root}: ")), "{log}");
        }
    }

    #[test]
    fn a_snapshot_that_is_cut_leaves_no_database() {
        let dir = tempfile::tempdir().expect("a directory");
        let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
        let mut car = std::io::Cursor::new(Vec::new());
        write(&Spec::new(Profile::Calibnet, 1 << 20), &mut car).expect("generate");
        std::fs::write(&snapshot, &car.into_inner()[..300_000]).expect("write");
        let error = start(&snapshot, &db, &mut Vec::new()).expect_err("it is cut");
        assert!(matches!(error, Error::BadInput { kind: InputKind::Truncated, .. }), "{error}");
        assert!(!db.exists());
    }
}
