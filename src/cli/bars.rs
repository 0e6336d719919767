//! Progress for people and for programs: a bar, lines, or JSON, all made from the same samples, on standard error.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bedload::progress::{Backlog, Event, Observer, Phase, Sample, Writes};
use bedload::size::human;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle as Style};

use super::rates::{self, Stretches};
use super::{Globals, ProgressStyle};

/// Seconds between two lines.
const LINE_EVERY: f64 = 5.0;

/// Seconds over which the current speed is taken.
const WINDOW: f64 = 3.0;

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
        ProgressStyle::Auto if io::stderr().is_terminal() => ProgressStyle::Bar,
        ProgressStyle::Auto => ProgressStyle::Lines,
        chosen => chosen,
    };
    match style {
        ProgressStyle::Bar => Box::new(Bar::new(globals.color_on_stderr())),
        ProgressStyle::Json => Box::new(Json),
        ProgressStyle::Off => Box::new(Nothing),
        ProgressStyle::Auto | ProgressStyle::Lines => Box::new(Lines(Mutex::new((0.0, Speed::default())))),
    }
}

/// The current speed, from the last few seconds of samples.
#[derive(Default)]
struct Speed(VecDeque<Sample>, Stretches);

impl Speed {
    fn add(&mut self, sample: Sample) {
        if self.0.back().is_some_and(|last| last.phase != sample.phase) {
            self.0.clear();
        }
        self.0.push_back(sample);
        while self.0.front().is_some_and(|first| sample.seconds - first.seconds > WINDOW) {
            self.0.pop_front();
        }
        self.1.add(sample.stretch_blocks_per_second);
    }

    /// Bytes and blocks a second.
    fn now(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let seconds = last.seconds - first.seconds;
        (seconds > 0.0).then(|| {
            let per_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
            (per_second(first.bytes, last.bytes), per_second(first.blocks, last.blocks))
        })
    }

    /// `1.2 GiB  640.0 MiB/s, 655,123 blocks/s, 12 s left`; of a log, where there is no room for all of it,
    /// `212 k blocks/s, last 100,000 at 208 k, 12 s left`.
    fn describe_done(&self, columns: usize) -> String {
        let of_log = self.now().and_then(|(_, blocks)| self.1.describe(blocks, columns));
        let done = self.0.back().map(|last| human(last.bytes)).unwrap_or_default();
        match of_log {
            None => format!("{done}  {}", self.describe()),
            Some(rates) if rates::has_room(columns) => format!("{done}  {rates}{}", self.describe_left()),
            Some(rates) => format!("{rates}{}", self.describe_left()),
        }
    }

    /// `640.0 MiB/s, 655,123 blocks/s, 12 s left`
    fn describe(&self) -> String {
        let Some((bytes, blocks)) = self.now() else { return String::new() };
        let mut text = format!("{}/s, {} blocks/s", human(bytes as u64), grouped(blocks as u64));
        text.push_str(&self.describe_left());
        if let Some(backlog) = self.0.back().and_then(|last| last.backlog) {
            text.push_str(&describe_backlog(&backlog));
        }
        text
    }

    /// `, 12 s left`; nothing where that cannot be told.
    fn describe_left(&self) -> String {
        let total = self.0.back().and_then(|last| Some(last.total?.saturating_sub(last.bytes)));
        match (total, self.now()) {
            (Some(left), Some((bytes, _))) if bytes > 0.0 => format!(", {} left", duration(left as f64 / bytes)),
            _ => String::new(),
        }
    }
}

/// `; 12 files at level 0, 1.5 GiB pending, writes stopped`
fn describe_backlog(backlog: &Backlog) -> String {
    let writes = match backlog.writes {
        Writes::Flow => "",
        Writes::Delayed => ", writes delayed",
        Writes::Stopped => ", writes stopped",
    };
    format!("; {} files at level 0, {} pending{writes}", backlog.level0_files, human(backlog.pending_bytes))
}

fn percent(sample: &Sample) -> Option<u64> {
    // Blocks say it exactly where an index has counted them; else bytes do.
    if let Some(total) = sample.total_blocks {
        return Some((sample.blocks.min(total) * 100) / total.max(1));
    }
    sample.total.filter(|&total| total > 0).map(|total| (sample.bytes.min(total) * 100) / total)
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn resumed(source_bytes: u64, built_files: u64) -> String {
    format!("resume   {} of the source and {built_files} SST files are done already", human(source_bytes))
}

fn done_line(phase: Phase, seconds: f64, bytes: u64, blocks: u64) -> Option<String> {
    let rate = human((bytes as f64 / seconds.max(0.001)) as u64);
    match phase {
        Phase::Plan => None,
        // A log begins to be read when its files have been looked at; what went through nothing has nothing to tell.
        Phase::Read | Phase::Build if (bytes, blocks) == (0, 0) => None,
        Phase::Read | Phase::Build | Phase::Check | Phase::Verify | Phase::Walk | Phase::Export => Some(format!(
            "{:<8} {seconds:>6.1} s  {} blocks, {}, {rate}/s",
            phase.name(),
            grouped(blocks),
            human(bytes)
        )),
        Phase::Ingest | Phase::Settle | Phase::Publish => Some(format!("{:<8} {seconds:>6.1} s", phase.name())),
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
        // A reader who has gone away must not stop an import.
        let _ = writeln!(io::stderr(), "{document}");
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
        let line = match event {
            Event::Planned { plan } => Some(format!("plan     {plan}")),
            Event::Resumed { source_bytes, built_files } => Some(resumed(*source_bytes, *built_files)),
            Event::PhaseDone { phase, seconds, bytes, blocks } => done_line(*phase, *seconds, *bytes, *blocks),
            Event::Warning { message } => Some(format!("warning: {message}")),
            _ => None,
        };
        if let Some(line) = line {
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
        let percent = percent(sample).map(|percent| format!("{percent:>3} %  ")).unwrap_or_default();
        let _ = writeln!(
            io::stderr(),
            "{:<8} {:>6.0} s  {percent}{}",
            sample.phase.name(),
            sample.seconds,
            state.1.describe_done(rates::NARROW)
        );
    }
}

impl Renderer for Lines {}

/// One bar a phase; a finished phase leaves its line.
struct Bar {
    bar: ProgressBar,
    speed: Mutex<Speed>,
    known: Style,
    unknown: Style,
}

impl Bar {
    fn new(color: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let shade = if color { ".cyan/dim" } else { "" };
        let style = |template: &str| Style::with_template(template).unwrap_or_else(|_| Style::default_bar());
        let known = style(&format!(
            "{{prefix:<8}} [{{wide_bar{}}}] {{percent:>3}} %  {{msg}}",
            if shade.is_empty() { String::new() } else { format!(":{shade}") }
        ))
        .progress_chars("=> ");
        let unknown = style("{prefix:<8} {spinner} {msg}");
        Self { bar, speed: Mutex::default(), known, unknown }
    }
}

impl Observer for Bar {
    fn event(&self, event: &Event) {
        match event {
            Event::Planned { plan } => self.bar.println(format!("plan     {plan}")),
            Event::Resumed { source_bytes, built_files } => self.bar.println(resumed(*source_bytes, *built_files)),
            Event::Warning { message } => self.bar.println(format!("warning: {message}")),
            Event::Phase { phase } => {
                self.bar.set_prefix(phase.name());
                self.bar.set_message("");
                self.bar.set_position(0);
            }
            Event::PhaseDone { phase, seconds, bytes, blocks } => {
                if let Some(line) = done_line(*phase, *seconds, *bytes, *blocks) {
                    self.bar.println(line);
                }
            }
            _ => {}
        }
    }

    fn sample(&self, sample: &Sample) {
        let mut speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        speed.add(*sample);
        // A short import needs no bar.
        if sample.seconds < Duration::from_millis(150).as_secs_f64() {
            return;
        }
        let done = sample.total_blocks.map(|total| (sample.blocks, total));
        match done.or(sample.total.map(|total| (sample.bytes, total))) {
            Some((done, total)) => {
                self.bar.set_style(self.known.clone());
                self.bar.set_length(total);
                self.bar.set_position(done.min(total));
            }
            None => {
                self.bar.set_style(self.unknown.clone());
                self.bar.set_length(u64::MAX);
                self.bar.set_position(sample.bytes);
            }
        }
        self.bar.set_prefix(sample.phase.name());
        let text = match sample.phase {
            Phase::Read | Phase::Build | Phase::Check | Phase::Verify | Phase::Walk | Phase::Export => {
                speed.describe_done(rates::columns())
            }
            Phase::Settle if sample.backlog.is_some() => speed.describe(),
            _ => format!("{:.0} s", sample.seconds),
        };
        self.bar.set_message(text);
        self.bar.tick();
    }
}

impl Renderer for Bar {
    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a log of which 40,000 blocks and 8 MiB were read in the last second.
    fn shown(stretch: Option<f64>, columns: usize) -> String {
        let sample = |seconds: f64, bytes: u64, blocks: u64| Sample {
            seconds,
            phase: Phase::Read,
            bytes,
            total: Some(100 << 30),
            blocks,
            total_blocks: None,
            backlog: None,
            stretch_blocks_per_second: stretch,
        };
        let mut speed = Speed::default();
        speed.add(sample(9.0, 92 << 20, 160_000));
        speed.add(sample(10.0, 100 << 20, 200_000));
        speed.describe_done(columns)
    }

    #[test]
    fn a_phase_that_went_through_nothing_leaves_no_line() {
        assert_eq!(done_line(Phase::Read, 0.0, 0, 0), None);
        assert_eq!(done_line(Phase::Build, 0.1, 0, 0), None);
        let line = "read        2.0 s  1,234 blocks, 8.0 MiB, 4.0 MiB/s";
        assert_eq!(done_line(Phase::Read, 2.0, 8 << 20, 1234).as_deref(), Some(line));
    }

    #[test]
    fn the_rate_of_the_last_stretch_fits_beside_that_of_now() {
        assert_eq!(shown(None, 80), "100.0 MiB  8.0 MiB/s, 40,000 blocks/s, 3:33 h left");
        let narrow = "40 k blocks/s, last 100,000 at 208 k, 3:33 h left";
        assert_eq!(shown(Some(208_000.0), 80), narrow);
        assert_eq!(shown(Some(208_000.0), 100), format!("100.0 MiB  {narrow}"));
        // Beside what the bar itself needs there is room for a bar in 80 columns.
        assert!("read     [] 100 %  ".len() + "9,999 blocks/s, last 100,000 at 12.3 M, 59:59 min left".len() < 76);
    }
}
