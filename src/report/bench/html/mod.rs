//! One page without any other file and without a script: for the phone, for the printer, by day and by night.
//!
//! Everything is drawn from the run whose wall time is the median one; figures are medians of all runs. Charts are many
//! small ones, each with the reference's curve in grey, instead of one with twenty colours.

mod chart;
mod sections;

use super::phrases::{circumstances, columns, recommendation_lines, warnings};
use super::results::BenchReport;
use crate::report::shown;

/// The comparison as a page.
pub fn html(report: &BenchReport) -> String {
    let title = "Presets compared";
    let snapshot = report.snapshot.path.rsplit('/').next().unwrap_or(&report.snapshot.path);
    let mut page = String::with_capacity(64 << 10);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str(&format!("<title>bedload: {title} on {}</title>\n<style>\n", escape(snapshot)));
    page.push_str(include_str!("style.css"));
    page.push_str("</style>\n</head>\n<body>\n<header>\n");
    page.push_str(&format!(
        "<h1>{title}</h1>\n<p class=\"lead\">{}</p>\n</header>\n<main>\n",
        code(&format!("`{snapshot}`"))
    ));
    page.push_str(&recommendation(report));
    page.push_str(&facts(report));
    page.push_str(&overview(report));
    page.push_str(&sections::phases(report));
    page.push_str(&sections::throughput(report));
    page.push_str(&sections::memory(report));
    page.push_str(&sections::latency(report));
    page.push_str(&sections::every_metric(report));
    page.push_str(&sections::options(report));
    let versions = &report.machine.versions;
    page.push_str(&format!(
        "</main>\n<footer class=\"note\">bedload {}, RocksDB {}. Ratios are taken within each round; their 95 % interval is \
         Student’s t over the logarithms. A run is called far out beyond 3.5 scaled median deviations.</footer>\n</body>\n</html>\n",
        escape(&versions.bedload),
        escape(&versions.rocksdb)
    ));
    page
}

fn recommendation(report: &BenchReport) -> String {
    let Some(found) = &report.figures.recommendation else { return String::new() };
    let mut text = String::from("<section class=\"cards\" aria-label=\"Recommendation\">\n");
    text.push_str(&format!(
        "<div class=\"card choice\"><p class=\"what\">use by default</p><p class=\"name\">{}</p><p class=\"note\">{}</p><p \
         class=\"note\">{}</p></div>\n",
        escape(&found.default),
        code(&found.reason),
        code(&found.trade_off)
    ));
    for (what, words) in recommendation_lines(found).into_iter().skip(2) {
        let (name, rest) = words.strip_prefix('`').and_then(|words| words.split_once("`, ")).unwrap_or(("", &words));
        text.push_str(&format!(
            "<div class=\"card\"><p class=\"what\">{what}</p><p class=\"name\">{}</p><p class=\"note\">{}</p></div>\n",
            escape(name),
            code(rest)
        ));
    }
    text.push_str("</section>\n");
    text
}

fn facts(report: &BenchReport) -> String {
    let mut text = String::from("<dl class=\"facts\">\n");
    for (name, value) in circumstances(report) {
        text.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escape(&value)));
    }
    text.push_str("</dl>\n");
    let warnings = warnings(report);
    if !warnings.is_empty() {
        text.push_str("<ul class=\"notes\">\n");
        warnings.iter().for_each(|warning| text.push_str(&format!("<li>{}</li>\n", code(warning))));
        text.push_str("</ul>\n");
    }
    text
}

fn overview(report: &BenchReport) -> String {
    let columns = columns(report);
    let mut text = format!(
        "<section>\n<h2>Figures</h2>\n<p class=\"note\">Medians; in brackets the 95 % interval of a ratio. The reference is \
         <code>{}</code>.</p>\n",
        escape(&report.figures.reference)
    );
    let headings: Vec<String> = columns.iter().map(|(name, _)| escape(name)).collect();
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    let chosen = report.figures.recommendation.as_ref().map(|found| found.default.as_str());
    let rows = (0..rows).map(|row| {
        let cells: Vec<String> =
            columns.iter().filter_map(|(_, cells)| cells.get(row)).map(|cell| with_range(cell)).collect();
        let name = columns.first().and_then(|(_, cells)| cells.get(row));
        (cells, name.is_some_and(|name| Some(name.as_str()) == chosen))
    });
    text.push_str(&table(&headings, rows));
    text.push_str("</section>\n");
    text
}

/// A table in a box that scrolls by itself; each row with whether it is the chosen one. Cells are HTML already.
fn table(headings: &[String], rows: impl Iterator<Item = (Vec<String>, bool)>) -> String {
    let mut text = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    headings.iter().for_each(|heading| text.push_str(&format!("<th scope=\"col\">{heading}</th>")));
    text.push_str("</tr></thead>\n<tbody>\n");
    for (cells, chosen) in rows {
        text.push_str(if chosen { "<tr class=\"choice\">" } else { "<tr>" });
        cells.iter().for_each(|cell| text.push_str(&format!("<td>{cell}</td>")));
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
    text
}

/// What stands in brackets steps back.
fn with_range(cell: &str) -> String {
    match cell.split_once(" (") {
        Some((middle, range)) => format!("{} <span class=\"range\">({}</span>", escape(middle), escape(range)),
        None => escape(cell),
    }
}

/// Text for a page.
fn escape(text: &str) -> String {
    shown(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Text in which backquotes mark names.
fn code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { escape(part) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_marked_and_nothing_gets_out_of_its_place() {
        assert_eq!(code("use `a<b`, not \"c\" & d"), "use <code>a&lt;b</code>, not &quot;c&quot; &amp; d");
        assert_eq!(with_range("1.20 (1.00 to 1.40)"), "1.20 <span class=\"range\">(1.00 to 1.40)</span>");
    }
}
