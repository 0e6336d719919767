//! CSV (RFC 4180): a line for each run, a column for each metric, raw numbers.

use super::metrics::METRICS;
use super::results::BenchReport;
use crate::report::shown;

/// All runs, warm-up and failed ones too; empty where nothing was measured.
pub fn csv(report: &BenchReport) -> String {
    let mut text = String::from("variant,round,position,warmup,error");
    METRICS.iter().for_each(|metric| {
        text.push(',');
        text.push_str(metric.key);
    });
    text.push_str("\r\n");
    for run in &report.runs {
        let error = run.failure.as_ref().map_or(String::new(), |failure| quoted(&failure.error));
        text.push_str(&format!("{},{},{},{},{error}", quoted(&run.variant), run.round, run.position, run.warmup));
        for metric in METRICS {
            text.push(',');
            if let Some(value) = metric.of(run) {
                text.push_str(&value.to_string());
            }
        }
        text.push_str("\r\n");
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
    fn cells_that_need_it_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"no\"\nnow"), "\"say \"\"no\"\"\nnow\"");
    }
}
