//! `bedload bench-read`: what `bedload bench` runs in a process of its own to read from a finished database. Hidden: its
//! options may change with every version.

use std::path::PathBuf;

use crate::bench::keys;
use crate::bench::node::{NodeOptions, work};
use crate::bench::reads::{ReadOptions, read, scan_in_order};

use crate::cli::output;

/// Measure reads from a finished database; `bedload bench` runs this
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Keys to look up, or, with --draw, where to write them
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Sample so many keys and do nothing else
    #[arg(long, value_name = "N", requires = "keys")]
    pub draw: Option<u64>,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Scan all records in order and do nothing else
    #[arg(long, conflicts_with_all = ["draw", "keys"], required_unless_present = "keys")]
    pub scan: bool,
    /// Do so many reads and writes as a node has them, and nothing else; this changes the database
    #[arg(long, value_name = "N", requires = "keys", conflicts_with_all = ["draw", "scan", "cold", "threads"])]
    pub node: Option<u64>,
    /// Evict the database from the page cache before; otherwise it is read into it
    #[arg(long)]
    pub cold: bool,
    /// Block cache in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    pub block_cache: u64,
    /// Threads of the lookups
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(file) = &args.keys else {
        return output::print_json(&scan_in_order(&args.db, args.block_cache)?);
    };
    if let Some(count) = args.draw {
        let family = keys::family_of(&args.db)?;
        let drawn = keys::sample(&args.db, &family, count, args.seed, file)?;
        return output::print_json(&serde_json::json!({ "keys": drawn }));
    }
    if let Some(operations) = args.node {
        let (db, seed, block_cache) = (&args.db, args.seed, args.block_cache);
        return output::print_json(&work(&NodeOptions { db, keys: file, operations, seed, block_cache })?);
    }
    let options = ReadOptions {
        db: args.db.clone(),
        family: None,
        keys: file.clone(),
        cold: args.cold,
        block_cache: args.block_cache,
        threads: args.threads,
    };
    output::print_json(&read(&options)?)
}
