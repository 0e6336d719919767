//! CSV (RFC 4180): a line for each run, a column for each metric, raw numbers.

use super::metrics::METRICS;
use super::results::BenchReport;
use crate::report::shown;

/// Returns all runs, those that warm up or failed included. A cell without a measurement is empty.
pub fn csv(report: &BenchReport) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\r\n";
    let keys = METRICS.iter().map(|metric| metric.key);
    let mut text =
        line(["variant", "round", "position", "warmup", "error"].into_iter().chain(keys).map(str::to_owned).collect());
    for run in &report.runs {
        let error = run.failure.as_ref().map_or(String::new(), |failure| quoted(&failure.error));
        let first =
            [quoted(&run.variant), run.round.to_string(), run.position.to_string(), run.warmup.to_string(), error];
        let values = METRICS.iter().map(|metric| metric.of(run).map_or(String::new(), |value| value.to_string()));
        text.push_str(&line(first.into_iter().chain(values).collect()));
    }
    text
}

fn quoted(text: &str) -> String {
    let text = shown(text);
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_cells_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"no\"\nnow"), "\"say \"\"no\"\"\nnow\"");
    }
}
