//! `bedload bench-read`: reads from a finished database. `bedload bench` runs it in a process of its own. It is hidden, and
//! its options may change with every version.

use std::path::PathBuf;

use crate::bench::keys;
use crate::bench::reads::{read, scan_in_order};

use crate::cli::output;

/// Measure reads from a finished database; `bedload bench` runs this
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Keys to look up, or, with --draw, where to write them
    #[arg(long, value_name = "FILE", required_unless_present = "scan")]
    pub keys: Option<PathBuf>,
    /// Sample so many keys and do nothing else
    #[arg(long, value_name = "N", requires = "keys")]
    pub draw: Option<u64>,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Scan all records in order and do nothing else
    #[arg(long, conflicts_with_all = ["draw", "keys"])]
    pub scan: bool,
    /// Evict the database from the page cache before; otherwise it is read into it
    #[arg(long)]
    pub cold: bool,
    /// Block cache in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    pub block_cache: u64,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(file) = &args.keys else {
        return output::print_json(&scan_in_order(&args.db, args.block_cache)?);
    };
    let Some(count) = args.draw else {
        return output::print_json(&read(&args.db, file, args.cold, args.block_cache)?);
    };
    let drawn = keys::sample(&args.db, &keys::family_of(&args.db)?, count, args.seed, file)?;
    output::print_json(&serde_json::json!({ "keys": drawn }))
}
