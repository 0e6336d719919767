//! `bedload walk`: follows the links of a database.

use crate::Error;
use crate::read::walk::{WalkOptions, walk};

use crate::cli::args::{DatabaseArgs, RESTARTS};
use crate::cli::globals::Globals;
use crate::cli::render::{self, numbers::counted};
use crate::cli::{output, progress, signals};

/// Follow all links from the roots, and report missing and unreachable blocks
///
/// Exits with code 3 if a required block is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload walk /data/blocks --depth tipsets=2000 --allow-missing-below 4500000")]
pub struct Args {
    #[command(flatten)]
    pub database: DatabaseArgs,
    #[command(flatten)]
    pub options: WalkOptions,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let options = args.options.clone().db(args.database.path());
    signals::cancel_on_signals(&options.resources.stop, || RESTARTS.into())?;
    let report = progress::show(globals, |observer| walk(&options, observer))?;
    output::print(&report, &render::walk::text(&report), 12, globals)?;
    if report.complete {
        return Ok(());
    }
    let lost = report.missing - report.missing_allowed;
    let hint = match options.allow_missing_below {
        None => {
            "a snapshot may omit blocks on purpose; for Filecoin's old state, --allow-missing-below EPOCH separates that from damage"
        }
        Some(_) => "the snapshot is cut or was exported with fewer state roots: compare its size with the publisher's",
    };
    Err(Error::verification_failed("walk", options.db, counted(lost, "missing block", "missing blocks"), hint).into())
}
