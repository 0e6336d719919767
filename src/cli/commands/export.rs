//! `bedload export`: writes a database as a snapshot.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::read::export::{ExportFormat, ExportOptions, Selection, export, export_to};
use crate::read::{Location, Resources};
use crate::report::{ExportReport, shown, shown_json};
use crate::source::car::RawCid;

use crate::cli::args::{RESTARTS, ReportArgs};
use crate::cli::command_line::command_line;
use crate::cli::globals::Globals;
use crate::cli::render::{self, numbers::counted, screen};
use crate::cli::{output, progress, signals, values};

/// Write the blocks of a database to a snapshot file
///
/// Exports the blocks that are reachable from the roots, in depth-first order; from a block log, all blocks. The file
/// appears under its name only when it is complete. A missing block is an error (exit code 3), unless the file contains
/// all records of the import.
///
/// A block log that was one file of raw blocks is exported byte for byte. Hive's compressed blocks are written
/// uncompressed, the parts of a log are joined, and a pruned log starts at its first remaining block. Blocks and ids
/// stay the same, and the report lists the differences.
#[derive(Debug, clap::Args)]
#[command(override_usage = "bedload export [OPTIONS] <DB> <FILE>\n       bedload export [OPTIONS] --db <DIR> <FILE>")]
#[command(after_help = "Example: bedload export /data/blocks snapshot.forest.car.zst")]
pub struct Args {
    /// The database, as an option
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// The database, unless --db names it
    #[arg(value_name = "DB")]
    pub first: Option<PathBuf>,
    /// File to write, or `-` for standard output
    #[arg(value_name = "FILE")]
    pub second: Option<PathBuf>,

    /// Root to begin at, repeatable; the default is in BEDLOAD.json
    #[arg(long, value_name = "CID", help_heading = "Blocks")]
    pub root: Vec<RawCid>,
    /// Export every record, in key order
    #[arg(long, conflicts_with = "cids", help_heading = "Blocks")]
    pub all: bool,
    /// Export the blocks listed in this file, one CID per line; `-` is standard input
    #[arg(long, value_name = "FILE", help_heading = "Blocks")]
    pub cids: Option<PathBuf>,
    /// Write the file even when blocks are missing
    #[arg(long, help_heading = "Blocks")]
    pub allow_missing: bool,
    /// Blocks linked below this epoch may be missing
    #[arg(long, value_name = "EPOCH", conflicts_with_all = ["all", "cids"], help_heading = "Blocks")]
    pub allow_missing_below: Option<u64>,

    /// First block of a block log
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Blocks")]
    pub from: Option<u32>,
    /// Last block of a block log
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Blocks")]
    pub to: Option<u32>,

    /// Format: car, car.zst, forest.car.zst, log or log.zst; by default the suffix decides
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, value_parser = values::named(ExportFormat::ALL.map(|format| (format.name(), format))), help_heading = "File")]
    pub format: Option<ExportFormat>,
    /// Replace the file if it exists
    #[arg(long, help_heading = "File")]
    pub force: bool,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub resources: Resources,
    #[command(flatten)]
    pub location: Location,
}

impl Args {
    fn split(&self) -> crate::Result<(&Path, &Path)> {
        match (&self.db, &self.first, &self.second) {
            (Some(db), Some(file), None) | (None, Some(db), Some(file)) => Ok((db, file)),
            (None, ..) | (_, None, _) => Err(Error::Usage {
                reason: "no output file is given".into(),
                hint: match self.db.as_deref().or(self.first.as_deref()).filter(|db| db.is_dir()) {
                    None => "name both, e.g. bedload export chain chain.car; `-` is standard output".into(),
                    Some(db) => command_line(
                        ["export".as_ref(), db.as_os_str(), db.with_extension("car").as_os_str()].into_iter(),
                    )
                    .into(),
                },
            }),
            (Some(db), Some(_), Some(file)) => Err(Error::Usage {
                reason: "the database is named twice".into(),
                hint: command_line(["export".as_ref(), db.as_os_str(), file.as_os_str()].into_iter()).into(),
            }),
        }
    }
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let (db, file) = args.split()?;
    let to_stdout = file == Path::new("-");
    if to_stdout && io::stdout().is_terminal() {
        return Err(output::refuse_terminal("a snapshot"));
    }
    let options = options(args, db)?;
    if to_stdout && args.report.report.as_deref() == Some(Path::new("-")) {
        let reason = "the snapshot and the report cannot both go to standard output".into();
        return Err(Error::Usage { reason, hint: "give --report a file".into() }.into());
    }
    let mut others = vec![("export", file), ("database", db)];
    others.extend(args.cids.as_deref().map(|list| ("list", list)));
    let report_file = output::ReportFile::create(&args.report, &others, globals)?;
    let outcome = progress::show(globals, |observer| match to_stdout {
        true => export_to(&options, &mut io::stdout(), observer),
        false => export(&options, file, observer),
    });
    let (report, report_file) = report_file.or_error(outcome)?;
    let done = match report.committed {
        true => format!("the snapshot {} is complete", report.file),
        false => format!("{} is read to its end", report.db),
    };
    output::report_done(done, "use the snapshot as it is; `bedload inspect` shows what is in it", || {
        report_file.write(&report, || print(&report, to_stdout, globals))
    })?;
    if report.complete || args.allow_missing {
        return Ok(());
    }
    let lost = report.missing - report.missing_allowed;
    let hint = "bedload walk lists what is missing; --allow-missing writes the file nevertheless";
    Err(Error::verification_failed("export", db.to_owned(), counted(lost, "missing block", "missing blocks"), hint)
        .into())
}

fn options(args: &Args, db: &Path) -> anyhow::Result<ExportOptions> {
    let mut options = ExportOptions::new(db);
    options.selection = match &args.cids {
        Some(path) => Selection::Listed(path.clone()),
        None if args.all => Selection::All,
        None => Selection::Linked,
    };
    options.roots.clone_from(&args.root);
    (options.from, options.to) = (args.from, args.to);
    options.format = args.format;
    options.replace = args.force;
    options.allow_missing = args.allow_missing;
    options.allow_missing_below = args.allow_missing_below;
    options.location.clone_from(&args.location);
    options.resources.clone_from(&args.resources);
    signals::cancel_on_signals(&options.resources.stop, || RESTARTS.into())?;
    Ok(options)
}

/// Prints the report, on standard error if standard output has the snapshot.
fn print(report: &ExportReport, to_stdout: bool, globals: &Globals) -> anyhow::Result<()> {
    let text = render::export::text(report);
    if !to_stdout {
        return output::print(report, &text, 10, globals);
    }
    // Beside a snapshot on standard output the report is narration.
    match globals.json {
        _ if globals.quiet && report.complete => {}
        true => writeln!(io::stderr(), "{}", shown_json(&serde_json::to_string_pretty(report)?))?,
        false => write!(io::stderr(), "{}", screen::fit(&shown(&text), 10, screen::stderr_columns()))?,
    }
    Ok(())
}
