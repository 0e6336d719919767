//! `bedload import`: a snapshot becomes a database.

use std::path::PathBuf;

use bedload::chain::Id;
use bedload::load::{Format, LogOptions, PlanChoice};
use bedload::report::{ImportReport, LogReport, LogVerified, Speed};
use bedload::size::human;
use bedload::sort::key::KeyLayout;
use bedload::source::block_log::TornTail;
use bedload::source::car::{HIGHEST_MAX_BLOCK, NullPadding};
use bedload::{Error, ImportOptions, Outcome};

use super::rates::sparkline;
use super::values::Checkpoints;
use super::{Globals, bars, screen, values};

/// The most bars of the line that shows the speed over the chain.
const COLUMNS: usize = 60;

/// Load a snapshot into a new RocksDB database
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload import snapshot.forest.car.zst --db /data/blocks")]
pub struct Args {
    /// A CAR or a block log, plain or in zstd, xz, gzip or lz4; `-` is standard input
    #[arg(value_name = "SNAPSHOT")]
    pub source: PathBuf,
    /// Where the database will stand; the work lies in DIR.partial beside it
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,

    /// Memory to use; the default is half of what the machine or its cgroup has
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub memory: Option<u64>,
    /// Threads that work; the default is as the preset says, or the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where to put what does not fit in memory; the default is beside DIR
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
    /// Blocks stay in memory or are spilled to files: auto, memory or spill
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true, value_parser = plan_choice())]
    pub plan: PlanChoice,

    /// Store blocks under their cid, multihash or digest
    #[arg(long, value_name = "LAYOUT", default_value = "cid", hide_possible_values = true, value_parser = key_layout(), help_heading = "Database")]
    pub key: KeyLayout,
    /// The column family that takes the blocks
    #[arg(long, value_name = "NAME", default_value = "default", help_heading = "Database")]
    pub column_family: String,
    /// Add to a database that is already there, then compact it
    #[arg(long, help_heading = "Database")]
    pub into_existing: bool,
    /// Throw away what an earlier import left unfinished
    #[arg(long, help_heading = "Database")]
    pub restart: bool,

    /// What the source is: auto, car or block-log
    #[arg(long, value_name = "FORMAT", default_value = "auto", hide_possible_values = true, value_parser = format(), help_heading = "Source")]
    pub format: Format,
    /// Check hashes (in a log: ids, links, merkle roots), a log's ids and links alone (links), or none
    #[arg(long, value_name = "WHAT", default_value = "hash", hide_possible_values = true,
          value_parser = ["hash", "links", "none"], help_heading = "Source")]
    pub verify: String,
    /// Null padding is an error or the end (eof)
    #[arg(long, value_name = "MEANING", default_value = "error", hide_possible_values = true, value_parser = null_padding(), help_heading = "Source")]
    pub null_padding: NullPadding,
    /// The longest block that is accepted; up to 3 GiB
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, help_heading = "Source")]
    pub max_block_size: Option<u64>,

    /// Where Hive's published dictionaries are, NNNM.dict.zst
    #[arg(long, value_name = "DIR", help_heading = "Source")]
    pub dictionaries: Option<PathBuf>,
    /// A log that ends inside a block: error or trim
    #[arg(long, value_name = "HOW", default_value = "error", hide_possible_values = true, value_parser = tail(),
          help_heading = "Source")]
    pub tail: TornTail,
    /// The first block to import
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Source")]
    pub from: Option<u32>,
    /// The last block to import
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Source")]
    pub to: Option<u32>,
    /// Refuse the log unless this is its last block
    #[arg(long, value_name = "NUM:ID", value_parser = values::block, help_heading = "Source")]
    pub expect_head: Option<(u32, Id)>,
    /// Refuse the log unless this block has this id
    #[arg(long, value_name = "NUM:ID|FILE", value_parser = values::checkpoints, help_heading = "Source")]
    pub checkpoint: Vec<Checkpoints>,
    /// Operations that are not known: error or skip
    #[arg(long, value_name = "HOW", default_value = "error", hide_possible_values = true, value_parser = ["error", "skip"],
          help_heading = "Source")]
    pub unknown_operations: String,
    /// Make one more family: transactions, by their ids
    #[arg(long, value_name = "WHAT", hide_possible_values = true, value_parser = ["transactions"], help_heading = "Source")]
    pub index: Vec<String>,
    /// Leave out the family that finds blocks by their ids
    #[arg(long, help_heading = "Source")]
    pub no_id_index: bool,

    /// The set of options: one of `bedload presets list`, or a file
    #[arg(long, value_name = "NAME", help_heading = "Database")]
    pub preset: Option<String>,
    /// One option on top, e.g. node.table.block_size=32K; may be repeated
    #[arg(long, value_name = "OPTION=VALUE", help_heading = "Database")]
    pub set: Vec<String>,
    /// Take the database's options from a node's own OPTIONS file
    #[arg(long, value_name = "FILE", help_heading = "Database")]
    pub options_file: Option<PathBuf>,

    /// Leave the final compaction to the node, where there is one
    #[arg(long, help_heading = "Database")]
    pub no_compact: bool,

    /// Show what would be done, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Write the report to a file as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

pub fn plan_choice() -> impl clap::builder::TypedValueParser<Value = PlanChoice> {
    values::one_of(&[("auto", PlanChoice::Auto), ("memory", PlanChoice::Memory), ("spill", PlanChoice::Spill)])
}

pub fn key_layout() -> impl clap::builder::TypedValueParser<Value = KeyLayout> {
    values::one_of(&[("cid", KeyLayout::Cid), ("multihash", KeyLayout::Multihash), ("digest", KeyLayout::Digest)])
}

pub fn null_padding() -> impl clap::builder::TypedValueParser<Value = NullPadding> {
    values::one_of(&[("error", NullPadding::Error), ("eof", NullPadding::Eof)])
}

fn format() -> impl clap::builder::TypedValueParser<Value = Format> {
    values::one_of(&[("auto", Format::Auto), ("car", Format::Car), ("block-log", Format::BlockLog)])
}

pub fn tail() -> impl clap::builder::TypedValueParser<Value = TornTail> {
    values::one_of(&[("error", TornTail::Error), ("trim", TornTail::Trim)])
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = ImportOptions::new(&args.source, &args.db);
    options.memory = args.memory;
    options.threads = args.threads.map(usize::from);
    options.work_dir.clone_from(&args.work_dir);
    options.plan = args.plan;
    options.key = args.key;
    options.column_family.clone_from(&args.column_family);
    options.into_existing = args.into_existing;
    options.restart = args.restart;
    options.format = args.format;
    options.verify = args.verify != "none";
    options.log = LogOptions {
        dictionaries: args.dictionaries.clone(),
        tail: args.tail,
        from: args.from,
        to: args.to,
        expect_head: args.expect_head,
        checkpoints: args.checkpoint.iter().flat_map(|Checkpoints(blocks)| blocks.iter().copied()).collect(),
        no_id_index: args.no_id_index,
        index_transactions: !args.index.is_empty(),
        links_only: args.verify == "links",
        skip_unknown_operations: args.unknown_operations == "skip",
    };
    options.null_padding = args.null_padding;
    options.dry_run = args.dry_run;
    options.no_compact = args.no_compact;
    options.preset.clone_from(&args.preset);
    options.overrides = bedload::preset::Overrides {
        set: args.set.clone(),
        options_file: args.options_file.clone(),
        column_family: Some(args.column_family.clone()),
        ..bedload::preset::Overrides::from_environment()
    };
    if let Some(size) = args.max_block_size {
        if size > HIGHEST_MAX_BLOCK {
            return Err(Error::Usage {
                reason: format!("--max-block-size {} is more than RocksDB can hold in one value here", human(size)),
                hint: format!("give {} or less", human(HIGHEST_MAX_BLOCK)),
            }
            .into());
        }
        options.max_block_size = size;
    }
    let report_file = super::ReportFile::create(args.report.as_deref())?;
    super::stop::on_signals(&options.stop, "run the same command again to go on from here")?;
    let observer = bars::renderer(globals);
    let outcome = bedload::import(&options, observer.as_ref());
    observer.finish();
    match outcome? {
        Outcome::Planned(plan) if globals.json => {
            let mut document = serde_json::json!({ "schema": "bedload-plan-1" });
            if let (Some(fields), serde_json::Value::Object(plan)) =
                (document.as_object_mut(), serde_json::to_value(&plan)?)
            {
                fields.extend(plan);
            }
            super::print_json(&document)
        }
        Outcome::Planned(plan) => {
            screen::print(&format!("{}\n", plan.describe()), 2)?;
            Ok(())
        }
        Outcome::Imported(report) => {
            let done = format!("the database {} is complete", report.db);
            super::after(done, "use the database as it is: its BEDLOAD.json has the same report", || {
                report_file.write(&report)?;
                if globals.json {
                    return super::print_json(&report);
                }
                if !globals.quiet {
                    screen::print(&summary(&report), 10)?;
                }
                Ok(())
            })
        }
    }
}

/// The summary of an import for people.
fn summary(report: &ImportReport) -> String {
    let seconds = |name: &str| report.seconds.get(name).and_then(serde_json::Value::as_f64).unwrap_or_default();
    let total = seconds("total");
    let rate = report.payload_bytes as f64 / total.max(0.001);
    let what_was_checked = match &report.log {
        _ if !report.verified => "nothing (--verify none)".into(),
        None => "every block against its hash".to_owned(),
        Some(log) => of_blocks(log.verified).to_owned(),
    };
    let phases: Vec<String> = ["read", "build", "ingest", "settle", "check"]
        .into_iter()
        .filter(|phase| report.seconds.contains_key(*phase))
        .map(|phase| format!("{phase} {:.1}", seconds(phase)))
        .collect();
    let mut lines = vec![
        ("database", report.db.clone()),
        (
            "blocks",
            format!(
                "{} read, {} written, {} duplicate",
                report.blocks.read, report.blocks.written, report.blocks.duplicate
            ),
        ),
        ("payload", human(report.payload_bytes)),
        ("digest", report.digest.to_string()),
        ("checked", what_was_checked),
        ("time", format!("{total:.1} s, {}/s ({})", human(rate as u64), phases.join(", "))),
    ];
    if let Some(log) = &report.log {
        lines.extend(of_log(log));
    }
    let levels: Vec<String> = report
        .levels
        .iter()
        .map(|level| format!("L{}: {} files, {}", level.level, level.files, human(level.bytes)))
        .collect();
    let uncompacted = if report.compacted { "" } else { "; not compacted (--no-compact)" };
    lines.push(("levels", format!("{}{uncompacted}", levels.join("; "))));
    if let Some(memtable) = &report.memtable {
        lines.push((
            "RocksDB",
            format!(
                "{} batches, {} flushes, {} stalls ({:.1} s), {} files at level 0 at the end of writing, {} compacted",
                memtable.batches,
                memtable.flushes,
                memtable.stalls,
                memtable.stall_seconds,
                memtable.level0_files_before_settling,
                human(memtable.compaction_bytes_read)
            ),
        ));
    }
    let mut cost = Vec::new();
    if let Some(cpu) = report.cpu_seconds {
        let gib = report.payload_bytes as f64 / f64::from(1 << 30);
        cost.push(format!("{cpu:.1} CPU-seconds ({:.2} per GiB)", cpu / gib.max(f64::MIN_POSITIVE)));
    }
    if let Some(peak) = report.peak_rss_bytes {
        cost.push(format!("{} of memory at most", human(peak)));
    }
    if let Some(written) = report.bytes_written {
        cost.push(format!("{} written", human(written)));
    }
    lines.push(("cost", cost.join(", ")));
    lines.into_iter().map(|(name, value)| screen::row(name, 9, &value)).collect()
}

/// What an import checked in the blocks of a log.
pub fn of_blocks(verified: LogVerified) -> &'static str {
    match verified {
        LogVerified::Hash => "every block against the one behind it, and its transactions against its merkle root",
        LogVerified::Links => "every block against the one behind it, and no transactions (--verify links)",
        LogVerified::None => "nothing (--verify none)",
    }
}

/// What the summary says about a block log.
fn of_log(log: &LogReport) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("chain", format!("{}, blocks {} to {}", log.family, log.first.number, log.last.number)),
        ("head", format!("{} {}", log.last.number, log.last.id)),
    ];
    if !log.not_covered.is_empty() {
        lines.push(("uncovered", log.not_covered.join("; ")));
    }
    let packings = &log.packings;
    if packings.zstd + packings.zstd_dictionary > 0 {
        lines.push((
            "packed",
            format!("{} raw, {} zstd, {} with a dictionary", packings.raw, packings.zstd, packings.zstd_dictionary),
        ));
    }
    for index in &log.indexes {
        let state = index.reason.as_ref().map_or("used".to_owned(), |reason| format!("ignored: {reason}"));
        lines.push(("index", format!("{} ({}) {state}", index.path, index.kind)));
    }
    if log.trimmed_bytes > 0 {
        lines.push(("trimmed", format!("{} behind the last whole block (--tail trim)", human(log.trimmed_bytes))));
    }
    if log.unknown_operations > 0 {
        lines.push(("skipped", format!("{} operations of unknown kinds", log.unknown_operations)));
    }
    for family in log.families.iter().skip(1) {
        lines.push(("index", format!("{}: {} records, digest {}", family.name, family.records, family.digest)));
    }
    if let (Some(first), Some(last)) = (log.speed.first(), log.speed.last()) {
        let rate = |speed: &Speed| speed.blocks_per_second as u64;
        let rates: Vec<f64> = log.speed.iter().map(|speed| speed.blocks_per_second).collect();
        lines.push((
            "speed",
            format!("{} {} blocks/s at first, {} at last", sparkline(&rates, COLUMNS), rate(first), rate(last)),
        ));
    }
    lines
}
