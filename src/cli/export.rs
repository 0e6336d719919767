//! `bedload export`: back from a database to a snapshot.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bedload::Error;
use bedload::read::export::{ExportOptions, Format, Selection, export, export_to};
use bedload::report::{ExportReport, ExportedLog, shown, shown_json};
use bedload::size::human;
use bedload::source::car::RawCid;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::shared::{LocationArgs, ResourceArgs};
use super::{Globals, bars, screen};

/// Write the blocks of a database into a snapshot
///
/// By default what the roots lead to, in the order in which nodes write their snapshots; of a block log, all blocks. The
/// file appears under its name only when it is complete; blocks that are linked to and missing end with exit code 3,
/// unless the database never held more than what is written.
///
/// A block log that was one file of raw blocks comes back byte for byte. Hive's packed blocks come back raw, parts as one
/// log, a pruned log as one that begins later: the same blocks with the same ids, and the summary says what differs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload export --db /data/blocks snapshot.forest.car.zst")]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// File to write, or `-` for standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where to begin, may be repeated; by default as BEDLOAD.json says
    #[arg(long, value_name = "CID", value_parser = RawCid::from_str, help_heading = "Blocks")]
    pub root: Vec<RawCid>,
    /// Every record, in the order of keys
    #[arg(long, conflicts_with = "cids", help_heading = "Blocks")]
    pub all: bool,
    /// These blocks: a file with one CID a line, or `-`
    #[arg(long, value_name = "FILE", help_heading = "Blocks")]
    pub cids: Option<PathBuf>,
    /// Write the file even when blocks are missing
    #[arg(long, help_heading = "Blocks")]
    pub allow_missing: bool,
    /// Blocks named below this epoch may be missing
    #[arg(long, value_name = "EPOCH", conflicts_with_all = ["all", "cids"], help_heading = "Blocks")]
    pub allow_missing_below: Option<u64>,

    /// First block of a block log
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Blocks")]
    pub from: Option<u32>,
    /// Last block of a block log
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Blocks")]
    pub to: Option<u32>,

    /// car, car.zst, forest.car.zst; log, log.zst; by default what the file's name ends in
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, value_parser = format_parser(), help_heading = "File")]
    pub format: Option<Format>,
    /// Replace the file if it exists
    #[arg(long, help_heading = "File")]
    pub force: bool,
    /// Write the report to a file as JSON
    #[arg(long, value_name = "FILE", help_heading = "File")]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub location: LocationArgs,
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::ALL.into_iter().find(|format| format.name() == name).unwrap_or_default())
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let to_stdout = args.file == Path::new("-");
    if to_stdout && io::stdout().is_terminal() {
        return Err(super::no_terminal());
    }
    let mut options = ExportOptions::new(&args.db);
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
    options.location = args.location.location();
    options.resources = args.resources.resources()?;
    let report_file = super::ReportFile::create(args.report.as_deref())?;
    let observer = bars::renderer(globals);
    let outcome = if to_stdout {
        export_to(&options, &mut io::stdout(), observer.as_ref())
    } else {
        export(&options, &args.file, observer.as_ref())
    };
    observer.finish();
    let report = outcome?;
    let done = match report.published {
        true => format!("the snapshot {} is complete", report.file),
        false => format!("{} is read to its end", report.db),
    };
    super::after(done, "use the snapshot as it is; `bedload inspect` tells what is in it", || {
        report_file.write(&report)?;
        // Standard output has the snapshot then, and nothing else.
        let mut out: Box<dyn Write> = if to_stdout { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
        if globals.json {
            writeln!(out, "{}", shown_json(&serde_json::to_string_pretty(&report)?))?;
        } else if !globals.quiet || !report.complete {
            let columns = if to_stdout { screen::stderr_columns() } else { screen::stdout_columns() };
            write!(out, "{}", screen::fit(&shown(&summary(&report)), 10, columns))?;
        }
        Ok(())
    })?;
    if report.complete || args.allow_missing {
        return Ok(());
    }
    let lost = report.missing - report.missing_allowed;
    Err(Error::Unsound {
        action: "export",
        path: args.db.clone(),
        problems: format!("{lost} missing {}", if lost == 1 { "block" } else { "blocks" }),
        hint: "bedload walk tells what is missing; --allow-missing writes the file all the same".into(),
    }
    .into())
}

/// The result for people.
fn summary(report: &ExportReport) -> String {
    let rate = human((report.payload_bytes as f64 / report.seconds.max(0.001)) as u64);
    let whole = match report.all_records {
        Some(true) => ", all that the import wrote",
        Some(false) | None => "",
    };
    let file = match (report.published, report.file.as_str()) {
        (_, "-") => "standard output".into(),
        (true, file) => file.to_owned(),
        (false, file) => format!("{file} was not written: blocks are missing"),
    };
    let mut lines = vec![
        ("database", report.db.clone()),
        ("file", file),
        (
            "format",
            format!("{}, {} ({} before compression)", report.format, human(report.bytes), human(report.car_bytes)),
        ),
    ];
    match &report.log {
        Some(log) => lines.extend(of_log(log, report.bytes != report.car_bytes)),
        None => lines.push(("roots", if report.roots.is_empty() { "none".into() } else { report.roots.join(", ") })),
    }
    lines.push(("blocks", format!("{}, {}{whole}", report.blocks, human(report.payload_bytes))));
    lines.push(("digest", report.digest.to_string()));
    if report.missing > 0 {
        let allowed = match report.missing_allowed {
            0 => String::new(),
            allowed => format!(", {allowed} of them allowed to be"),
        };
        lines.push(("missing", format!("{}{allowed}", report.missing)));
    }
    if report.malformed > 0 {
        lines.push(("malformed", format!("{} blocks that are not what their codec says", report.malformed)));
    }
    lines.push(("time", format!("{:.1} s, {rate}/s", report.seconds)));
    let mut text: String = lines.into_iter().map(|(name, value)| screen::row(name, 9, &value)).collect();
    for block in &report.first_missing {
        let from = block.parent.as_ref().map(|parent| format!(", named by {parent}")).unwrap_or_default();
        let epoch = block.epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
        text.push_str(&format!("  missing: {}{from}{epoch}\n", block.cid));
    }
    text
}

/// What the summary says about a block log.
fn of_log(log: &ExportedLog, packed: bool) -> [(&'static str, String); 3] {
    let version = if log.version > 0 { format!(" version {}", log.version) } else { String::new() };
    let same = if log.identical {
        format!("{}byte for byte the log that was imported", if packed { "unpacked, " } else { "" })
    } else {
        format!("the same blocks as in the log that was imported; {}", log.differs.join("; "))
    };
    [
        ("chain", format!("{}{version}, blocks {} to {}", log.family, log.first.number, log.last.number)),
        ("head", format!("{} {}", log.last.number, log.last.id)),
        ("original", same),
    ]
}
