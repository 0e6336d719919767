//! `bedload verify`: is a database sound?

use std::path::PathBuf;

use bedload::report::{KeyFrom, VerifyReport, shown_in_line};
use bedload::size::human;
use bedload::sort::key::KeyLayout;
use bedload::source::car::NullPadding;
use bedload::{Error, VerifyOptions};

use super::shared::{LocationArgs, ResourceArgs, advice};
use super::{Globals, bars, import, screen};

/// Check a database: files, every value against its key, and the whole against its record or its source
///
/// Reads every block of every file once and changes nothing; a node may go on using the database. Ends with exit code 3
/// when anything is wrong, and lists the first ten problems.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload verify --db /data/blocks --against snapshot.forest.car.zst")]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Check only so many records, picked at random, instead of all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "against")]
    pub sample: Option<u64>,
    /// Compare with a snapshot, record by record, in both directions
    #[arg(long, value_name = "SNAPSHOT")]
    pub against: Option<PathBuf>,
    /// What null padding in that snapshot means: damage, or the end; the default is what the import took it for
    #[arg(long, value_name = "MEANING", value_parser = import::null_padding(), requires = "against")]
    pub null_padding: Option<NullPadding>,

    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub location: LocationArgs,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    if args.against.is_none() && (args.resources.memory.is_some() || args.resources.work_dir.is_some()) {
        return Err(Error::Usage {
            reason: "--memory and --work-dir are for the comparison with a snapshot".into(),
            hint: "leave them out, or name the snapshot with --against".into(),
        }
        .into());
    }
    let mut options = VerifyOptions::new(&args.db);
    options.sample = args.sample;
    options.against.clone_from(&args.against);
    options.null_padding = args.null_padding;
    options.resources = args.resources.resources()?;
    options.location = args.location.location();
    let observer = bars::renderer(globals);
    let outcome = bedload::verify_db(&options, observer.as_ref());
    observer.finish();
    let report = outcome?;
    if globals.json {
        super::print_json(&report)?;
    } else if !globals.quiet || !report.sound {
        screen::print(&summary(&report), 10)?;
    }
    if report.sound {
        return Ok(());
    }
    let total = report.problems.total;
    Err(Error::Unsound {
        action: "verify",
        path: args.db.clone(),
        problems: if total == 1 { "1 problem".into() } else { format!("{total} problems") },
        hint: "import the snapshot again into another --db; if it happens again, look at the disk (dmesg, smartctl)"
            .into(),
    }
    .into())
}

/// The result for people.
fn summary(report: &VerifyReport) -> String {
    let rate = human((report.payload_bytes as f64 / report.seconds.max(0.001)) as u64);
    let mut lines = vec![("database", report.db.clone())];
    let record = match &report.recorded {
        Some(recorded) => {
            let part = if recorded.whole { "" } else { "; others were there before, so neither is compared" };
            format!("{} records of {}, digest {}{part}", recorded.records, recorded.source, recorded.digest)
        }
        None => "none: there is no BEDLOAD.json to compare count and digest with".into(),
    };
    lines.push(("record", record));
    let assumed = match report.key_from {
        KeyFrom::Assumed => " (assumed: nothing says what they are)",
        KeyFrom::Record | KeyFrom::Caller => "",
    };
    lines.push(("keys", format!("{}{assumed}", report.key.name())));
    let checked = match report.sample {
        None if report.key == KeyLayout::Number => format!(
            "{} blocks, {}, each against the one before it and its transactions against its merkle root; families of \
             ids against the blocks",
            report.records,
            human(report.payload_bytes)
        ),
        Some(_) => format!(
            "{} records picked at random, {}, each against its key",
            report.records,
            human(report.payload_bytes)
        ),
        None => format!("{} records, {}, each against its key", report.records, human(report.payload_bytes)),
    };
    let files = if report.sample.is_some() { "sizes" } else { "sizes, and the checksums of all blocks" };
    lines.push(("files", format!("{}, {}: {files}", report.files, human(report.file_bytes))));
    lines.push(("checked", checked));
    if let Some(digest) = &report.digest {
        lines.push(("digest", digest.to_string()));
    }
    if let Some(against) = &report.against {
        let mut text = format!(
            "{}: {} blocks, {} distinct, {} the same here",
            against.source, against.blocks, against.distinct, against.same
        );
        if against.unreadable > 0 {
            text.push_str(&format!(", {} where the database cannot be read", against.unreadable));
        }
        lines.push(("source", text));
    }
    if let Some(log) = &report.log {
        if log.unknown_operations > 0 {
            lines.push(("skipped", format!("{} blocks with operations of unknown kinds", log.unknown_operations)));
        }
        lines.push(("import", import::of_blocks(log.import_verified).to_owned()));
        if !log.not_covered.is_empty() {
            lines.push(("uncovered", log.not_covered.join("; ")));
        }
    }
    lines.push(("time", format!("{:.1} s, {rate}/s", report.seconds)));
    lines.extend(report.notes.iter().map(|note| ("note", note.clone())));
    let problems = &report.problems;
    let kinds: Vec<String> = problems.kinds.iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
    let verdict = if report.sound { "none".to_owned() } else { format!("{} ({})", problems.total, kinds.join(", ")) };
    lines.push(("problems", verdict));
    let mut text: String = lines.into_iter().map(|(name, value)| screen::row(name, 9, &value)).collect();
    for problem in &problems.first {
        text.push_str(&format!("  {}: {}\n", problem.kind.name(), shown_in_line(&problem.message)));
        for (name, value) in [("key", &problem.key), ("file", &problem.file)] {
            if let Some(value) = value {
                text.push_str(&format!("    {name} {}\n", shown_in_line(value)));
            }
        }
    }
    let unlisted = problems.total - problems.first.len() as u64;
    if unlisted > 0 {
        text.push_str(&format!("  and {unlisted} more\n"));
    }
    text.push_str(&advice(&report.warnings));
    text
}
