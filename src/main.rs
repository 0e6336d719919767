//! bedload: imports a blockchain snapshot into RocksDB.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::last_resort::install();
    cli::parse().run()
}
