//! What `bedload bench` and `bedload tune` print while they run: a line for each run, on standard error.

use crate::bench::tune::TuneObserver;
use crate::bench::{BenchObserver, Step};
use crate::report::bench::Run;
use crate::report::shown_json;
use crate::size::human;
use serde_json::{Value, json};

use crate::cli::globals::{Globals, ProgressStyle};
use crate::cli::render::screen;

/// Prints runs as they begin and end.
pub struct Runs {
    style: ProgressStyle,
}

impl Runs {
    pub fn new(globals: &Globals) -> Self {
        Self { style: if globals.quiet { ProgressStyle::Off } else { globals.progress } }
    }

    fn print(&self, text: &str, object: impl FnOnce() -> Value) {
        match self.style {
            ProgressStyle::Off => {}
            ProgressStyle::Json => screen::print_to_stderr(&shown_json(&object().to_string())),
            _ => screen::print_to_stderr(text),
        }
    }
}

impl BenchObserver for Runs {
    fn begins(&self, step: &Step) {
        let Step { variant, round, warmup, number, of } = step;
        let kind = if *warmup { "warm-up " } else { "" };
        self.print(&format!("[{number}/{of}] {kind}round {}: {variant}", round + 1), || {
            json!({
                "event": "run", "variant": variant, "round": round, "warmup": warmup, "number": number, "of": of,
            })
        });
    }

    fn ends(&self, run: &Run) {
        let seconds = run.process.as_ref().map(|process| process.seconds);
        let text = match (&run.failure, seconds) {
            (Some(failure), _) => format!("        failed ({}): {}", failure.action, failure.error),
            (None, Some(seconds)) => {
                let scan = run.scan.as_ref().map_or(String::new(), |scan| format!(", scan {:.2} s", scan.seconds));
                format!("        {seconds:.2} s{scan}")
            }
            (None, None) => String::new(),
        };
        self.print(&text, || {
            json!({
                "event": "run_done", "variant": run.variant, "round": run.round, "seconds": seconds,
                "error": run.failure.as_ref().map(|failure| &failure.error),
            })
        });
    }

    fn note(&self, text: &str) {
        self.print(&format!("note: {text}"), || json!({ "event": "note", "message": text }));
    }
}

impl TuneObserver for Runs {
    fn rung(&self, candidates: usize, bytes: u64, rounds: u32) {
        if self.style != ProgressStyle::Off {
            screen::print_to_stderr(&format!("{candidates} candidates on {}, {rounds} rounds", human(bytes)));
        }
    }

    fn ran(&self, candidate: &str, ratio: Option<f64>) {
        if self.style != ProgressStyle::Off {
            let ratio = ratio.map_or_else(|| "failed".into(), |ratio| format!("{ratio:.3} times the start"));
            screen::print_to_stderr(&format!("  {candidate}: {ratio}"));
        }
    }
}
