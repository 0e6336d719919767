//! The bar: one line at the bottom of a terminal. Messages are printed above it.

use std::io::{self, IsTerminal, Write};

use crate::progress::Event;
use parking_lot::Mutex;

use super::line::{self, INDENT};
use super::status::Status;
use crate::cli::log::{self, Level};
use crate::cli::render::numbers::{elapsed, percent};
use crate::cli::render::screen;
use crate::report::shown_in_line;

/// Seconds before the first bar: a shorter job needs none.
const SHORT: f64 = 0.15;

/// Columns at the end of the line that stay free, so that the `^C` that a terminal echoes does not begin another line.
const FREE: usize = 4;

/// Columns beside the time, the bar and the rates: name, brackets, percent, and spaces.
const FRAME: usize = 20;

/// The columns of a bar for which no part is left out.
const SMALL_BAR: usize = 6;

/// The least columns of the bar itself.
const LEAST_BAR: usize = 2;

/// Erases the line of the cursor.
const ERASE: &str = "\r\x1b[K";

/// The one bar of the process, empty if it is hidden; `None` once it must not appear again.
static BAR: Mutex<Option<String>> = Mutex::new(Some(String::new()));

/// Writes to standard error. A closed terminal must not stop an import.
fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a line on standard error, above the bar if there is one.
pub fn print_above(text: &str) {
    if log::is_json() {
        return log::write(Level::Info, text, serde_json::Value::Null);
    }
    match BAR.lock().as_deref() {
        None | Some("") => write(&format!("{text}\n")),
        Some(bar) => write(&format!("{ERASE}{text}\n{bar}")),
    }
}

/// Prints a warning, above the bar if there is one.
pub fn print_warning(message: &str) {
    match log::is_json() {
        true => log::write(Level::Warning, message, serde_json::Value::Null),
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
    let has_bar = BAR.lock().as_ref().is_some_and(|bar| !bar.is_empty());
    let break_line = if !has_bar && io::stderr().is_terminal() { "\n" } else { "" };
    print_above(&format!("{break_line}{text}"));
}

/// Hides the bar until there is a new status.
pub fn hide() {
    if let Some(bar) = BAR.lock().as_mut().filter(|bar| !bar.is_empty()) {
        write(ERASE);
        bar.clear();
    }
}

/// Removes the bar for good.
pub fn clear() {
    hide();
    *BAR.lock() = None;
}

/// Draws the status of the work.
pub fn show(status: &Status, color: bool) {
    if let Some(bar) = BAR.lock().as_mut().filter(|bar| !bar.is_empty() || status.seconds >= SHORT) {
        *bar = line(status, screen::stderr_columns().unwrap_or(80).saturating_sub(FREE), color);
        write(&format!("\r{bar}\x1b[K"));
    }
}

/// `read     0:31 [=====>       ]  42 %  640.0 MiB/s, 12 s left`, in at most `columns`.
fn line(status: &Status, columns: usize, color: bool) -> String {
    let (name, time) = (status.name, elapsed(status.seconds));
    let Some(done) = status.done.map(percent) else {
        let text = status.text_with_curve(columns.saturating_sub(11 + time.len()));
        return format!("{name:<8} {time}  {text}").chars().take(columns).collect();
    };
    let frame = FRAME + time.len();
    let room = columns.saturating_sub(frame);
    // The bar shrinks first; parts are left out once it is small.
    let wanted = status.text(room.saturating_sub(SMALL_BAR)).chars().count().max(status.least_room());
    let width = (columns / 6).min(room.saturating_sub(wanted)).max(LEAST_BAR);
    if columns < frame + width {
        return format!("{name} {done} %");
    }
    let full = (width * done as usize / 100).min(width);
    let head = if done > 0 && full < width { ">" } else { "" };
    let bar = "=".repeat(full) + head;
    let (on, off) = if color { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let text = status.text_with_curve(columns - frame - width);
    format!("{name:<8} {time} [{on}{bar:<width$}{off}] {done:>3} %  {text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::progress::status::Rate;
    use crate::progress::{Phase, Sample};

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
        let mut rate = Rate::default();
        rate.add(sample(9.0, 0));
        rate.add(sample(10.0, bytes));
        line(&rate.status(), columns, false)
    }

    #[test]
    fn line_fits_every_width() {
        for columns in 16..300 {
            for total in [Some(3 << 30), None, Some(1 << 30)] {
                let line = drawn(1 << 30, total, columns);
                assert!(line.chars().count() <= columns, "{columns}: {line:?}");
            }
        }
    }

    #[test]
    fn bar_shows_the_share_done() {
        assert_eq!(
            drawn(1 << 30, Some(2 << 30), 76),
            "read     0:10 [======>     ]  50 %  1.0 of 2.0 GiB, 1.0 GiB/s, 12 s left"
        );
        assert_eq!(drawn(2 << 30, Some(2 << 30), 56), "read     0:10 [=========] 100 %  2.0 GiB/s, 12 s left");
        assert_eq!(drawn(1 << 30, None, 76), "read     0:10  1.0 GiB, 1.0 GiB/s, 0 blocks/s, 12 s left");
    }
}
