//! Text for terminals: broken to fit their width, control characters escaped.

use std::io::{self, Write};

use crate::report::{shown, shown_in_line};
use console::Term;
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// The longest name before a value, in columns.
const LONGEST_NAME: usize = 12;

/// The columns of a table where the terminal's are not known.
const USUAL: usize = 80;

/// Columns for a table on standard output, of which a file or a pipe gets as many as a usual terminal.
pub fn table_columns() -> usize {
    stdout_columns().unwrap_or(USUAL)
}

/// Columns of the terminal on standard output; `None` without one, where lines stay whole.
pub fn stdout_columns() -> Option<usize> {
    columns(&Term::stdout())
}

pub fn stderr_columns() -> Option<usize> {
    columns(&Term::stderr())
}

fn columns(terminal: &Term) -> Option<usize> {
    terminal.size_checked().map(|(_, columns)| columns.into())
}

/// Writes a whole text to standard output. A reader that is gone needs no more of it, but the command still fails if it has to.
pub fn write_out(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes()).or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}

/// Prints a text of lines such as `digest    1f2e..`, whose values begin at the column `indent`.
pub fn print(text: &str, indent: usize) -> io::Result<()> {
    write_out(&fit(&shown(text), indent, stdout_columns()))
}

/// Prints such a line in a colour, given as the escape sequence that begins it.
pub fn print_colored(line: &str, indent: usize, color: &str) -> io::Result<()> {
    let fitted = fit(&shown(line), indent, stdout_columns());
    let off = if color.is_empty() { "" } else { "\x1b[0m" };
    write_out(&format!("{color}{}{off}\n", fitted.trim_end_matches('\n')))
}

/// Fits a table to a usual terminal, even in a file.
pub fn print_table(text: &str, indent: usize) -> io::Result<()> {
    write_out(&fit(&shown(text), indent, Some(table_columns())))
}

/// Prints a line on standard error. A reader that is gone must not stop anything.
pub fn print_to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{}", shown_in_line(line));
}

/// Breaks lines that are longer than `columns` at spaces. What follows is indented like the value, or deeper than a line
/// that is itself indented. Words that are too long, as paths may be, stay whole: users copy them.
pub fn fit(text: &str, indent: usize, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    text.split_inclusive('\n').map(|line| fit_line(line, indent, columns)).collect()
}

fn fit_line(line: &str, indent: usize, columns: usize) -> String {
    let text = line.trim_end_matches('\n');
    if display_width(text) <= columns {
        return line.to_owned();
    }
    let spaces = text.len() - text.trim_start_matches(' ').len();
    let start = value_start(text, spaces, indent);
    let (name, value) = text.split_at_checked(start).unwrap_or(("", text));
    let hanging = match spaces {
        _ if start > spaces => start,
        0 => indent,
        _ => spaces + 2,
    };
    let hanging = " ".repeat(hanging.min(columns / 2));
    let options = Options::new(columns)
        .initial_indent(name)
        .subsequent_indent(&hanging)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let end = if text.len() < line.len() { "\n" } else { "" };
    format!("{}{end}", textwrap::fill(value, options))
}

/// Column of the value in a line: after a name and at least two spaces, or at `indent` after a name and one space; without a name
/// after the indentation of `spaces`.
fn value_start(text: &str, spaces: usize, indent: usize) -> usize {
    let after_name = || {
        let rest = text.get(spaces..)?;
        let name = rest.find("  ").filter(|&name| name <= LONGEST_NAME)?;
        Some(text.len() - rest.get(name..)?.trim_start_matches(' ').len())
    };
    let at_indent = || (spaces == 0 && text.as_bytes().get(indent.checked_sub(1)?) == Some(&b' ')).then_some(indent);
    after_name().or_else(at_indent).unwrap_or(spaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "plan      spill to partitions, then sort each in memory\ndigest    0123456789abcdef0123456789\n  missing: one two three\n";

    #[test]
    fn long_lines_break_at_spaces_and_indent() {
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
    fn short_and_redirected_lines_stay_unchanged() {
        assert_eq!(fit(TEXT, 10, Some(80)), TEXT);
        assert_eq!(fit(TEXT, 10, None), TEXT);
        assert_eq!(fit("", 10, Some(1)), "");
        assert_eq!(fit("a b", 10, Some(1)), "a\nb");
        assert_eq!(fit("error: /a/long/path is here", 7, Some(12)), "error: /a/long/path\n      is\n      here");
    }
}
