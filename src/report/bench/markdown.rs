//! Markdown, to be pasted into an issue.

use super::metrics::METRICS;
use super::phrases::{NOTHING, circumstances, columns_by_total, recommendation_lines, spread, warnings};
use super::results::BenchReport;
use crate::report::shown_in_line;

/// The comparison as Markdown: the short table, the recommendation, and every metric folded away below.
pub fn markdown(report: &BenchReport) -> String {
    let mut text = String::from("## Presets compared\n\n");
    for (name, value) in circumstances(report) {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    text.push('\n');
    let columns = columns_by_total(report, true);
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    let headings: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let row = |index: usize| {
        columns.iter().map(|(_, cells)| cells.get(index).map_or(String::new(), |cell| escape(cell))).collect()
    };
    table(&mut text, &headings, (0..rows).map(row));
    text.push_str(&format!(
        "\nMedians. The reference is `{}`. A ratio is that of total times to the reference, taken round by round; in brackets its 95 % interval (Student's t \
         over the logarithms).\n",
        shown_in_line(&report.figures.reference)
    ));
    let warnings = warnings(report);
    if !warnings.is_empty() {
        text.push('\n');
        warnings.iter().for_each(|warning| text.push_str(&format!("- note: {warning}\n")));
    }
    if let Some(found) = &report.figures.recommendation {
        text.push_str("\n### Recommendation\n\n");
        recommendation_lines(found).iter().for_each(|(name, words)| text.push_str(&format!("- **{name}**: {words}\n")));
    }
    text.push_str("\n<details><summary>Every metric</summary>\n\n");
    let variants = &report.figures.variants;
    let headings: Vec<String> =
        std::iter::once("metric".to_owned()).chain(variants.iter().map(|it| escape(&it.variant))).collect();
    let measured = METRICS.iter().filter(|metric| variants.iter().any(|it| it.metrics.contains_key(metric.key)));
    let rows = measured.map(|metric| {
        let cells =
            variants.iter().map(|it| it.metrics.get(metric.key).map_or(NOTHING.into(), |it| spread(metric, it)));
        std::iter::once(metric.label.to_owned()).chain(cells).collect()
    });
    table(&mut text, &headings, rows);
    text.push_str("\nMedians, and the range in brackets.\n\n</details>\n");
    text
}

fn table(text: &mut String, headings: &[String], rows: impl Iterator<Item = Vec<String>>) {
    text.push_str(&format!("| {} |\n", headings.join(" | ")));
    text.push_str(&format!("|---|{}\n", "--:|".repeat(headings.len().saturating_sub(1))));
    rows.for_each(|row| text.push_str(&format!("| {} |\n", row.join(" | "))));
}

fn escape(cell: &str) -> String {
    shown_in_line(cell).replace('|', "\\|").replace('<', "&lt;")
}
