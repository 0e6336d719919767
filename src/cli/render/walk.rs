//! The report of `bedload walk`.

use crate::report::WalkReport;
use crate::text::size::human;

use crate::cli::render::numbers::{counted, grouped, throughput, took};
use crate::cli::render::rows::Rows;

const NAMES: usize = 11;

pub fn text(report: &WalkReport) -> String {
    let mut rows = Rows::new(NAMES);
    rows.add("database", &report.db);
    rows.add("roots", report.roots.join(", "));
    rows.add_some("limit", report.tipsets.map(|tipsets| counted(tipsets.into(), "tipset", "tipsets")));
    let (blocks, depth) = (counted(report.reachable, "block", "blocks"), counted(report.depth, "link", "links"));
    rows.add("reachable", format!("{blocks}, {}, up to {depth} deep", human(report.reachable_bytes)));
    rows.add("missing", missing(report.missing, report.missing_allowed));
    rows.add("unreachable", report.unreachable.map_or_else(|| "not counted: the walk was limited".into(), grouped));
    let commitments = counted(report.commitments, "sector commitment", "sector commitments");
    let identity = counted(report.identity, "identity CID", "identity CIDs");
    rows.add("others", format!("{commitments}, {identity} that occur only in links"));
    if report.malformed > 0 {
        rows.add("malformed", malformed(report.malformed));
    }
    let rate = report.reachable as f64 / report.seconds.max(0.001);
    let bytes = throughput(report.reachable_bytes, report.seconds);
    rows.add("time", format!("{}, {} blocks/s, {bytes}", took(report.seconds), grouped(rate as u64)));
    for block in &report.first_missing {
        let allowed = if block.allowed { "allowed to be missing" } else { "missing" };
        let epoch = block.epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
        let parent = block.parent.as_ref().map_or_else(|| "a root".into(), |parent| format!("named by {parent}"));
        rows.add_lines(&format!("  {allowed}: {}\n    {parent}{epoch}\n", block.cid));
    }
    for key in &report.first_unreachable {
        rows.add_lines(&format!("  unreachable: {key}\n"));
    }
    rows.into_text()
}

/// The number of blocks and links that do not match their codec.
pub fn malformed(count: u64) -> String {
    format!("{} not match the codec", counted(count, "block or link does", "blocks or links do"))
}

/// The number of missing blocks, and of those that may be missing.
pub fn missing(missing: u64, allowed: u64) -> String {
    match allowed {
        0 => grouped(missing),
        allowed => format!("{}, {} of them allowed to be", grouped(missing), grouped(allowed)),
    }
}
