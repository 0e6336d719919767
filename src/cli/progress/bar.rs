//! The bar: one line at the bottom, which is drawn anew in its place with every sample; a finished phase leaves its own
//! line above. The line is shorter than the terminal is wide, so nothing but its own start is ever gone back to.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bedload::progress::{Event, Observer, Sample};

use super::line::line;
use super::rate::Rate;
use crate::cli::render::numbers::percent;
use crate::cli::render::screen;

/// Erases the line, or what stands behind the cursor.
const ERASE: &str = "\r\x1b[K";
const ERASE_REST: &str = "\x1b[K";

/// A job that is over sooner needs no bar.
const SHORT: f64 = 0.15;

/// Columns at the end of the line that stay free: what the terminal shows of Ctrl-C must not make a second line.
const FREE: usize = 4;

/// Columns where nobody tells.
const USUAL_COLUMNS: usize = 80;

/// Columns beside the bar and what is told: name, brackets, percent, and spaces.
const FRAME: usize = 19;

/// The least columns of the bar itself.
const LEAST_BAR: usize = 2;

/// The bar as it stands on the screen now, for whoever else has something to say there; `None` where there is none.
static SHOWN: Mutex<Option<String>> = Mutex::new(None);

fn shown() -> MutexGuard<'static, Option<String>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes all at once, so that nobody sees half of it. A terminal that has gone away must not stop an import.
fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Says something on standard error, above the bar where there is one.
pub fn say(text: &str) {
    match &*shown() {
        Some(bar) if bar.is_empty() => write(&format!("{text}\n")),
        Some(bar) => write(&format!("{ERASE}{text}\n{bar}")),
        // Behind what the terminal shows of Ctrl-C.
        None if io::stderr().is_terminal() => write(&format!("\n{text}\n")),
        None => write(&format!("{text}\n")),
    }
}

/// Takes the bar away, for good.
pub fn clear() {
    if shown().take().is_some_and(|bar| !bar.is_empty()) {
        write(ERASE);
    }
}

pub struct Bar {
    speed: Mutex<Rate>,
    color: bool,
}

impl Bar {
    pub fn new(color: bool) -> Self {
        *shown() = Some(String::new());
        Self { speed: Mutex::default(), color }
    }
}

impl Observer for Bar {
    fn event(&self, event: &Event) {
        if let (Event::PhaseDone { .. }, Some(bar)) = (event, shown().as_mut())
            && !bar.is_empty()
        {
            // It belongs to a phase that is over.
            write(ERASE);
            bar.clear();
        }
        if let Some(line) = line(event) {
            say(&line);
        }
    }

    fn sample(&self, sample: &Sample) {
        let mut speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        speed.add(*sample);
        if sample.seconds < SHORT {
            return;
        }
        let columns = screen::stderr_columns().unwrap_or(USUAL_COLUMNS);
        let line = draw(sample, &speed, columns, self.color);
        // Once it is taken away it stays away.
        if let Some(bar) = shown().as_mut().filter(|bar| **bar != line) {
            // Over the old one, so that there is no moment without any.
            write(&format!("\r{line}{ERASE_REST}"));
            *bar = line;
        }
    }
}

/// `read     [=====>       ]  42 %  640.0 MiB/s, 12 s left`
fn draw(sample: &Sample, speed: &Rate, columns: usize, color: bool) -> String {
    let name = sample.phase.name();
    let room = columns.saturating_sub(FREE);
    let Some(done) = sample.done() else {
        return format!("{name:<8} {}", speed.describe_with_curve(room.saturating_sub(9)));
    };
    let width = (columns / 6).min(room.saturating_sub(FRAME + speed.least_room())).max(LEAST_BAR);
    let filled = (done * width as f64) as usize;
    let head = if filled < width { ">" } else { "" };
    let (shade, off) = if color { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let bar = format!("{shade}{}{head}{off}{}", "=".repeat(filled), " ".repeat((width - filled).saturating_sub(1)));
    let text = speed.describe_with_curve(room.saturating_sub(FRAME + width));
    let line = format!("{name:<8} [{bar}] {:>3} %  {text}", percent(done));
    if room < FRAME + width { format!("{name} {} %", percent(done)) } else { line.trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use bedload::progress::Phase;

    use super::*;

    fn sample(bytes: u64, total: Option<u64>) -> Sample {
        Sample {
            seconds: 10.0,
            phase: Phase::Read,
            bytes,
            total,
            blocks: 1,
            total_blocks: None,
            backlog: None,
            stretch_blocks_per_second: None,
            seconds_left: Some(12.0),
        }
    }

    fn drawn(sample: Sample, columns: usize) -> String {
        let mut speed = Rate::default();
        speed.add(Sample { seconds: sample.seconds - 1.0, bytes: 0, ..sample });
        speed.add(sample);
        draw(&sample, &speed, columns, false)
    }

    #[test]
    fn a_line_leaves_the_end_of_every_terminal_free() {
        for columns in 1..300 {
            for sample in [sample(1 << 30, Some(3 << 30)), sample(1 << 30, None), sample(1 << 30, Some(1 << 30))] {
                let line = drawn(sample, columns);
                assert!(line.chars().count() + FREE <= columns.max(20), "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn a_bar_shows_how_far_it_is() {
        assert_eq!(
            drawn(sample(1 << 30, Some(2 << 30)), 80),
            "read     [======>      ]  50 %  1.0 GiB, 1.0 GiB/s, 0 blocks/s, 12 s left"
        );
        assert_eq!(drawn(sample(2 << 30, Some(2 << 30)), 60), "read     [==========] 100 %  2.0 GiB/s, 12 s left");
        assert_eq!(drawn(sample(1 << 30, None), 80), "read     1.0 GiB, 1.0 GiB/s, 0 blocks/s, 12 s left");
    }
}
