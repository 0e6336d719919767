//! Reports as rows of a name and a value, such as `digest    1f2e..`.

use std::fmt::Write;

use crate::report::{Advice, shown_in_line};

pub const NAMES: usize = 9;

/// A report that grows row by row. Control characters in values are escaped.
pub struct Rows {
    text: String,
    names: usize,
    indent: &'static str,
}

impl Rows {
    /// Rows whose names take `names` columns.
    pub fn new(names: usize) -> Self {
        Self { text: String::new(), names, indent: "" }
    }

    /// Rows below a heading.
    pub fn below(heading: &str) -> Self {
        Self { text: format!("{}\n", shown_in_line(heading)), names: NAMES, indent: "  " }
    }

    pub fn add(&mut self, name: &str, value: impl AsRef<str>) {
        let (indent, names) = (self.indent, self.names);
        // Writing into a string does not fail.
        let _ = writeln!(self.text, "{indent}{name:<names$} {}", shown_in_line(value.as_ref()));
    }

    /// Adds a row where there is a value.
    pub fn add_some(&mut self, name: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds a row for each value; only the first has the name.
    pub fn add_each(&mut self, name: &str, values: impl IntoIterator<Item = String>) {
        for (number, value) in values.into_iter().enumerate() {
            self.add(if number == 0 { name } else { "" }, value);
        }
    }

    /// Adds lines that follow rows.
    pub fn add_lines(&mut self, lines: &str) {
        self.text.push_str(lines);
    }

    pub fn add_advice(&mut self, all: &[Advice]) {
        for Advice { finding, remedy, .. } in all {
            self.add("advice", finding);
            self.add("", format!("  {remedy}"));
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// One row, as [`Rows`] has it.
pub fn row(name: &str, names: usize, value: &str) -> String {
    let mut rows = Rows::new(names);
    rows.add(name, value);
    rows.into_text()
}
