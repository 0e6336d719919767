//! Progress of comparisons: a line for each finished run, and the status of the current one.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::bench::{BenchObserver, RunStart};
use crate::report::bench::BenchRun;
use crate::report::{shown_in_line, shown_json};
use crate::text::size;

use super::status::{NEEDED, Status};
use super::{LINE_EVERY, bar, monitor, print_status, style};
use crate::cli::globals::{Globals, ProgressStyle};
use crate::cli::log::{self, LogLevel};
use crate::cli::render::numbers::{done_of, duration, elapsed as time};
use crate::cli::render::screen;

/// Column of the text of a finished run.
const INDENT: usize = 8;

const LOOK_EVERY: Duration = Duration::from_millis(100);

pub struct RunDisplay {
    style: ProgressStyle,
    now: Arc<Mutex<Option<Shown>>>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

enum Shown {
    Run(Now),
    /// The download of the snapshot: bytes received, and all.
    Fetch(u64, u64),
}

struct Now {
    step: RunStart,
    began: Instant,
    action: &'static str,
    acts_since: Instant,
}

impl RunDisplay {
    /// Begins to show runs of the command `name`.
    pub fn new(name: &'static str, globals: &Globals) -> Self {
        monitor::ready();
        let (style, color) = (style(globals), globals.has_color(&std::io::stderr()));
        let now: Arc<Mutex<Option<Shown>>> = Arc::default();
        let (stop, is_over) = bounded::<()>(0);
        let (shown, start) = (Arc::clone(&now), Instant::now());
        let tick = move || {
            let mut last = 0.0;
            while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = shown.lock().as_ref().map(|now| now.status(name, start.elapsed()));
                let Some((status, runs)) = now else { continue };
                monitor::status(&status, runs);
                if style == ProgressStyle::Bar {
                    bar::show(&status, color);
                } else if style == ProgressStyle::Lines && status.seconds - last >= LINE_EVERY {
                    last = status.seconds;
                    print_status(&status, None);
                }
            }
        };
        let moves = matches!(style, ProgressStyle::Bar | ProgressStyle::Lines) || monitor::is_there();
        // Without a thread, only the begin and the end of runs are shown.
        let ticker = moves.then(|| std::thread::Builder::new().spawn(tick).ok()).flatten();
        Self { style, now, ticker: ticker.map(|thread| (stop, thread)) }
    }

    fn print(&self, text: &str, object: impl FnOnce() -> Value) {
        match self.style {
            ProgressStyle::Off => {}
            ProgressStyle::Json => screen::print_to_stderr(&shown_json(&object().to_string())),
            _ if log::is_json() => log::write(LogLevel::Info, text, object()),
            _ => bar::print_above(&screen::fit(&shown_in_line(text), INDENT, screen::stderr_columns())),
        }
    }
}

impl Drop for RunDisplay {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            // A panic in it does not fail the comparison.
            let _ = thread.join();
        }
        if self.style == ProgressStyle::Bar {
            bar::clear();
        }
    }
}

impl Shown {
    /// The state after `elapsed` since the command began, with the number of the current run and of all runs.
    fn status(&self, name: &'static str, elapsed: Duration) -> (Status, Option<(u64, u64)>) {
        match *self {
            Self::Run(ref now) => (now.status(name, elapsed), Some((now.step.number as u64, now.step.of as u64))),
            Self::Fetch(received, bytes) => {
                let done = Some(received as f64 / bytes.max(1) as f64);
                let parts = vec![(NEEDED, format!("fetch {}", done_of(received, Some(bytes))))];
                (Status { name, seconds: elapsed.as_secs_f64(), done, parts }, None)
            }
        }
    }
}

impl Now {
    /// The state after `elapsed` since the command began.
    fn status(&self, name: &'static str, elapsed: Duration) -> Status {
        let RunStart { variant, round, warmup, number, of, expected, left } = &self.step;
        let run = self.began.elapsed();
        // A run that takes longer than expected does not use up the time of those that follow.
        let gone = expected.map_or(run, |expected| run.min(expected));
        let share = expected.map_or(0.0, |expected| gone.as_secs_f64() / expected.as_secs_f64().max(f64::EPSILON));
        let round = if *warmup { "warm-up".to_owned() } else { format!("round {}", round + 1) };
        let left = left.map(|left| (0, format!("{} left", duration(left.saturating_sub(gone).as_secs_f64()))));
        let parts = [
            Some((NEEDED, format!("run {number} of {of}"))),
            Some((3, shown_in_line(variant).into_owned())),
            Some((4, round)),
            Some((2, format!("{} {}", self.action, time(self.acts_since.elapsed().as_secs_f64())))),
            left,
        ];
        Status {
            name,
            seconds: elapsed.as_secs_f64(),
            done: Some((number.saturating_sub(1) as f64 + share.min(0.99)) / (*of).max(1) as f64),
            parts: parts.into_iter().flatten().collect(),
        }
    }
}

impl BenchObserver for RunDisplay {
    fn begins(&self, step: &RunStart) {
        let began = Instant::now();
        let now = Now { step: step.clone(), began, action: "prepare", acts_since: began };
        *self.now.lock() = Some(Shown::Run(now));
        let RunStart { variant, round, warmup, number, of, expected, left, .. } = step;
        let seconds = |time: &Option<Duration>| time.map(|time| time.as_secs_f64());
        if self.style == ProgressStyle::Bar {
            return;
        }
        let kind = if *warmup { "warm-up " } else { "" };
        let rest = left.map(|left| format!(", {} left", duration(left.as_secs_f64()))).unwrap_or_default();
        self.print(&format!("[{number}/{of}] {kind}round {}: {variant}{rest}", round + 1), || {
            json!({
                "event": "run", "variant": variant, "round": round, "warmup": warmup, "number": number, "of": of,
                "expected_seconds": seconds(expected), "seconds_left": seconds(left),
            })
        });
    }

    fn does(&self, action: &'static str) {
        if let Some(Shown::Run(now)) = &mut *self.now.lock() {
            (now.action, now.acts_since) = (action, Instant::now());
        }
        if self.style == ProgressStyle::Json {
            self.print("", || json!({ "event": "action", "action": action }));
        }
    }

    fn fetches(&self, received: u64, bytes: u64) {
        let before = self.now.lock().replace(Shown::Fetch(received, bytes));
        if self.style == ProgressStyle::Json && before.is_none() {
            self.print("", || json!({ "event": "fetch", "bytes": bytes }));
        }
    }

    fn ends(&self, run: &BenchRun) {
        let seconds = run.process.as_ref().map(|process| process.seconds);
        let text = match (&run.failure, seconds) {
            (Some(failure), _) => format!("failed ({}): {}", failure.action, failure.error),
            (None, Some(seconds)) => {
                let scan =
                    run.scan.as_ref().map_or(String::new(), |scan| format!(", scan {}", size::seconds(scan.seconds)));
                format!("{}{scan}", size::seconds(seconds))
            }
            (None, None) => String::new(),
        };
        // With a bar there was no line at its beginning.
        let name = if self.style == ProgressStyle::Bar { format!("{}: ", run.variant) } else { String::new() };
        self.print(&format!("        {name}{text}"), || {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_shows_action_and_time_left() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let step = RunStart {
            variant: "memtable".into(),
            round: 1,
            warmup: false,
            number: 7,
            of: 12,
            expected: seconds(40),
            left: seconds(240),
        };
        let began = Instant::now() - Duration::from_secs(10);
        let now = Now { step: step.clone(), began, action: "import", acts_since: began + Duration::from_secs(3) };
        let status = now.status("bench", Duration::from_secs(300));
        assert_eq!(status.text(200), "run 7 of 12, memtable, round 2, import 0:07, 3:50 min left");
        assert_eq!(status.text(30), "run 7 of 12, 3:50 min left");
        assert!(status.done.is_some_and(|done| (done - 6.25 / 12.0).abs() < 0.01), "{status:?}");
        // A run longer than expected does not shorten the following ones.
        let late = Now { began: Instant::now() - Duration::from_secs(100), step, ..now };
        assert!(late.status("bench", Duration::from_secs(300)).text(200).ends_with("3:20 min left"));
    }
}
