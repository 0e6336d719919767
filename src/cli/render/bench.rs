//! The report of `bedload bench`.

use crate::report::bench::{
    BenchReport, Circumstance, CompareReport, circumstances, columns_by_total, compare_rows, recommendation_lines,
    warnings,
};
use crate::report::{shown, shown_in_line};

use crate::cli::render::rows::row;
use crate::cli::render::screen::fit;
use crate::cli::render::table::{align_numbers, table_within, text as lines};

/// The width of names of lines.
const NAMES: usize = 13;

/// The comparison for people: circumstances, a line a variant, what to beware of, and the recommendation. `wide` has all
/// columns, in lines that stay whole. The table has `table_columns` at most, the text around it `columns`.
pub fn text(report: &BenchReport, wide: bool, columns: Option<usize>, table_columns: Option<usize>) -> String {
    let fit = |text: &str| fit(&shown(text), NAMES + 1, columns);
    let rows = |rows: Vec<(&str, String)>| -> String {
        rows.into_iter().map(|(name, value)| row(name, NAMES, &value.replace('`', ""))).collect()
    };
    let mut text = fit(&rows(circumstances(report)));
    text.push('\n');
    text.push_str(&table(report, wide, table_columns.filter(|_| !wide)));
    let mut behind = String::new();
    if !report.figures.reference.is_empty() {
        behind.push_str(&format!(
            "\nmedians; ratio of totals to {}, taken round by round, in brackets its 95 % interval\n",
            shown_in_line(&report.figures.reference)
        ));
    }
    for warning in warnings(report) {
        behind.push_str(&format!("note: {}\n", warning.replace('`', "")));
    }
    if let Some(found) = &report.figures.recommendation {
        behind.push('\n');
        behind.push_str(&rows(recommendation_lines(found)));
    }
    text.push_str(&fit(&behind));
    text
}

/// Two comparisons side by side: what differs besides the figures, then a line for each figure of each preset.
pub fn compared(report: &CompareReport, columns: Option<usize>) -> String {
    let draw = |header: &[&str], rows: Vec<Vec<String>>| {
        let mut table = table_within(header, columns);
        table.add_rows(rows);
        shown(&lines(&table)).into_owned()
    };
    let mut text = String::new();
    if !report.differences.is_empty() {
        let differs =
            |it: &Circumstance| vec![it.what.to_owned(), shown_in_line(&it.a).into(), shown_in_line(&it.b).into()];
        text.push_str(&draw(&["differs", "A", "B"], report.differences.iter().map(differs).collect()));
        text.push_str("\nThe ratios below are due to all that differs above, not only to presets.\n\n");
    }
    let figures = compare_rows(report).into_iter().map(Vec::from).collect();
    text.push_str(&draw(&["preset", "figure", "A", "B", "B / A"], figures));
    let mut behind = String::new();
    for (side, names) in [("A", &report.only_a), ("B", &report.only_b)] {
        if !names.is_empty() {
            behind.push_str(&format!("only in {side}: {}\n", shown_in_line(&names.join(", "))));
        }
    }
    behind.push_str("medians, in brackets the range of single runs; of a ratio what those ranges allow\n");
    text.push_str(&fit(&behind, 0, columns));
    text
}

fn table(report: &BenchReport, wide: bool, columns: Option<usize>) -> String {
    let all = columns_by_total(report, wide);
    let header: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let mut table = table_within(&header, columns);
    for row in 0..all.first().map_or(0, |(_, cells)| cells.len()) {
        table.add_row(all.iter().map(|(_, cells)| cells.get(row).map_or("", String::as_str)));
    }
    align_numbers(&mut table);
    lines(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::bench::tests::report;

    #[test]
    fn the_table_is_as_it_was() {
        insta::assert_snapshot!("bench", text(&report(), false, None, None));
        insta::assert_snapshot!("bench_wide", text(&report(), true, None, None));
    }

    #[test]
    fn table_fits_terminal_with_fastest_first() {
        for columns in [60, 80, 100, 120] {
            let text = text(&report(), false, Some(columns), Some(columns));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{columns}: {text}");
        }
        let text = text(&report(), false, Some(100), Some(100));
        let first = |name: &str| text.lines().position(|line| line.starts_with(name)).expect("a line");
        assert!(first("ingest") < first("memtable") && first("memtable") < first("forest-unordered"), "{text}");
    }

    #[test]
    fn comparison_without_runs_is_shown() {
        let mut report = report();
        report.runs.clear();
        report.figures = crate::bench::figures(&["ingest".to_owned()], "ingest", 0.05, &[]);
        assert!(text(&report, false, None, None).contains("\ningest"));
    }
}
