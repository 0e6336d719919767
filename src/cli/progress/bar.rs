//! The bar: one line at the bottom of a terminal, drawn by indicatif; a finished phase prints its own line above it.

use std::io::{self, IsTerminal, Write};

use crate::progress::{Event, Observer, Sample};
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use parking_lot::{Mutex, MutexGuard};

use super::line::{self, INDENT};
use super::rate::Rate;
use super::status::Status;
use crate::cli::log::{self, Level};
use crate::cli::render::numbers::{elapsed, percent};
use crate::cli::render::screen;
use crate::report::shown_in_line;

/// Seconds before the first bar: a shorter job needs none.
const SHORT: f64 = 0.15;

/// Columns at the end of the line that stay free. Indicatif pads its line to the last column of its target; there the
/// `^C` that a terminal echoes would begin another line, and the bar above it would stay.
const FREE: u16 = 4;

/// Columns beside the time, the bar and the rates: name, brackets, percent, and spaces.
const FRAME: usize = 20;

/// The columns of a bar for which no part is left out.
const SMALL_BAR: usize = 6;

/// The least columns of the bar itself.
const LEAST_BAR: usize = 2;

/// The one bar of the process: the thread of the signals uses it, too.
static SHOWN: Mutex<Shown> = Mutex::new(Shown::Nothing);

enum Shown {
    Nothing,
    Bar(ProgressBar),
    /// No more bar until the end of the process.
    Over,
}

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock()
}

/// Prints a line on standard error, above the bar if there is one.
pub fn print_above(text: &str) {
    if log::is_json() {
        return log::write(Level::Info, text, serde_json::Value::Null);
    }
    // A terminal that is gone must not stop an import.
    let print = || drop(io::stderr().write_all(format!("{text}\n").as_bytes()));
    match &*shown() {
        Shown::Bar(bar) => bar.suspend(print),
        Shown::Nothing | Shown::Over => print(),
    }
}

/// Prints the line of an event, if it has one, broken where the terminal is narrower. Text from outside is escaped.
pub fn print_event(event: &Event) {
    match (event, line::text(event)) {
        (_, None) => {}
        (Event::Warning { message }, _) if log::is_json() => log::event(event, message),
        (_, Some(text)) if log::is_json() => log::event(event, &text),
        (_, Some(text)) => print_above(&screen::fit(&shown_in_line(&text), INDENT, screen::stderr_columns())),
    }
}

/// [`print_above`] for a message that follows a signal.
pub fn print_after_signal(text: &str) {
    let has_bar = matches!(*shown(), Shown::Bar(_));
    // Below the `^C` that the terminal echoed.
    let break_line = if !has_bar && io::stderr().is_terminal() { "\n" } else { "" };
    print_above(&format!("{break_line}{text}"));
}

/// Removes the bar, for good.
pub fn clear() {
    if let Shown::Bar(bar) = std::mem::replace(&mut *shown(), Shown::Over) {
        bar.finish_and_clear();
    }
}

/// Shows progress as a bar.
pub struct Bar {
    rate: Mutex<Rate>,
    color: bool,
}

impl Bar {
    pub fn new(color: bool) -> Self {
        Self { rate: Mutex::default(), color }
    }
}

impl Observer for Bar {
    fn event(&self, event: &Event) {
        if let Event::PhaseDone { .. } = event {
            let mut shown = shown();
            if let Shown::Bar(bar) = &*shown {
                bar.finish_and_clear();
                *shown = Shown::Nothing;
            }
        }
        print_event(event);
    }

    fn sample(&self, sample: &Sample) {
        let mut rate = self.rate.lock();
        rate.add(*sample);
        show(&rate.status(), self.color);
    }
}

/// Shows the state of some work, in a bar that is made if there is none.
pub fn show(status: &Status, color: bool) {
    let mut shown = shown();
    if let Shown::Nothing = *shown
        && status.seconds >= SHORT
    {
        *shown = Shown::Bar(bar(Box::new(Screen(Term::buffered_stderr()))));
    }
    if let Shown::Bar(bar) = &*shown {
        update(bar, status, Screen(Term::stderr()).width().into(), color);
    }
}

fn bar(terminal: Box<dyn TermLike>) -> ProgressBar {
    ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::term_like(terminal))
}

/// Draws `read     0:31 [=====>       ]  42 %  640.0 MiB/s, 12 s left`, in at most `columns`.
fn update(bar: &ProgressBar, status: &Status, columns: usize, color: bool) {
    let (name, time) = (status.name, elapsed(status.seconds));
    let frame = FRAME + time.len();
    let room = columns.saturating_sub(frame);
    // The bar gives way to the parts, down to what still shows a share.
    let wanted = status.text(room.saturating_sub(SMALL_BAR)).chars().count().max(status.least_room());
    let width = (columns / 6).min(room.saturating_sub(wanted)).max(LEAST_BAR);
    let (on, off) = if color { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    // Braces are the template's own.
    let text = |room: usize| status.text_with_curve(columns.saturating_sub(room)).replace('{', "{{").replace('}', "}}");
    let template = match status.done {
        None => format!("{name:<8} {time}  {}", text(11 + time.len())),
        Some(_) if columns < frame + width => format!("{name} {{percent}} %"),
        Some(_) => format!("{name:<8} {time} [{on}{{bar:{width}}}{off}] {{percent:>3}} %  {}", text(frame + width)),
    };
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.update(|state| state.set_pos(status.done.map_or(0, percent)));
}

/// A terminal whose last columns stay free.
#[derive(Debug)]
struct Screen<T>(T);

impl<T: TermLike> TermLike for Screen<T> {
    fn width(&self) -> u16 {
        self.0.width().saturating_sub(FREE)
    }

    fn height(&self) -> u16 {
        self.0.height()
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use crate::progress::Phase;
    use indicatif::InMemoryTerm;

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
            network: None,
            interval_blocks_per_second: None,
            seconds_left: Some(12.0),
        }
    }

    /// What is on a terminal of so many columns, and the column of the cursor.
    fn drawn(sample: Sample, columns: u16) -> (String, usize) {
        let mut rate = Rate::default();
        rate.add(Sample { seconds: sample.seconds - 1.0, bytes: 0, ..sample });
        rate.add(sample);
        let terminal = InMemoryTerm::new(5, columns);
        let screen = Screen(terminal.clone());
        let (bar, columns) = (bar(Box::new(screen)), columns.saturating_sub(FREE).into());
        update(&bar, &rate.status(), columns, false);
        update(&bar, &rate.status(), columns, false);
        terminal.write_str("|").expect("it is in memory");
        let text = terminal.contents();
        let cursor = text.lines().last().and_then(|line| line.chars().position(|c| c == '|')).expect("the cursor");
        (text.trim_end_matches('|').trim_end().to_owned(), cursor)
    }

    #[test]
    fn a_line_leaves_the_end_of_every_terminal_free() {
        for columns in 20..300 {
            for sample in [sample(1 << 30, Some(3 << 30)), sample(1 << 30, None), sample(1 << 30, Some(1 << 30))] {
                let (text, cursor) = drawn(sample, columns);
                assert_eq!(text.lines().count(), 1, "{columns}: {text:?}");
                assert_eq!(cursor, usize::from(columns - FREE), "{columns}: {text:?}");
            }
        }
    }

    #[test]
    fn a_bar_shows_how_far_the_work_is() {
        assert_eq!(
            drawn(sample(1 << 30, Some(2 << 30)), 80).0,
            "read     0:10 [======>     ]  50 %  1.0 of 2.0 GiB, 1.0 GiB/s, 12 s left"
        );
        assert_eq!(
            drawn(sample(2 << 30, Some(2 << 30)), 60).0,
            "read     0:10 [=========] 100 %  2.0 GiB/s, 12 s left"
        );
        assert_eq!(drawn(sample(1 << 30, None), 80).0, "read     0:10  1.0 GiB, 1.0 GiB/s, 0 blocks/s, 12 s left");
    }
}
