//! Progress for people and for programs: a bar, lines, or JSON, all made from the same samples, on standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use bedload::progress::{Event, Observer, Sample};
use bedload::report::{shown_in_line, shown_json};
use bedload::size::human;

use super::bar::Bar;
use super::speed::{Speed, done_line};
use super::{Globals, ProgressStyle, screen};

/// Seconds between two lines.
const LINE_EVERY: f64 = 5.0;

/// The column at which what is told begins: behind the name of a phase.
const INDENT: usize = 9;

/// Shows progress until it is told to finish.
pub trait Renderer: Observer {
    /// Takes the bar away.
    fn finish(&self) {}
}

struct Nothing;
impl Observer for Nothing {}
impl Renderer for Nothing {}

/// Chooses how to show progress.
pub fn renderer(globals: &Globals) -> Box<dyn Renderer> {
    let style = match globals.progress {
        _ if globals.quiet => ProgressStyle::Off,
        ProgressStyle::Auto | ProgressStyle::Bar if io::stderr().is_terminal() && !super::is_dumb() => {
            ProgressStyle::Bar
        }
        ProgressStyle::Auto | ProgressStyle::Bar => ProgressStyle::Lines,
        chosen => chosen,
    };
    match style {
        ProgressStyle::Bar => Box::new(Bar::new(globals.color_on_stderr())),
        ProgressStyle::Json => Box::new(Json),
        ProgressStyle::Off => Box::new(Nothing),
        ProgressStyle::Auto | ProgressStyle::Lines => Box::new(Lines(Mutex::new((0.0, Speed::default())))),
    }
}

fn resumed(source_bytes: u64, built_files: u64) -> String {
    format!("resume   {} of the source and {built_files} SST files are done already", human(source_bytes))
}

/// Whole percent; 100 only when all is done.
pub fn percent(done: f64) -> u64 {
    (done * 100.0) as u64
}

/// The line, or lines on a terminal that is narrower, that an event leaves; `None` where it leaves none.
pub fn line(event: &Event) -> Option<String> {
    let line = match event {
        Event::Planned { plan } => format!("plan     {plan}"),
        Event::Resumed { source_bytes, built_files } => resumed(*source_bytes, *built_files),
        Event::PhaseDone { phase, seconds, bytes, blocks } => done_line(*phase, *seconds, *bytes, *blocks)?,
        Event::Warning { message } => format!("warning: {message}"),
        _ => return None,
    };
    Some(screen::fit(&shown_in_line(&line), INDENT, screen::stderr_columns()))
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
        // A reader who has gone away must not stop an import.
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
struct Lines(Mutex<(f64, Speed)>);

impl Observer for Lines {
    fn event(&self, event: &Event) {
        if let Some(line) = line(event) {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    fn sample(&self, sample: &Sample) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.add(*sample);
        if sample.seconds - state.0 < LINE_EVERY {
            return;
        }
        state.0 = sample.seconds;
        let percent = sample.done().map(|done| format!("{:>3} %  ", percent(done))).unwrap_or_default();
        let (phase, text) = (sample.phase.name(), state.1.describe(usize::MAX));
        let _ = writeln!(io::stderr(), "{phase:<8} {:>6.0} s  {percent}{text}", sample.seconds);
    }
}

impl Renderer for Lines {}
