//! `bedload stat`: the contents of a database and the shape of its LSM tree.

use crate::read::stat::{StatOptions, stat};

use crate::cli::args::{DatabaseArgs, RESTARTS};
use crate::cli::globals::Globals;
use crate::cli::render::{self, screen};
use crate::cli::{output, progress, signals, values};

/// Show the levels, sizes, options and import record of a database
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload stat /data/blocks --digest")]
pub struct Args {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Read all records: count them and compute the content digest
    #[arg(long)]
    pub digest: bool,
    /// Threads to use; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = values::threads(), requires = "digest")]
    pub threads: Option<usize>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = StatOptions::new(args.database.path());
    options.digest = args.digest;
    options.resources.threads = args.threads;
    signals::cancel_on_signals(&options.resources.stop, || RESTARTS.into())?;
    let report = match args.digest {
        true => progress::show(globals, |observer| stat(&options, observer))?,
        false => stat(&options, &crate::progress::Silent)?,
    };
    if globals.json {
        return output::print_json(&report);
    }
    screen::print_table(&render::stat::text(&report), 10)?;
    Ok(())
}
