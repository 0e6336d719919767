//! Markdown, to be pasted into an issue.

use super::phrases::{FigureTable, cell, circumstances, figure_table, recommendation_lines, warnings};
use super::results::BenchReport;
use crate::report::shown_in_line;

/// Returns the table, the recommendation, and every metric in a folded section.
pub fn markdown(report: &BenchReport) -> String {
    let mut text = String::from("## Presets compared\n\n");
    for (name, value) in circumstances(report) {
        let value = if name == "command" { code(&value) } else { escape(&value) };
        text.push_str(&format!("- {name}: {value}\n"));
    }
    text.push('\n');
    let FigureTable { headings, rows } = figure_table(report, true);
    table(&mut text, &headings, rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()));
    text.push_str(&format!(
        "\nMedians. The reference is {}. A ratio is that of total times to the reference, taken round by round; in brackets its 95 % interval (Student's t \
         over the logarithms).\n",
        code(&shown_in_line(&report.figures.reference))
    ));
    let warnings = warnings(report);
    if !warnings.is_empty() {
        text.push('\n');
        warnings.iter().for_each(|warning| text.push_str(&format!("- note: {}\n", escape_outside_code(warning))));
    }
    if let Some(found) = &report.figures.recommendation {
        text.push_str("\n### Recommendation\n\n");
        recommendation_lines(found)
            .iter()
            .for_each(|(name, words)| text.push_str(&format!("- **{name}**: {}\n", escape_outside_code(words))));
    }
    text.push_str("\n<details><summary>Every metric</summary>\n\n");
    let variants = &report.figures.variants;
    let names: Vec<String> = variants.iter().map(|it| escape(&it.variant)).collect();
    let headings: Vec<&str> = std::iter::once("metric").chain(names.iter().map(String::as_str)).collect();
    let rows = report.figures.measured().map(|metric| {
        std::iter::once(metric.label.to_owned()).chain(variants.iter().map(|it| cell(metric, it))).collect()
    });
    table(&mut text, &headings, rows);
    text.push_str("\nMedians, and the range in brackets.\n\n</details>\n");
    text
}

fn table(text: &mut String, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    text.push_str(&format!("| {} |\n", headings.join(" | ")));
    text.push_str(&format!("|---|{}\n", "--:|".repeat(headings.len().saturating_sub(1))));
    rows.for_each(|row| text.push_str(&format!("| {} |\n", row.join(" | "))));
}

/// Escapes Markdown, HTML and control characters. Underscores inside of words are no Markdown.
fn escape(text: &str) -> String {
    let text = shown_in_line(text);
    let mut escaped = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let is_in_word = before.is_alphanumeric() && chars.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' => escaped.extend(['\\', c]),
            '_' if !is_in_word => escaped.extend(['\\', c]),
            _ => escaped.push(c),
        }
        before = c;
    }
    escaped
}

/// Escapes a sentence. Names in backticks stay code.
fn escape_outside_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let is_paired = parts.len() % 2 == 1 && !text.contains("``");
    if !is_paired {
        return escape(text);
    }
    let parts = parts.iter().enumerate().map(|(at, part)| match at % 2 {
        0 => escape(part),
        _ => code(&shown_in_line(part)),
    });
    parts.collect()
}

/// Formats a text as code. The fence is longer than every run of backticks in the text.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_escapes_names() {
        for (text, expected) in [
            ("[x](javascript:1) *a* _b_", r"\[x\](javascript:1) \*a\* \_b\_"),
            ("<img src=x>|`a`", r"&lt;img src=x>\|\`a\`"),
            ("a\u{1b}[2J\n# b", r"a\\u{1b}\[2J\\u{a}# b"),
            ("node.write_buffer_size=64M & more", "node.write_buffer_size=64M &amp; more"),
        ] {
            assert_eq!(escape(text), expected);
        }
        for (text, expected) in [
            ("`a_*b*` is *fast*", r"`a_*b*` is \*fast\*"),
            ("`a`<b>` is fast", r"\`a\`&lt;b>\` is fast"),
            ("``a`` is fast", r"\`\`a\`\` is fast"),
        ] {
            assert_eq!(escape_outside_code(text), expected);
        }
        for (text, expected) in [("a *b*", "`a *b*`"), ("a ``b` c", "```a ``b` c```"), ("`", "`` ` ``")] {
            assert_eq!(code(text), expected);
        }
    }
}
