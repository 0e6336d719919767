//! `bedload import`: loads a snapshot, or another database, into a database.

use std::path::{Path, PathBuf};

use crate::blocks::chain::Id;
use crate::bundle::{Publication, Signer, import_and_bundle};
use crate::load::{self, Duplicates, F3Data, Format, Indexes, Links, LogOptions, Unfinished};
use crate::sort::key::KeyLayout;
use crate::sort::shard::Shard;
use crate::source::block_log::TornTail;
use crate::source::car::{HIGHEST_MAX_BLOCK, NullPadding};
use crate::text::size::human;
use crate::{Error, ImportOptions};

use super::bundle::password;
use crate::cli::args::{ImportArgs, NetworkArgs, PlanArgs, ReportArgs};
use crate::cli::globals::Globals;
use crate::cli::output::WithSchema;
use crate::cli::places::places;
use crate::cli::render;
use crate::cli::source_list::{self, SourceNames};
use crate::cli::values::{self, Checkpoints};
use crate::cli::{output, progress, signals};

/// Import a snapshot, records of any program, or a database into a new RocksDB database
///
/// The man page lists rare options too: `bedload man DIR`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "bedload import [OPTIONS] SNAPSHOT... --db DIR\n       bedload import [OPTIONS] SNAPSHOT... DIR",
    after_help = "Example: bedload import snapshot.forest.car.zst --db /data/blocks"
)]
pub struct Args {
    /// CARs (files, URLs, directories, lists: @FILE), a block log, streams of records (kv, `ldb --hex dump`) or a RocksDB database; `-` is
    /// standard input
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub sources: Vec<PathBuf>,

    /// Directory of the new database; unfinished work is in DIR.partial beside it
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub db: Option<PathBuf>,
    /// Replace the database DIR; the old one is removed
    #[arg(long, help_heading = "Target")]
    pub replace: bool,
    /// With --replace, move the old database to this directory
    #[arg(long, value_name = "DIR", requires = "replace", help_heading = "Target", hide_short_help = true)]
    pub keep_old: Option<PathBuf>,
    /// The column family of the blocks of a CAR or of the records of a dump [default: default]; of a database, one to copy (repeatable) [default: all]
    #[arg(long, value_name = "NAME", help_heading = "Target", hide_short_help = true)]
    pub column_family: Vec<String>,
    /// Leave out this column family of a database; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Target", hide_short_help = true)]
    pub skip_column_family: Vec<String>,
    /// Add to an existing database, then compact it
    #[arg(long, help_heading = "Target")]
    pub into_existing: bool,
    /// Discard unfinished work and start over
    #[arg(long, help_heading = "Target")]
    pub restart: bool,

    #[command(flatten)]
    pub import: ImportArgs,
    #[command(flatten)]
    pub plan: PlanArgs,

    #[command(flatten)]
    pub source: SourceArgs,

    #[command(flatten)]
    pub car: CarArgs,

    #[command(flatten)]
    pub log: BlockLogArgs,

    /// Keys that occur again: same, error, first or last
    #[arg(long, value_name = "HOW", default_value = "same", hide_possible_values = true, help_heading = "Records")]
    pub duplicates: Duplicates,
    /// Accept ROCKDUMP and text of `ldb` without a mark at the end, which may be cut
    #[arg(long, help_heading = "Records", hide_short_help = true)]
    pub allow_no_trailer: bool,

    #[command(flatten)]
    pub network: NetworkArgs,

    /// Publish each file as it is built; without --db no database is kept
    #[arg(
        long,
        value_name = "PLACE",
        conflicts_with = "into_existing",
        help_heading = "Bundles and shards",
        hide_short_help = true
    )]
    pub bundle: Option<PathBuf>,
    /// Sign the bundle with this minisign secret key; its password is in BEDLOAD_SIGN_PASSWORD, or in the file named by
    /// BEDLOAD_SIGN_PASSWORD_FILE
    #[arg(
        long,
        value_name = "FILE",
        requires = "bundle",
        conflicts_with = "shard",
        help_heading = "Bundles and shards",
        hide_short_help = true
    )]
    pub sign: Option<PathBuf>,
    /// Import only shard I of N, counted from 0
    #[arg(long, value_name = "I/N", value_parser = values::shard, help_heading = "Bundles and shards", hide_short_help = true)]
    pub shard: Option<Shard>,

    /// Copy only ranges of about this size of a database, spread over its keys; for `bench`
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, hide = true)]
    pub sample: Option<u64>,
    /// Print the plan and stop
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Format and checks of the source.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Format of the source: auto, car or block-log
    #[arg(long, value_name = "FORMAT", default_value = "auto", hide_possible_values = true, hide_short_help = true)]
    pub format: Format,
    /// Check hash, links (block logs only) or none
    #[arg(long, value_name = "WHAT", default_value = "hash", hide_possible_values = true, value_parser = ["hash", "links", "none"])]
    pub verify: String,
    /// Compare the source with sha256:HEX, sha256:FILE or sha256:URL
    #[arg(long, value_name = "SUM", hide_short_help = true)]
    pub checksum: Option<String>,
}

/// Options of CARs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "CARs")]
pub struct CarArgs {
    /// If blocks are missing: ignore, roots, check or require
    #[arg(long, value_name = "HOW", default_value = "ignore", hide_possible_values = true)]
    pub links: Links,
    /// Store blocks under their cid, multihash or digest [default: cid]
    #[arg(long, value_name = "LAYOUT", hide_possible_values = true, hide_short_help = true)]
    pub key: Option<KeyLayout>,
    /// F3 data: store or skip
    #[arg(long, value_name = "WHAT", default_value = "store", hide_possible_values = true, hide_short_help = true)]
    pub f3: F3Data,
    /// How to treat null padding after the blocks: as an error, or as their end (eof)
    #[arg(long, value_name = "MEANING", default_value = "error", hide_possible_values = true, hide = true)]
    pub null_padding: NullPadding,
    /// Accept several CARs concatenated in one file
    #[arg(long, hide = true)]
    pub concatenated: bool,
    /// Largest block to accept; up to 3 GiB
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, hide = true)]
    pub max_block_size: Option<u64>,
}

/// Options of block logs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Block logs")]
pub struct BlockLogArgs {
    /// First block of a block log
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    pub from: Option<u32>,
    /// Last block of a block log
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    pub to: Option<u32>,
    /// Index column families: ids (of blocks), transactions, or none
    #[arg(long, value_name = "A,B", default_value = "ids", value_parser = values::indexes, hide_short_help = true)]
    pub indexes: Indexes,
    /// Directory of zstd dictionaries of Hive, NNNM.dict.zst
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub dictionaries: Option<PathBuf>,
    /// Refuse the log unless this is its last block
    #[arg(long, value_name = "NUM:ID", value_parser = values::block, hide_short_help = true)]
    pub expect_head: Option<(u32, Id)>,
    /// Refuse the log unless this block has this id
    #[arg(long, value_name = "NUM:ID|FILE", value_parser = values::checkpoints, hide_short_help = true)]
    pub checkpoint: Vec<Checkpoints>,
    /// If a log ends inside a block: error or trim
    #[arg(long, value_name = "HOW", default_value = "error", hide_possible_values = true, hide = true)]
    pub tail: TornTail,
    /// Unknown operations: error or skip
    #[arg(long, value_name = "HOW", default_value = "error", hide_possible_values = true, value_parser = ["error", "skip"], hide = true)]
    pub unknown_operations: String,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let (given, named_db) = places(&args.sources, args.db.as_deref(), args.bundle.is_none())?;
    if args.replace && named_db.is_none() {
        let reason = "--replace needs --db: without it no database is kept";
        return Err(Error::usage(reason, "omit --replace, or name the database with --db").into());
    }
    let db = named_db.map_or_else(|| work_path(args), Path::to_path_buf);
    let mut partial = db.as_os_str().to_owned();
    partial.push(".partial");
    let sources = source_list::expand(given);
    let named = sources.as_ref().map_or(given, |names| &names.all);
    let mut others: Vec<_> = named.iter().map(|source| ("source", &**source)).collect();
    others.extend(given.iter().filter_map(|name| Some(("list of sources", source_list::file(name)?))));
    others.extend([("database", &*db), ("work of the import", Path::new(&partial))]);
    others.extend(args.import.files());
    let report_file = output::ReportFile::create(&args.report, &others, globals)?;
    let options = |names: SourceNames| Ok((options(args, &db, names.all.clone())?, names));
    let ((options, names), report_file) = report_file.or_error(sources.and_then(options))?;
    // Before anything is read, which takes long.
    let signer = args.sign.as_deref().map(|key| Signer::open(key, || password(key))).transpose()?;
    let interrupted = options.db.clone();
    signals::cancel_on_signals(&options.stop, move || load::hint_after_interruption(&interrupted))?;
    if args.dry_run {
        let plan = progress::show(globals, |observer| load::plan_and_warn(&options, observer));
        let (plan, report_file) = report_file.or_error(plan.map_err(|error| names.explain(error)))?;
        let document = WithSchema { schema: "bedload-plan-2", content: &plan };
        let text = format!("{}\n", plan.describe());
        report_file.write(&document, || output::print(&document, &text, 2, globals))?;
        return Ok(plan.check_space()?);
    }
    let report = progress::show(globals, |observer| match &args.bundle {
        Some(to) => {
            let mut publication = Publication::new(to).keep_database(named_db.is_some());
            publication.signer = signer;
            import_and_bundle(&options, &publication, observer)
        }
        None => crate::import(&options, observer),
    });
    let (report, report_file) = report_file.or_error(report.map_err(|error| names.explain(error)))?;
    let (done, use_it) = match (&report.bundle, named_db) {
        (Some(bundle), None) => (render::bundle::done(bundle), "it can be seeded"),
        _ => (format!("the database {} is complete", report.db), REPORT_IN_DB),
    };
    let print = || output::print(&report, &render::import::text(&report), 10, globals);
    output::report_done(done, use_it, || report_file.write(&report, print))
}

/// Hint if only the report could not be written.
pub(super) const REPORT_IN_DB: &str = "use the database: its BEDLOAD.json has the same report";

/// Name of the unfinished work when no database remains: the place and the shard.
fn work_path(args: &Args) -> PathBuf {
    let place = args.bundle.as_deref().unwrap_or(Path::new(""));
    let place = blake3::hash(place.as_os_str().as_encoded_bytes()).to_hex();
    let shard = args.shard.map_or_else(String::new, |shard| format!("-{}-of-{}", shard.number, shard.of));
    let name = format!("bedload-{}{shard}", place.get(..16).unwrap_or_default());
    args.plan.work_dir.clone().unwrap_or_default().join(name)
}

fn options(args: &Args, db: &Path, sources: Vec<PathBuf>) -> crate::Result<ImportOptions> {
    let mut options = ImportOptions::new(PathBuf::new(), db).sources(sources);
    options.concatenated = args.car.concatenated;
    args.import.add_to(&mut options);
    options.shard = args.shard;
    options.work_dir.clone_from(&args.plan.work_dir);
    options.plan = args.plan.plan;
    options.given_key = args.car.key;
    options.given_column_family = args.column_family.first().cloned();
    options.families.clone_from(&args.column_family);
    options.skipped_families.clone_from(&args.skip_column_family);
    // Without a `.` or a slash at the end, with which a rename can fail.
    options.keep_old = args.keep_old.as_ref().map(|place| place.components().collect());
    options.sample = args.sample;
    (options.duplicates, options.allow_no_trailer) = (args.duplicates, args.allow_no_trailer);
    options.into_existing = args.into_existing;
    options.replace = args.replace;
    options.unfinished = if args.restart { Unfinished::Restart } else { Unfinished::Resume };
    options.format = args.source.format;
    options.verify = args.source.verify != "none";
    options.log = log_options(args);
    options.f3 = args.car.f3;
    options.null_padding = args.car.null_padding;
    options.links = args.car.links;
    options.network = args.network.options(options.sources.iter().chain(&args.bundle))?;
    options.checksum.clone_from(&args.source.checksum);
    options.overrides.column_family = args.column_family.first().cloned();
    if let Some(size) = args.car.max_block_size {
        if size > HIGHEST_MAX_BLOCK {
            let reason = format!("--max-block-size {} is more than RocksDB can hold in one value here", human(size));
            return Err(Error::usage(reason, format!("give {} or less", human(HIGHEST_MAX_BLOCK))));
        }
        options.max_block_size = size;
    }
    Ok(options)
}

fn log_options(args: &Args) -> LogOptions {
    LogOptions {
        dictionaries: args.log.dictionaries.clone(),
        tail: args.log.tail,
        from: args.log.from,
        to: args.log.to,
        expect_head: args.log.expect_head,
        checkpoints: args.log.checkpoint.iter().flat_map(|Checkpoints(blocks)| blocks.iter().copied()).collect(),
        indexes: args.log.indexes,
        links_only: args.source.verify == "links",
        skip_unknown_operations: args.log.unknown_operations == "skip",
    }
}
