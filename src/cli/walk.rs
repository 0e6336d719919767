//! `bedload walk`: follow the links of a database.

use std::path::PathBuf;
use std::str::FromStr;

use bedload::Error;
use bedload::read::walk::{WalkOptions, walk};
use bedload::report::WalkReport;
use bedload::size::human;
use bedload::source::car::RawCid;

use super::shared::{LocationArgs, ResourceArgs};
use super::{Globals, bars, screen};

/// Follow links from the roots, as a node scans, and tell which blocks are missing or unreachable
///
/// Ends with exit code 3 when a block is missing that was not allowed to be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload walk --db /data/blocks --depth tipsets=2000 --allow-missing-below 4500000")]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Where to begin, may be repeated; by default as BEDLOAD.json says
    #[arg(long, value_name = "CID", value_parser = RawCid::from_str)]
    pub root: Vec<RawCid>,
    /// Follow the chain of headers over N tipsets only
    #[arg(long, value_name = "tipsets=N", value_parser = depth)]
    pub depth: Option<u32>,
    /// Blocks named by Filecoin headers below this epoch may be missing
    #[arg(long, value_name = "EPOCH")]
    pub allow_missing_below: Option<u64>,

    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub location: LocationArgs,
}

fn depth(text: &str) -> Result<u32, String> {
    let count = text.strip_prefix("tipsets=").and_then(|count| count.parse().ok());
    count.filter(|&count| count > 0).ok_or_else(|| "write it as tipsets=2000".to_owned())
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = WalkOptions::new(&args.db);
    options.roots.clone_from(&args.root);
    options.tipsets = args.depth;
    options.allow_missing_below = args.allow_missing_below;
    options.resources = args.resources.resources()?;
    options.location = args.location.location();
    let observer = bars::renderer(globals);
    let outcome = walk(&options, observer.as_ref());
    observer.finish();
    let report = outcome?;
    if globals.json {
        super::print_json(&report)?;
    } else if !globals.quiet || !report.complete {
        screen::print(&summary(&report), 12)?;
    }
    if report.complete {
        return Ok(());
    }
    let lost = report.missing - report.missing_allowed;
    let hint = match args.allow_missing_below {
        None => "a snapshot may leave out old state on purpose: --allow-missing-below EPOCH tells that from damage",
        Some(_) => "the snapshot is cut or was exported with fewer state roots: compare its size with the publisher's",
    };
    Err(Error::Unsound {
        action: "walk",
        path: args.db.clone(),
        problems: format!("{lost} missing {}", if lost == 1 { "block" } else { "blocks" }),
        hint: hint.into(),
    }
    .into())
}

/// The result for people.
fn summary(report: &WalkReport) -> String {
    let rate = report.reachable as f64 / report.seconds.max(0.001);
    let bytes = human((report.reachable_bytes as f64 / report.seconds.max(0.001)) as u64);
    let mut lines = vec![("database", report.db.clone()), ("roots", report.roots.join(", "))];
    if let Some(tipsets) = report.tipsets {
        lines.push(("limit", format!("{tipsets} tipsets")));
    }
    lines.push((
        "reachable",
        format!("{} blocks, {}, up to {} links deep", report.reachable, human(report.reachable_bytes), report.depth),
    ));
    let allowed = match report.missing_allowed {
        0 => String::new(),
        allowed => format!(", {allowed} of them allowed to be"),
    };
    lines.push(("missing", format!("{}{allowed}", report.missing)));
    let unreachable =
        report.unreachable.map_or_else(|| "not counted: the walk was limited".into(), |it| it.to_string());
    lines.push(("unreachable", unreachable));
    lines.push((
        "others",
        format!("{} sector commitments, {} identity CIDs in links only", report.commitments, report.identity),
    ));
    if report.malformed > 0 {
        lines.push(("malformed", format!("{} blocks or links that are not what their codec says", report.malformed)));
    }
    lines.push(("time", format!("{:.1} s, {rate:.0} blocks/s, {bytes}/s", report.seconds)));
    let mut text: String = lines.into_iter().map(|(name, value)| screen::row(name, 11, &value)).collect();
    for block in &report.first_missing {
        let allowed = if block.allowed { "allowed to be missing" } else { "missing" };
        let epoch = block.epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
        let parent = block.parent.as_ref().map_or_else(|| "a root".into(), |parent| format!("named by {parent}"));
        text.push_str(&format!("  {allowed}: {}\n    {parent}{epoch}\n", block.cid));
    }
    for key in &report.first_unreachable {
        text.push_str(&format!("  unreachable: {key}\n"));
    }
    text
}
