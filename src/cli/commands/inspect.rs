//! `bedload inspect`: shows the contents of a snapshot or of a database.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::load::{Format, snapshots_in};
use crate::read::Resources;
use crate::read::inspect::{InspectOptions, inspect, list, trim_hint};
use crate::rocks::is_database;
use crate::source::car::NullPadding;
use crate::source::remote::{is_remote, shown_path as shown};

use crate::cli::args::{NetworkArgs, RESTARTS};
use crate::cli::globals::Globals;
use crate::cli::render::{self, numbers::counted};
use crate::cli::{output, progress, signals};

/// Show the contents of a snapshot or of a RocksDB database
///
/// Without --full, reads only the start, the index and the end of a snapshot, so most damage is not found. A block log
/// of up to 64 MiB is always read completely. Exits with code 3 if it finds damage.
///
/// For a database, shows each column family, and if its records can be copied into a new database. Wide columns
/// (PutEntity) are not detected: only their default column is readable.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload inspect --full snapshot.forest.car.zst")]
pub struct Args {
    /// The snapshot: a file, a directory of CARs or of a block log, a URL, or `-` for standard input; or a database
    #[arg(value_name = "SNAPSHOT")]
    pub source: PathBuf,
    /// Read everything: count blocks, sizes and codecs, and verify the hash of every block (of a block log: its link to
    /// the previous block)
    #[arg(long)]
    pub full: bool,
    /// List the blocks instead: CID (of a block log: number and id), size and offset, one JSON object per line
    #[arg(long, conflicts_with = "full")]
    pub list: bool,
    /// How to treat null padding after the blocks: as an error, or as their end (eof)
    #[arg(long, value_name = "MEANING", default_value = "error")]
    pub null_padding: NullPadding,

    /// Directory of zstd dictionaries of Hive, NNNM.dict.zst
    #[arg(long, value_name = "DIR")]
    pub dictionaries: Option<PathBuf>,

    #[command(flatten)]
    pub resources: Resources,
    #[command(flatten)]
    pub network: NetworkArgs,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let sources = sources(&args.source)?;
    if args.list && sources.len() > 1 {
        let reason = format!("--list takes one snapshot, and {} has {}", args.source.display(), sources.len());
        return Err(Error::usage(reason, "name one of them").into());
    }
    let mut options = InspectOptions::new(&args.source);
    options.full = args.full;
    options.null_padding = args.null_padding;
    options.resources.clone_from(&args.resources);
    signals::cancel_on_signals(&options.resources.stop, || RESTARTS.into())?;
    options.dictionaries.clone_from(&args.dictionaries);
    options.network = args.network.options(Some(&args.source))?;
    // Each CAR of a directory is inspected, and the first damage reported at the end.
    let mut damaged = Ok(());
    for source in sources {
        options.source = source;
        match inspect_one(&options, args, globals) {
            Err(error) if matches!(error.downcast_ref(), Some(Error::VerificationFailed { .. })) => {
                damaged = damaged.and(Err(error));
            }
            inspected => inspected?,
        }
    }
    damaged
}

/// The source itself, or the CARs of a directory without a block log.
fn sources(source: &Path) -> crate::Result<Vec<PathBuf>> {
    let is_dir = source != Path::new("-") && !is_remote(source) && source.is_dir() && !is_database(source);
    if is_dir { snapshots_in(source, Format::Auto) } else { Ok(vec![source.to_owned()]) }
}

fn inspect_one(options: &InspectOptions, args: &Args, globals: &Globals) -> anyhow::Result<()> {
    // Messages below must not contain secrets.
    let source = shown(&options.source);
    if args.list {
        return Ok(list(options, &mut BufWriter::with_capacity(256 << 10, std::io::stdout().lock()))?);
    }
    let report = match args.full {
        true => progress::show(globals, |observer| inspect(options, observer))?,
        false => inspect(options, &crate::progress::Silent)?,
    };
    output::print(&report, &render::inspect::text(&report), 10, globals)?;
    if report.valid {
        return Ok(());
    }
    let (problems, hint) = match &report.log {
        Some(log) => ("a torn tail".into(), trim_hint(&source, log.last.as_ref().map_or(0, |last| last.number))),
        None => (
            counted(report.bad_blocks.unwrap_or(0), "bad block", "bad blocks"),
            "the snapshot is damaged: download it again and compare its sha256 with the publisher's".into(),
        ),
    };
    Err(Error::VerificationFailed { action: "inspect", path: source, problems, hint: hint.into() }.into())
}
