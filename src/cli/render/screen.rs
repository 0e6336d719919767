//! What a terminal can show: how wide it is, and text that is broken to fit.

use std::io::{self, Write};

use bedload::report::{shown, shown_in_line};
use rustix::termios::{Winsize, tcgetwinsize};

/// The longest name that stands before a value, in columns.
const LONGEST_NAME: usize = 12;

/// Columns of the terminal that standard output is; `None` where it is none, and lines stay whole.
pub fn stdout_columns() -> Option<usize> {
    columns(tcgetwinsize(io::stdout()))
}

/// The same of standard error.
pub fn stderr_columns() -> Option<usize> {
    columns(tcgetwinsize(io::stderr()))
}

fn columns(size: rustix::io::Result<Winsize>) -> Option<usize> {
    // A terminal that does not know its size says 0.
    size.ok().map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Prints a text of lines such as `digest    1f2e..`, whose values stand at the column `indent`.
pub fn print(text: &str, indent: usize) -> io::Result<()> {
    write!(io::stdout(), "{}", fit(&shown(text), indent, stdout_columns()))
}

/// Prints a line on standard error. A reader that is gone must not stop anything.
pub fn print_to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{}", shown_in_line(line));
}

/// Breaks lines that are longer than `columns` at spaces. What follows stands below the value, or deeper than a line that
/// is itself indented. Words that are too long, as paths may be, stay whole: people copy them.
pub fn fit(text: &str, indent: usize, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let mut fitted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        fit_line(line, value_column(line, indent).min(columns / 2), columns, &mut fitted);
    }
    fitted
}

/// Where the value of a line stands: behind a name and two spaces or more; else at `indent`, or deeper than an indented
/// line.
fn value_column(line: &str, indent: usize) -> usize {
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let behind_name = || {
        let rest = line.get(spaces..)?;
        let name = rest.find("  ").filter(|&name| name <= LONGEST_NAME && rest.is_char_boundary(name))?;
        let gap = rest.get(name..)?;
        Some(spaces + name + gap.len() - gap.trim_start_matches(' ').len())
    };
    behind_name().unwrap_or(if spaces == 0 { indent } else { spaces + 2 })
}

fn fit_line(line: &str, hanging: usize, columns: usize, fitted: &mut String) {
    let (mut used, mut words) = (0, 0);
    for word in line.split_inclusive(' ') {
        let width = word.trim_end().chars().count();
        // Spaces after a word may hang over the end of the line, where they are cut.
        if used + width > columns && words > 0 && width > 0 {
            fitted.truncate(fitted.trim_end_matches(' ').len());
            fitted.push('\n');
            fitted.extend(std::iter::repeat_n(' ', hanging));
            used = hanging;
            words = 0;
        }
        fitted.push_str(word);
        used += word.trim_end_matches('\n').chars().count();
        // What stands before the value's column is no word that may stand alone.
        words += usize::from(width > 0 && used > hanging);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "plan      spill to partitions, then sort each in memory\ndigest    0123456789abcdef0123456789\n  missing: one two three\n";

    #[test]
    fn lines_are_broken_at_spaces_below_their_values() {
        let fitted = fit(TEXT, 10, Some(24));
        assert_eq!(
            fitted,
            "plan      spill to\n          partitions,\n          then sort each\n          in memory\n\
             digest    0123456789abcdef0123456789\n  missing: one two three\n"
        );
        assert_eq!(fit(TEXT, 10, Some(20)).lines().last(), Some("    three"));
        assert_eq!(fit("  reason   one two\n", 2, Some(16)), "  reason   one\n        two\n");
        assert_eq!(fit("  reason   one two\n", 2, Some(22)), "  reason   one two\n");
    }

    #[test]
    fn what_fits_and_what_is_no_terminal_stays_as_it_is() {
        assert_eq!(fit(TEXT, 10, Some(80)), TEXT);
        assert_eq!(fit(TEXT, 10, None), TEXT);
        assert_eq!(fit("", 10, Some(1)), "");
        assert_eq!(fit("a b", 10, Some(1)), "a\nb");
    }
}
