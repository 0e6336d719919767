//! The table for the terminal.

use super::phrases::{circumstances, columns, recommendation_lines, warnings};
use super::results::BenchReport;
use crate::report::shown_in_line;

/// The comparison as text: circumstances, one line a variant, what to beware of, and the recommendation.
pub fn table(report: &BenchReport) -> String {
    let mut text = String::new();
    for (name, value) in circumstances(report) {
        text.push_str(&format!("{name:<13} {value}\n"));
    }
    text.push('\n');
    text.push_str(&aligned(&columns(report)));
    if !report.figures.reference.is_empty() {
        text.push_str(&format!(
            "\nmedians; reference: {}; ratios are taken round by round, in brackets their 95 % interval\n",
            shown_in_line(&report.figures.reference)
        ));
    }
    for warning in warnings(report) {
        text.push_str(&format!("note: {}\n", warning.replace('`', "")));
    }
    if let Some(found) = &report.figures.recommendation {
        text.push('\n');
        for (name, words) in recommendation_lines(found) {
            text.push_str(&format!("{name:<13} {}\n", words.replace('`', "")));
        }
    }
    text
}

/// Columns side by side; the first to the left, the others to the right.
fn aligned(columns: &[(&str, Vec<String>)]) -> String {
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    let widths: Vec<usize> = columns
        .iter()
        .map(|(name, cells)| {
            cells.iter().map(|cell| cell.chars().count()).chain([name.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in 0..=rows {
        let mut line = String::new();
        for (index, ((name, cells), width)) in columns.iter().zip(&widths).enumerate() {
            let cell = if row == 0 { name } else { cells.get(row - 1).map_or("", String::as_str) };
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            match index {
                0 => line.push_str(&format!("{cell}{blanks}")),
                _ => line.push_str(&format!("  {blanks}{cell}")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
