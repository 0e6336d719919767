//! `bedload clean`: removes leftovers of unfinished imports.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use crate::Error;
use crate::error::StateKind;
use crate::load::leftovers;
use crate::progress::CancellationToken;
use crate::report::CleanReport;

use crate::cli::globals::Globals;
use crate::cli::render::{self, screen};
use crate::cli::{output, signals};

/// Remove leftovers of unfinished imports
///
/// Finds the directories NAME.partial of unfinished imports and seeds, and their partitions in work directories. It
/// searches DIR; DIR may also be a NAME.partial, or the name of a database. Directories of running imports and of other
/// programs are kept. Without --yes it asks for confirmation, on a terminal only.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload clean /data --dry-run")]
pub struct Args {
    /// Directory of databases, or the name of one
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// List what would be removed, and stop
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Remove without asking
    #[arg(short, long, conflicts_with = "dry_run")]
    pub yes: bool,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let stop = CancellationToken::default();
    signals::cancel_on_signals(&stop, || "run the same command again; it resumes".into())?;
    let mut report = leftovers::find(&args.dir)?;
    if report.found.is_empty() && !args.dir.is_dir() {
        let reason = "is neither a directory nor the name of an unfinished import";
        let hint = "pass the directory that contains the databases, or the --db of an import";
        return Err(Error::state(&args.dir, StateKind::NoDatabase, reason, hint).into());
    }
    if args.dry_run {
        return print(&report, globals);
    }
    let has_any = report.found.iter().any(|found| found.kept.is_none());
    if has_any && !args.yes && !is_confirmed(&report, &stop)? {
        return Ok(());
    }
    let removed = leftovers::remove(&mut report, &stop);
    print(&report, globals)?;
    removed?;
    let kept = report.found.iter().filter(|found| found.kept.is_some()).count();
    if kept == 0 {
        return Ok(());
    }
    let reason = format!("{kept} of {} unfinished imports are kept", report.found.len());
    let hint = "the reasons are above: finish these imports, or stop the programs that use them";
    Err(output::Reported(Error::state(&args.dir, StateKind::Other, reason, hint)).into())
}

fn is_confirmed(report: &CleanReport, stop: &CancellationToken) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let reason = "refusing to remove anything without confirmation: not a terminal";
        return Err(Error::usage(reason, "run it with --dry-run, then with --yes").into());
    }
    let shown = screen::fit(&crate::report::shown(&render::clean::text(report)), 2, screen::stderr_columns());
    write!(io::stderr(), "{shown}Remove this? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    stop.check(|| Error::Interrupted { hint: "nothing was removed; run it again".into() })?;
    let is_yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    if !is_yes {
        writeln!(io::stderr(), "nothing was removed")?;
    }
    Ok(is_yes)
}

fn print(report: &CleanReport, globals: &Globals) -> anyhow::Result<()> {
    output::print(report, &render::clean::text(report), 2, globals)
}
