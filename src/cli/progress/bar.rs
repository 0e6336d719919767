//! The bar: one line at the bottom of a terminal, drawn by indicatif. Messages are printed above it.

use std::io::{self, IsTerminal, Write};

use crate::progress::Event;
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use parking_lot::Mutex;

use super::line::{self, INDENT};
use super::status::Status;
use crate::cli::log::{self, LogLevel};
use crate::cli::render::numbers::{elapsed, percent};
use crate::cli::render::screen;
use crate::report::shown_in_line;

/// Seconds before the first bar: a shorter job needs none.
const SHORT: f64 = 0.15;

/// Columns at the end of the line that stay free. Indicatif pads its line to the last column of its target; there the
/// `^C` that a terminal echoes would begin another line.
const FREE: u16 = 4;

/// Columns beside the time, the bar and the rates: name, brackets, percent, and spaces.
const FRAME: usize = 20;

/// The columns of a bar for which no part is left out.
const SMALL_BAR: usize = 6;

/// The least columns of the bar itself.
const LEAST_BAR: usize = 2;

/// The one bar of the process; the thread of the signals uses it, too.
static BAR: Mutex<Bar> = Mutex::new(Bar::Hidden);

enum Bar {
    Hidden,
    Shown(ProgressBar),
    /// No bar until the end of the process.
    Removed,
}

/// Prints a line on standard error, above the bar if there is one.
pub fn print_above(text: &str) {
    if log::is_json() {
        return log::write(LogLevel::Info, text, serde_json::Value::Null);
    }
    // A closed terminal must not stop an import.
    let print = || drop(io::stderr().write_all(format!("{text}\n").as_bytes()));
    match &*BAR.lock() {
        Bar::Shown(bar) => bar.suspend(print),
        Bar::Hidden | Bar::Removed => print(),
    }
}

/// Prints a warning, above the bar if there is one.
pub fn print_warning(message: &str) {
    match log::is_json() {
        true => log::write(LogLevel::Warning, message, serde_json::Value::Null),
        false => print_above(&format!("warning: {}", shown_in_line(message))),
    }
}

/// Prints the line of an event, if it has one, broken to fit the terminal. Text from outside is escaped.
pub fn print_event(event: &Event, are_records: bool) {
    match (event, line::text(event, are_records)) {
        (_, None) => {}
        (Event::Warning { message }, _) if log::is_json() => log::event(event, message),
        (_, Some(text)) if log::is_json() => log::event(event, &text),
        (_, Some(text)) => print_above(&screen::fit(&shown_in_line(&text), INDENT, screen::stderr_columns())),
    }
}

/// Prints a message that follows a signal, below the `^C` that the terminal echoed.
pub fn print_after_signal(text: &str) {
    let has_bar = matches!(*BAR.lock(), Bar::Shown(_));
    let break_line = if !has_bar && io::stderr().is_terminal() { "\n" } else { "" };
    print_above(&format!("{break_line}{text}"));
}

/// Hides the bar until there is a new status.
pub fn hide() {
    let mut shown = BAR.lock();
    if let Bar::Shown(bar) = &*shown {
        bar.finish_and_clear();
        *shown = Bar::Hidden;
    }
}

/// Removes the bar for good.
pub fn clear() {
    hide();
    *BAR.lock() = Bar::Removed;
}

pub fn show(status: &Status, color: bool) {
    let mut shown = BAR.lock();
    if matches!(*shown, Bar::Hidden) && status.seconds >= SHORT {
        *shown = Bar::Shown(new_bar(Term::buffered_stderr()));
    }
    if let Bar::Shown(bar) = &*shown {
        draw(bar, status, Screen(Term::stderr()).width().into(), color);
    }
}

fn new_bar(terminal: impl TermLike + 'static) -> ProgressBar {
    ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::term_like(Box::new(Screen(terminal))))
}

/// Draws `read     0:31 [=====>       ]  42 %  640.0 MiB/s, 12 s left`, in at most `columns`.
fn draw(bar: &ProgressBar, status: &Status, columns: usize, color: bool) {
    let (name, time) = (status.name, elapsed(status.seconds));
    let frame = FRAME + time.len();
    let room = columns.saturating_sub(frame);
    // The bar shrinks first; parts are left out once it is small.
    let wanted = status.text(room.saturating_sub(SMALL_BAR)).chars().count().max(status.least_room());
    let width = (columns / 6).min(room.saturating_sub(wanted)).max(LEAST_BAR);
    let (on, off) = if color { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    // Braces are the template's own.
    let text = |used: usize| status.text(columns.saturating_sub(used)).replace('{', "{{").replace('}', "}}");
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
    use super::*;
    use crate::cli::progress::status::RecentRate;
    use crate::progress::{Phase, Sample};
    use indicatif::InMemoryTerm;

    /// Draws a bar on a terminal and returns the text with the column of the cursor.
    fn drawn(bytes: u64, total: Option<u64>, columns: u16) -> (String, usize) {
        let sample = |seconds: f64, bytes| Sample {
            seconds,
            phase: Phase::Read,
            bytes,
            total,
            blocks: 1,
            total_blocks: None,
            backlog: None,
            network: None,
            interval_blocks_per_second: None,
            seconds_left: Some(12.0),
        };
        let mut rate = RecentRate::default();
        rate.add(sample(9.0, 0));
        rate.add(sample(10.0, bytes));
        let terminal = InMemoryTerm::new(5, columns);
        let bar = new_bar(terminal.clone());
        for _ in 0..2 {
            draw(&bar, &rate.status(), columns.saturating_sub(FREE).into(), false);
        }
        terminal.write_str("|").expect("it is in memory");
        let text = terminal.contents();
        let cursor = text.lines().last().and_then(|line| line.chars().position(|c| c == '|')).expect("the cursor");
        (text.trim_end_matches('|').trim_end().to_owned(), cursor)
    }

    #[test]
    fn line_fits_every_width() {
        for columns in 20..300 {
            for total in [Some(3 << 30), None, Some(1 << 30)] {
                let (text, cursor) = drawn(1 << 30, total, columns);
                assert_eq!(text.lines().count(), 1, "{columns}: {text:?}");
                assert_eq!(cursor, usize::from(columns - FREE), "{columns}: {text:?}");
            }
        }
    }

    #[test]
    fn bar_shows_the_share_done() {
        assert_eq!(
            drawn(1 << 30, Some(2 << 30), 80).0,
            "read     0:10 [======>     ]  50 %  1.0 of 2.0 GiB, 1.0 GiB/s, 12 s left"
        );
        assert_eq!(drawn(2 << 30, Some(2 << 30), 60).0, "read     0:10 [=========] 100 %  2.0 GiB/s, 12 s left");
        assert_eq!(drawn(1 << 30, None, 80).0, "read     0:10  1.0 GiB, 1.0 GiB/s, 0 blocks/s, 12 s left");
    }
}
