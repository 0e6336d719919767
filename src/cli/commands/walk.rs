//! `bedload walk`: follow the links of a database.

use std::str::FromStr;

use crate::Error;
use crate::read::walk::{WalkOptions, walk};
use crate::source::car::RawCid;

use crate::cli::args::{DatabaseArgs, LocationArgs, ResourceArgs};
use crate::cli::globals::Globals;
use crate::cli::render::{self, numbers::counted};
use crate::cli::{output, progress};

/// Follow links from the roots, as a node scans, and report which blocks are missing or unreachable
///
/// Ends with exit code 3 when a block is missing that may not be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload walk /data/blocks --depth tipsets=2000 --allow-missing-below 4500000")]
pub struct Args {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Root to begin at, may be repeated; the default is in BEDLOAD.json
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
    let mut options = WalkOptions::new(args.database.path());
    options.roots.clone_from(&args.root);
    options.tipsets = args.depth;
    options.allow_missing_below = args.allow_missing_below;
    options.resources = args.resources.resources()?;
    options.location = args.location.location();
    let report = progress::show(globals, |observer| walk(&options, observer))?;
    output::print(&report, &render::walk::text(&report), 12, globals)?;
    if report.complete {
        return Ok(());
    }
    let lost = report.missing - report.missing_allowed;
    let hint = match args.allow_missing_below {
        None => "a snapshot may leave out old state on purpose: --allow-missing-below EPOCH separates that from damage",
        Some(_) => "the snapshot is cut or was exported with fewer state roots: compare its size with the publisher's",
    };
    Err(Error::VerificationFailed {
        action: "walk",
        path: args.database.path().to_owned(),
        problems: counted(lost, "missing block", "missing blocks"),
        hint: hint.into(),
    }
    .into())
}
