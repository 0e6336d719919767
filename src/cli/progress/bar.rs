//! The bar: one line at the bottom of a terminal, redrawn in place. Messages are printed above it.

use std::io::{self, IsTerminal, Write};

use crate::progress::Event;
use parking_lot::Mutex;

use super::line::{self, INDENT};
use super::status::Status;
use crate::cli::log::{self, LogLevel};
use crate::cli::render::numbers::{elapsed, percent};
use crate::cli::render::screen;
use crate::report::shown_in_line;

/// Seconds before the first bar: a shorter job needs none.
const SHORT: f64 = 0.15;

/// Columns at the end of the line that stay free: the `^C` that a terminal echoes must not begin another line.
const FREE: usize = 4;

/// Columns beside the time, the bar and the rates: name, brackets, percent, and spaces.
const FRAME: usize = 20;

/// The columns of a bar for which no part is left out.
const SMALL_BAR: usize = 6;

/// The least columns of the bar itself.
const LEAST_BAR: usize = 2;

/// The one bar of the process; the thread of the signals uses it, too.
static BAR: Mutex<Bar> = Mutex::new(Bar::Hidden);

/// Erases the line of the cursor.
const ERASE: &str = "\r\x1b[K";

enum Bar {
    Hidden,
    /// The line on the screen.
    Shown(String),
    /// No bar until the end of the process.
    Removed,
}

/// Prints a line on standard error, above the bar if there is one.
pub fn print_above(text: &str) {
    if log::is_json() {
        return log::write(LogLevel::Info, text, serde_json::Value::Null);
    }
    match &*BAR.lock() {
        Bar::Shown(line) => write(&format!("{ERASE}{text}\n{line}")),
        Bar::Hidden | Bar::Removed => write(&format!("{text}\n")),
    }
}

/// Writes to standard error. A closed terminal must not stop an import.
fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a warning, above the bar if there is one.
pub fn print_warning(message: &str) {
    match log::is_json() {
        true => log::write(LogLevel::Warning, message, serde_json::Value::Null),
        false => print_above(&format!("warning: {}", shown_in_line(message))),
    }
}

/// Prints the line of an event, if it has one, broken to fit the terminal. Text from outside is escaped.
pub fn print_event(event: &Event) {
    match (event, line::text(event)) {
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
    if matches!(*shown, Bar::Shown(_)) {
        write(ERASE);
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
    if matches!(*shown, Bar::Shown(_)) || (matches!(*shown, Bar::Hidden) && status.seconds >= SHORT) {
        let line = line_of(status, screen::stderr_columns().unwrap_or(screen::USUAL).saturating_sub(FREE), color);
        write(&format!("{ERASE}{line}"));
        *shown = Bar::Shown(line);
    }
}

/// Returns `read     0:31 [=====>       ]  42 %  640.0 MiB/s, 12 s left`, of at most `columns`.
fn line_of(status: &Status, columns: usize, color: bool) -> String {
    let (name, time) = (status.name, elapsed(status.seconds));
    let frame = FRAME + time.len();
    let room = columns.saturating_sub(frame);
    // The bar shrinks first; parts are left out once it is small.
    let wanted = status.text(room.saturating_sub(SMALL_BAR)).chars().count().max(status.least_room());
    let width = (columns / 6).min(room.saturating_sub(wanted)).max(LEAST_BAR);
    let (on, off) = if color { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let text = |used: usize| status.text_with_curve(columns.saturating_sub(used));
    let Some(percent) = status.done.map(percent) else {
        return format!("{name:<8} {time}  {}", text(11 + time.len()));
    };
    if columns < frame + width {
        return format!("{name} {percent} %");
    }
    let done = "=".repeat(width * percent as usize / 100);
    let head = if percent > 0 && done.len() < width { ">" } else { "" };
    format!("{name:<8} {time} [{on}{:<width$}{off}] {percent:>3} %  {}", done + head, text(frame + width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::progress::status::RecentRate;
    use crate::progress::{Phase, Sample};

    /// Returns the line of a bar on a terminal.
    fn drawn(bytes: u64, total: Option<u64>, columns: usize) -> String {
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
        line_of(&rate.status(), columns - FREE, false)
    }

    #[test]
    fn line_fits_every_width() {
        for columns in 20..300 {
            for total in [Some(3 << 30), None, Some(1 << 30)] {
                let line = drawn(1 << 30, total, columns);
                assert!(line.chars().count() <= columns - FREE, "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn bar_shows_the_share_done() {
        assert_eq!(
            drawn(1 << 30, Some(2 << 30), 80),
            "read     0:10 [======>     ]  50 %  1.0 of 2.0 GiB, 1.0 GiB/s, 12 s left"
        );
        assert_eq!(drawn(2 << 30, Some(2 << 30), 60), "read     0:10 [=========] 100 %  2.0 GiB/s, 12 s left");
        assert_eq!(drawn(1 << 30, None, 80), "read     0:10  1.0 GiB, 1.0 GiB/s, 0 blocks/s, 12 s left");
    }
}
