//! `bedload verify`: verifies a database.

use std::path::PathBuf;

use crate::report::{KeyFrom, ProblemKind, VerifyReport, VerifyVerdict};
use crate::sort::key::KeyLayout;
use crate::{Error, VerifyOptions};

use crate::cli::args::{DatabaseArgs, NetworkArgs, RESTARTS};
use crate::cli::globals::Globals;
use crate::cli::output::{self, CommandError};
use crate::cli::render::{self, numbers::counted, screen};
use crate::cli::{progress, signals, source_list};

/// Check a database: its files, every value against its key, and all records against the import's record or the
/// snapshot
///
/// Reads every block of every file once and changes nothing; a node may keep using the database. The last line is the
/// verdict. Exits with code 3 and lists the first ten problems if anything is wrong. Exits with code 1 if a node has
/// written to the database and nothing confirms that all imported records still exist.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload verify /data/blocks --against snapshot.forest.car.zst")]
pub struct Args {
    #[command(flatten)]
    pub database: DatabaseArgs,
    #[command(flatten)]
    pub options: VerifyOptions,
    #[command(flatten)]
    pub network: NetworkArgs,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = args.options.clone().db(args.database.path());
    options.against = source_list::expand(&options.against)?.all;
    if options.against.is_empty() && (options.resources.memory.is_some() || options.resources.work_dir.is_some()) {
        let reason = "--memory and --work-dir are for the comparison with a snapshot";
        return Err(Error::usage(reason, "omit them, or name the snapshot with --against").into());
    }
    options.network = args.network.options(options.against.first().map(PathBuf::as_path))?;
    signals::cancel_on_signals(&options.resources.stop, || RESTARTS.into())?;
    let report = progress::show(globals, |observer| crate::verify(&options, observer))?;
    if globals.json {
        output::print_json(&report)?;
    } else {
        screen::print(&render::verify::text(&report), 10)?;
        let color = match report.verdict {
            _ if !globals.has_color(&std::io::stdout()) => "",
            VerifyVerdict::Damaged | VerifyVerdict::Differs => "\x1b[1;31m",
            VerifyVerdict::Confirmed => "\x1b[1;32m",
            _ => "\x1b[1;33m",
        };
        screen::print_colored(&render::verify::verdict(&report), 10, color)?;
    }
    if report.valid {
        return check_confirmed(&report, &options);
    }
    let problems = counted(report.problems.total, "problem", "problems");
    Err(Error::verification_failed("verify", options.db, problems, hint(&report)).into())
}

/// Fails if imported records may be missing: a node has written to the database, and nothing confirms the import.
fn check_confirmed(report: &VerifyReport, options: &VerifyOptions) -> anyhow::Result<()> {
    let is_whole = report.recorded.as_ref().is_some_and(|recorded| recorded.whole);
    match &report.not_confirmed {
        Some(reason) if is_whole && report.sample.is_none() && !options.allow_extra => {
            let message = format!("verify {}: intact but not confirmed: {reason}", options.db.display());
            let hint = "--against SOURCE --allow-extra compares it with what it was imported from; --allow-extra alone accepts \
                        records that a program has added";
            Err(CommandError { message, hint: hint.into(), source: None, has_report: true }.into())
        }
        _ => Ok(()),
    }
}

/// True if deleted records, or replaced ones, cause such a problem.
fn is_deletion(kind: ProblemKind) -> bool {
    use ProblemKind::{Count, Digest, Extra, Index, Link, Missing};
    matches!(kind, Count | Digest | Missing | Extra | Link | Index)
}

fn hint(report: &VerifyReport) -> String {
    use ProblemKind::{Function, Hash, Key};
    let kinds = &report.problems.kinds;
    let only = |kind| kinds.len() == 1 && kinds.contains_key(&kind);
    match &report.recorded {
        Some(recorded) if kinds.contains_key(&ProblemKind::Source) => {
            format!(
                "give --against what the database was imported from (several sources in their order): {}; if that is what you gave, it \
                 has changed since",
                recorded.source
            )
        }
        _ if only(ProblemKind::Extra) => {
            "a program or an earlier import may have written these records: --allow-extra accepts them".into()
        }
        known if report.key == KeyLayout::Any && (known.is_some() || report.against.is_some()) => {
            let can_compare = known.is_some() && report.against.is_none();
            let which = if can_compare { "--against SOURCE lists the records that differ; " } else { "" };
            format!("{which}import the source again into another --db, unless a program was to write to it; check the disk (dmesg)")
        }
        None if report.key == KeyLayout::Any => {
            "open it once with its program; if that fails, restore it from a backup, and check the disk (dmesg, smartctl)".into()
        }
        _ if report.key_from == KeyFrom::Assumed && kinds.keys().all(|kind| matches!(kind, Key | Hash | Function)) => {
            "nothing says that these records are blocks: give --key any if they are not; otherwise import the snapshot again into \
             another --db"
                .into()
        }
        // All files match their checksums, and all remaining records match their keys.
        _ if kinds.keys().all(|kind| is_deletion(*kind)) && !only(ProblemKind::Index) => {
            let can_compare = report.against.is_none() && report.log.is_none();
            let which = if can_compare { " (--against SNAPSHOT lists them)" } else { "" };
            format!(
                "a program has deleted records{which}: no file is damaged, so it is not the disk; find the program, and import \
                 the snapshot again into another --db"
            )
        }
        _ => {
            "import the snapshot again into another --db; if it happens again, check the disk (dmesg, smartctl)".into()
        }
    }
}
