//! An import within a running node, which logs the progress, and stops the import when the node stops.
//!
//! ```console
//! cargo run --release --example progress -- snapshot.car.zst chain
//! ```
//!
//! Each line is `time level target message` and `key=value` fields, as a node's logger writes them. It logs each event,
//! and within a phase every 5 % or 30 seconds. When standard input ends, the node stops the import, which makes its work
//! durable. The same command resumes the import.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use bedload::progress::{CancellationToken, Event, Observer, Phase, Sample};
use bedload::{Error, ImportOptions, Outcome};

/// The most seconds between two lines.
const SECONDS: f64 = 30.0;

/// Progress of a phase between two lines, in percent.
const STEP: u64 = 5;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [snapshot, db] = args.as_slice() else {
        eprintln!("usage: progress SNAPSHOT DB");
        return ExitCode::from(2);
    };
    let stop = CancellationToken::default();
    let node = stop.clone();
    // A node would wait for its signals here.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        node.cancel();
    });
    match import(Path::new(snapshot), Path::new(db), stop, std::io::stderr()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Imports, and logs the result.
fn import(snapshot: &Path, db: &Path, stop: CancellationToken, log: impl Write + Send) -> bedload::Result<()> {
    let log = Log { state: Mutex::new(State { log, phase: None, seconds: 0.0, percent: 0 }) };
    let options = ImportOptions::new(snapshot, db).memory(1u64 << 30).stop(stop);
    match bedload::import(&options, &log) {
        Ok(Outcome::Imported(report)) => {
            log.line("INFO", "imported", &format!("blocks={} digest={}", report.blocks.written, report.digest));
            Ok(())
        }
        Ok(_) => Err(Error::Usage { reason: "nothing was imported".into(), hint: "leave dry_run out".into() }),
        Err(error) => {
            // A stopped import is not an error: the same call resumes it.
            let level = if matches!(error, Error::Interrupted { .. }) { "INFO" } else { "ERROR" };
            log.line(level, &error.to_string(), "");
            Err(error)
        }
    }
}

struct Log<W> {
    state: Mutex<State<W>>,
}

struct State<W> {
    log: W,
    /// Of the last line about progress: the phase, the seconds since the start, and how far the phase was.
    phase: Option<Phase>,
    seconds: f64,
    percent: u64,
}

impl<W: Write + Send> Log<W> {
    fn line(&self, level: &str, message: &str, fields: &str) {
        write(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).log, level, message, fields);
    }
}

impl<W: Write + Send> Observer for Log<W> {
    fn event(&self, event: &Event) {
        match event {
            Event::Planned { plan } => self.line("INFO", "planned", &format!("plan={plan:?}")),
            Event::Resumed { source_bytes, built_files } => {
                self.line("INFO", "resumed", &format!("source_bytes={source_bytes} built_files={built_files}"));
            }
            Event::PhaseDone { phase, seconds, bytes, blocks, .. } => {
                let fields = format!("phase={} seconds={seconds:.1} bytes={bytes} blocks={blocks}", phase.name());
                self.line("INFO", "phase done", &fields);
            }
            Event::Warning { message } => self.line("WARN", message, ""),
            _ => {}
        }
    }

    /// About ten times a second: this must be quick, so most samples are only compared.
    fn sample(&self, sample: &Sample) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let percent = sample.done().map_or(0, |share| (share * 100.0) as u64);
        let is_new = state.phase != Some(sample.phase);
        if !is_new && percent < state.percent + STEP && sample.seconds < state.seconds + SECONDS {
            return;
        }
        (state.phase, state.seconds, state.percent) = (Some(sample.phase), sample.seconds, percent);
        let mut fields = format!("phase={} bytes={} blocks={}", sample.phase.name(), sample.bytes, sample.blocks);
        // Unknown values are left out: a pipe has no size, and the first seconds allow no estimate.
        if sample.done().is_some() {
            fields += &format!(" percent={percent}");
        }
        if let Some(left) = sample.seconds_left {
            fields += &format!(" seconds_left={left:.0}");
        }
        if let Some(network) = sample.network {
            fields += &format!(" received_bytes={} connections={}", network.received_bytes, network.connections);
        }
        write(&mut state.log, "INFO", "importing", &fields);
    }
}

/// Writes a line. A log that cannot be written must not stop a node.
fn write(log: &mut impl Write, level: &str, message: &str, fields: &str) {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let _ = writeln!(log, "{now:.3} {level} bedload {message} {fields}");
}

#[cfg(test)]
mod tests {
    use bedload::testing::generate::{Profile, Spec, write};

    use super::*;

    #[test]
    fn a_stopped_import_logs_how_to_go_on_and_the_same_call_ends_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (snapshot, db) = (dir.path().join("snapshot.car"), dir.path().join("chain"));
        let mut file = std::fs::File::create(&snapshot).expect("create");
        let made = write(&Spec::new(Profile::Calibnet, 4 << 20), &mut file).expect("generate");

        let stop = CancellationToken::default();
        stop.cancel();
        let mut log = Vec::new();
        let error = import(&snapshot, &db, stop, &mut log).expect_err("it was stopped");
        assert!(matches!(error, Error::Interrupted { .. }), "{error}");
        let log = String::from_utf8(log).expect("text");
        assert!(log.contains(" INFO bedload ") && log.contains("interrupted"), "{log}");
        assert!(!db.exists());

        let mut log = Vec::new();
        import(&snapshot, &db, CancellationToken::default(), &mut log).expect("it resumes");
        let log = String::from_utf8(log).expect("text");
        assert!(log.contains(" INFO bedload phase done phase=read "), "{log}");
        assert!(log.contains(&format!(" INFO bedload imported blocks={} digest=", made.blocks)), "{log}");
    }
}
