//! Progress for people and for programs: a bar, lines, or JSON, all of the same samples, on standard error.

pub mod bar;
mod curve;
mod line;
pub mod monitor;
mod rate;
pub mod runs;
mod status;

use std::io::{self, IsTerminal, Write};

use crate::progress::{Event, Observer, Sample};
use crate::report::shown_json;
use parking_lot::Mutex;

use crate::cli::globals::{Globals, ProgressStyle, is_dumb};
use crate::cli::log;
use crate::cli::render::numbers::percent;
use bar::{Bar, print_event};
use rate::Rate;
use status::Status;

/// Seconds between two lines.
const LINE_EVERY: f64 = 5.0;

/// Shows progress.
pub trait Renderer: Observer {
    /// Removes what is not to stay on the screen.
    fn finish(&self) {}
}

/// Warnings alone: they are no narration.
struct Warnings;

impl Observer for Warnings {
    fn event(&self, event: &Event) {
        if let Event::Warning { .. } = event {
            print_event(event);
        }
    }
}

impl Renderer for Warnings {}

impl Renderer for Bar {
    fn finish(&self) {
        bar::clear();
    }
}

/// The style that the options and the terminal call for: an explicit one goes before `--quiet`.
fn style(globals: &Globals) -> ProgressStyle {
    match globals.progress {
        ProgressStyle::Auto if globals.quiet => ProgressStyle::Off,
        ProgressStyle::Auto | ProgressStyle::Bar if log::is_json() => ProgressStyle::Lines,
        ProgressStyle::Auto | ProgressStyle::Bar if io::stderr().is_terminal() && !is_dumb() => ProgressStyle::Bar,
        ProgressStyle::Auto | ProgressStyle::Bar => ProgressStyle::Lines,
        chosen => chosen,
    }
}

/// The renderer of that style, for a command that begins to work. What it is told, those who watch the process learn, too.
pub fn renderer(globals: &Globals) -> Box<dyn Renderer> {
    monitor::ready();
    let shown: Box<dyn Renderer> = match style(globals) {
        ProgressStyle::Bar => Box::new(Bar::new(globals.color_on_stderr())),
        ProgressStyle::Json => Box::new(Json),
        ProgressStyle::Off => Box::new(Warnings),
        ProgressStyle::Auto | ProgressStyle::Lines => Box::new(Lines(Mutex::new((0.0, Rate::default())))),
    };
    Box::new(Watched(shown))
}

/// Shows progress, and passes it on to those who watch the process.
struct Watched(Box<dyn Renderer>);

impl Observer for Watched {
    fn event(&self, event: &Event) {
        monitor::event(event);
        self.0.event(event);
    }

    fn sample(&self, sample: &Sample) {
        monitor::sample(sample);
        self.0.sample(sample);
    }
}

impl Renderer for Watched {
    fn finish(&self) {
        self.0.finish();
    }
}

/// One JSON object a line.
struct Json;

impl Json {
    fn print(kind: &str, value: &impl serde::Serialize) {
        let Ok(mut document) = serde_json::to_value(value) else { return };
        if let Some(fields) = document.as_object_mut() {
            fields.insert("type".into(), kind.into());
            fields.insert("schema".into(), "bedload-progress-1".into());
        }
        // A reader that is gone must not stop an import.
        let _ = writeln!(io::stderr(), "{}", shown_json(&document.to_string()));
    }
}

impl Observer for Json {
    fn event(&self, event: &Event) {
        Self::print("event", event);
    }

    fn sample(&self, sample: &Sample) {
        Self::print("sample", sample);
    }
}

impl Renderer for Json {}

/// A line every few seconds.
struct Lines(Mutex<(f64, Rate)>);

impl Observer for Lines {
    fn event(&self, event: &Event) {
        print_event(event);
    }

    fn sample(&self, sample: &Sample) {
        let mut state = self.0.lock();
        state.1.add(*sample);
        if sample.seconds - state.0 < LINE_EVERY {
            return;
        }
        state.0 = sample.seconds;
        print_status(&state.1.status(), Some(sample));
    }
}

/// Prints the state of some work as a line of its own.
fn print_status(status: &Status, sample: Option<&Sample>) {
    let percent = status.done.map(|done| format!("{:>3} %  ", percent(done))).unwrap_or_default();
    let Status { name, seconds, .. } = status;
    let line = format!("{name:<8} {seconds:>6.0} s  {percent}{}", status.text(usize::MAX));
    if log::is_json() {
        return log::sample(&line, sample);
    }
    // A reader that is gone must not stop the work.
    let _ = writeln!(io::stderr(), "{}", line.trim_end());
}

impl Renderer for Lines {}
