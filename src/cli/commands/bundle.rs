//! `bedload bundle`: the files of a database, published for others.

use std::path::PathBuf;

use crate::bundle::{BundleOptions, JoinOptions, bundle, join};
use crate::progress::CancellationToken;

use crate::cli::args::NetworkArgs;
use crate::cli::globals::Globals;
use crate::cli::render::{self, screen};
use crate::cli::{output, progress, signals};

/// Publish a database that an import has made, for `bedload seed`
///
/// Reads every record and compares the whole with what the import recorded, then writes the files that are not there yet,
/// each under its BLAKE3, then bundle.json, which names them all, and last the pointer `latest`. Nothing but `latest` is ever
/// changed there. A database that a node has written to is refused.
///
/// Of one shard (`import --shard`) a part is published; when those of all shards are there, `--join` makes the bundle of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload bundle /data/blocks --to s3://bucket/mainnet")]
pub struct Args {
    /// The database
    #[arg(value_name = "DB", required_unless_present_any = ["db", "join"], conflicts_with_all = ["db", "join"])]
    pub database: Option<PathBuf>,
    /// The database, as an option
    #[arg(long, value_name = "DIR", conflicts_with = "join")]
    pub db: Option<PathBuf>,
    /// Where to: a directory, or s3://, gs:// or az://
    #[arg(long, value_name = "PLACE", required_unless_present = "join", conflicts_with = "join")]
    pub to: Option<PathBuf>,
    /// Make a bundle of the parts that the shards of an import have put there
    #[arg(long, value_name = "PLACE")]
    pub join: Option<PathBuf>,
    /// Which parts; the default is those of the shard that ended last
    #[arg(long, value_name = "SET", requires = "join")]
    pub set: Option<String>,
    /// Threads that read; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Another server of S3's or Azure's protocol
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let place = args.join.clone().or_else(|| args.to.clone()).unwrap_or_default();
    let network = NetworkArgs { connections: None, endpoint: args.endpoint.clone() }.options([&place])?;
    let stop = CancellationToken::default();
    signals::cancel_on_signals(&stop, "run the same command again; what is there already is not written again")?;
    let observer = progress::renderer(globals);
    let report = match &args.join {
        Some(_) => join(&JoinOptions { place, set: args.set.clone(), network, stop }, observer.as_ref()),
        None => {
            let db = args.database.clone().or_else(|| args.db.clone()).unwrap_or_default();
            let threads = args.threads.map(usize::from);
            bundle(&BundleOptions { db, to: place, threads, network, stop }, observer.as_ref())
        }
    };
    observer.finish();
    let report = report?;
    let done = match report.part {
        Some(number) => format!("part {number} of the set {} is complete", report.id),
        None => format!("the bundle {} is complete", report.id),
    };
    output::report_done(done, "seed it as it is", || {
        if globals.json {
            return output::print_json(&report);
        }
        screen::print(&render::bundle::text(&report), 10)?;
        Ok(())
    })
}
