//! The order of the rows of the table by each column, so that a page without a script can be sorted.

use super::super::figures::VariantFigures;
use super::super::metrics::{Better, metric};
use super::super::phrases::total_key;
use super::super::results::BenchReport;

/// A column by which rows can be sorted: its place in the table and the place that each row takes, the best first.
pub(super) struct Order {
    pub column: usize,
    pub places: Vec<usize>,
    /// Whether the page begins with it.
    pub is_first: bool,
}

/// The columns of these headings that have an order.
pub(super) fn orders(report: &BenchReport, headings: &[&str]) -> Vec<Order> {
    let first = if headings.contains(&"total") { "total" } else { "preset" };
    let orders = headings.iter().enumerate().filter_map(|(column, heading)| {
        let places = places(&keys(report, heading)?);
        Some(Order { column, places, is_first: *heading == first })
    });
    orders.collect()
}

/// What a column is sorted by: lower is better; what was not measured comes last.
fn keys(report: &BenchReport, heading: &str) -> Option<Vec<f64>> {
    let metric_key = match heading {
        "total" => "total_seconds",
        "import" => "import_seconds",
        "compact" => "compact_seconds",
        "scan" => "scan_seconds",
        "CPU" => "cpu_seconds",
        "peak memory" | "memory" => "peak_rss_bytes",
        "size" => "disk_bytes",
        "written / payload" => "write_amplification",
        "lookups" => "lookups_per_second",
        "node" => "node_per_second",
        _ => "",
    };
    let of_metric = |it: &VariantFigures| {
        let sign = if metric(metric_key)?.better == Better::Higher { -1.0 } else { 1.0 };
        Some(sign * it.median(metric_key)?)
    };
    let to_reference = |it: &VariantFigures| match &it.to_reference {
        None => Some(1.0),
        Some(comparison) => Some(comparison.ratios.get(total_key(report))?.ratio),
    };
    let all = report.figures.variants.iter();
    let or_last = |key: Option<f64>| key.unwrap_or(f64::INFINITY);
    match heading {
        "preset" => Some((0..report.figures.variants.len()).map(|index| index as f64).collect()),
        "wall / cp" => Some(all.map(|it| or_last(it.to_copy.as_ref().map(|it| it.ratio))).collect()),
        "total / reference" | "ratio" => Some(all.map(|it| or_last(to_reference(it))).collect()),
        _ if !metric_key.is_empty() => Some(all.map(|it| or_last(of_metric(it))).collect()),
        _ => None,
    }
}

/// The place of each key among all; equal ones keep their order.
fn places(keys: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]));
    let mut places = vec![0; keys.len()];
    order.into_iter().enumerate().for_each(|(place, index)| places[index] = place);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_place_of_its_own() {
        assert_eq!(places(&[3.0, 1.0, f64::INFINITY, 1.0]), [2, 0, 3, 1]);
    }
}
