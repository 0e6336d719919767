//! `bedload bundle`: the files of a database, published for others.

use std::path::PathBuf;

use crate::bundle::{BundleOptions, bundle};
use crate::progress::CancellationToken;

use crate::cli::args::{DatabaseArgs, NetworkArgs};
use crate::cli::globals::Globals;
use crate::cli::render::{self, screen};
use crate::cli::{output, progress, signals};

/// Publish a database that an import has made, for `bedload seed`
///
/// Reads every record and compares the whole with what the import recorded, then writes the files that are not there yet,
/// each under its BLAKE3, then bundle.json, which names them all, and last the pointer `latest`. Nothing but `latest` is ever
/// changed there. A database that a node has written to is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload bundle /data/blocks --to s3://bucket/mainnet")]
pub struct Args {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Where to: a directory, or s3://, gs:// or az://
    #[arg(long, value_name = "PLACE")]
    pub to: PathBuf,
    /// Threads that read; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Another server of S3's or Azure's protocol
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let network = NetworkArgs { connections: None, endpoint: args.endpoint.clone() };
    let options = BundleOptions {
        db: args.database.path().to_owned(),
        to: args.to.clone(),
        threads: args.threads.map(usize::from),
        network: network.options([&args.to])?,
        stop: CancellationToken::default(),
    };
    signals::cancel_on_signals(
        &options.stop,
        "run the same command again; what is there already is not written again",
    )?;
    let observer = progress::renderer(globals);
    let report = bundle(&options, observer.as_ref());
    observer.finish();
    let report = report?;
    let done = format!("the bundle {} is complete", report.id);
    output::report_done(done, "seed it as it is", || {
        if globals.json {
            return output::print_json(&report);
        }
        screen::print(&render::bundle::text(&report), 10)?;
        Ok(())
    })
}
