//! The report of `bedload bench`.

use crate::report::bench::{BenchReport, FigureTable, circumstances, figure_table, recommendation_lines, warnings};
use crate::report::{shown, shown_in_line};

use crate::cli::render::rows::row;
use crate::cli::render::screen::fit;
use crate::cli::render::table::{align_numbers, table_within, text as lines};

const NAMES: usize = 13;

/// Returns circumstances, a row for each variant, notes, and the recommendation. The table has at most `table_columns` columns; the text
/// around it has at most `columns`.
pub fn text(report: &BenchReport, columns: Option<usize>, table_columns: Option<usize>) -> String {
    let fit = |text: &str| fit(&shown(text), NAMES + 1, columns);
    let rows = |rows: Vec<(&str, String)>| -> String {
        rows.into_iter().map(|(name, value)| row(name, NAMES, &value.replace('`', ""))).collect()
    };
    let FigureTable { headings, rows: cells } = figure_table(report, false);
    let mut table = table_within(&headings, table_columns);
    table.add_rows(cells);
    align_numbers(&mut table);
    let mut notes = String::new();
    if !report.figures.reference.is_empty() {
        notes.push_str(&format!(
            "\nmedians; ratio of totals to {}, taken round by round, in brackets its 95 % interval\n",
            shown_in_line(&report.figures.reference)
        ));
    }
    for warning in warnings(report) {
        notes.push_str(&format!("note: {}\n", warning.replace('`', "")));
    }
    if let Some(found) = &report.figures.recommendation {
        notes.push('\n');
        notes.push_str(&rows(recommendation_lines(found)));
    }
    format!("{}\n{}{}", fit(&rows(circumstances(report))), lines(&table), fit(&notes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::bench::tests::report;

    #[test]
    fn table_text() {
        insta::assert_snapshot!("bench", text(&report(), None, None));
    }

    #[test]
    fn table_fits_terminal_with_fastest_first() {
        for columns in [60, 80, 100, 120] {
            let text = text(&report(), Some(columns), Some(columns));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{columns}: {text}");
        }
        let text = text(&report(), Some(100), Some(100));
        let first = |name: &str| text.lines().position(|line| line.starts_with(name)).expect("a line");
        assert!(first("ingest") < first("memtable") && first("memtable") < first("forest-unordered"), "{text}");
    }

    #[test]
    fn comparison_without_runs_is_shown() {
        let mut report = report();
        report.runs.clear();
        report.figures = crate::bench::figures::figures(&["ingest".to_owned()], "ingest", 0.05, &[]);
        assert!(text(&report, None, None).contains("\ningest"));
    }
}
