//! Progress on standard error: a bar, lines or JSON.

pub mod bar;
mod line;
pub mod monitor;
pub mod runs;
mod status;

use std::io::{self, IsTerminal, Write};

use crate::progress::{Event, Observer, Phase, Sample};
use crate::report::shown_json;
use parking_lot::Mutex;

use crate::cli::globals::{Globals, ProgressStyle, is_dumb};
use crate::cli::log;
use crate::cli::render::numbers::percent;
use status::{RecentRate, Status};

/// Seconds between two lines.
const LINE_EVERY: f64 = 5.0;

/// Shows the progress of a command, and passes it on to the monitor.
struct Display {
    style: ProgressStyle,
    color: bool,
    /// The current rate, and the time of the last line.
    state: Mutex<(RecentRate, f64)>,
}

/// Runs `work` and shows its progress. The command has accepted its options.
pub fn show<T>(globals: &Globals, work: impl FnOnce(&dyn Observer) -> T) -> T {
    monitor::ready();
    let state = Mutex::default();
    let result = work(&Display { style: style(globals), color: globals.has_color(&io::stderr()), state });
    bar::clear();
    result
}

impl Observer for Display {
    fn event(&self, event: &Event) {
        monitor::update(|figures| figures.event(event));
        match event {
            Event::PhaseDone { .. } => bar::hide(),
            Event::Planned { plan } if plan.ranges().is_some() || plan.records().is_some() => {
                self.state.lock().0.are_records = true;
            }
            Event::Phase { phase: Phase::Verify, .. } => self.state.lock().0.are_records = true,
            _ => {}
        }
        match self.style {
            ProgressStyle::Json => print_json("event", event),
            ProgressStyle::Off if !matches!(event, Event::Warning { .. }) => {}
            _ => bar::print_event(event, self.state.lock().0.are_records),
        }
    }

    fn sample(&self, sample: &Sample) {
        let (rate, last_line) = &mut *self.state.lock();
        rate.add(*sample);
        let status = rate.status();
        monitor::update(|figures| figures.sample(sample, &status));
        match self.style {
            ProgressStyle::Bar => bar::show(&status, self.color),
            ProgressStyle::Json => print_json("sample", sample),
            ProgressStyle::Off => {}
            ProgressStyle::Auto | ProgressStyle::Lines if sample.seconds - *last_line < LINE_EVERY => {}
            ProgressStyle::Auto | ProgressStyle::Lines => {
                *last_line = sample.seconds;
                print_status(&status, Some(sample));
            }
        }
    }
}

/// The style that the options and the terminal call for. An explicit one takes precedence over `--quiet`.
fn style(globals: &Globals) -> ProgressStyle {
    match globals.progress {
        ProgressStyle::Auto if globals.quiet => ProgressStyle::Off,
        ProgressStyle::Auto | ProgressStyle::Bar if log::is_json() => ProgressStyle::Lines,
        ProgressStyle::Auto | ProgressStyle::Bar if io::stderr().is_terminal() && !is_dumb() => ProgressStyle::Bar,
        ProgressStyle::Auto | ProgressStyle::Bar => ProgressStyle::Lines,
        chosen => chosen,
    }
}

/// Prints one JSON object. A closed reader must not stop an import.
fn print_json(kind: &str, value: &impl serde::Serialize) {
    let Ok(mut document) = serde_json::to_value(value) else { return };
    if let Some(fields) = document.as_object_mut() {
        fields.insert("type".into(), kind.into());
        fields.insert("schema".into(), "bedload-progress-2".into());
    }
    let _ = writeln!(io::stderr(), "{}", shown_json(&document.to_string()));
}

/// Prints the state of some work as a line of its own. A closed reader must not stop the work.
fn print_status(status: &Status, sample: Option<&Sample>) {
    let percent = status.done.map(|done| format!("{:>3} %  ", percent(done))).unwrap_or_default();
    let Status { name, seconds, .. } = status;
    let line = format!("{name:<8} {seconds:>6.0} s  {percent}{}", status.text(usize::MAX));
    if log::is_json() {
        return log::sample(&line, sample);
    }
    let _ = writeln!(io::stderr(), "{}", line.trim_end());
}
