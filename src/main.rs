//! bedload: carries a blockchain snapshot into RocksDB.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::last_resort::install();
    bedload::handle_sigbus();
    let cli = cli::parse();
    // `doctor` tells what the limit is before it raises it.
    if !matches!(cli.command, cli::Command::Doctor(_)) {
        bedload::raise_open_files();
    }
    let outcome = match &cli.command {
        cli::Command::Import(args) => cli::import::run(args, &cli.globals),
        cli::Command::Inspect(args) => cli::inspect::run(args, &cli.globals),
        cli::Command::Verify(args) => cli::verify::run(args, &cli.globals),
        cli::Command::Walk(args) => cli::walk::run(args, &cli.globals),
        cli::Command::Get(args) => cli::get::run(args, &cli.globals),
        cli::Command::Stat(args) => cli::stat::run(args, &cli.globals),
        cli::Command::Export(args) => cli::export::run(args, &cli.globals),
        cli::Command::Generate(args) => cli::generate::run(args, &cli.globals),
        cli::Command::Presets(args) => cli::presets::run(args, &cli.globals),
        cli::Command::Bench(args) => cli::bench::run(args, &cli.globals),
        cli::Command::Tune(args) => cli::tune::run(args, &cli.globals),
        cli::Command::BenchRead(args) => cli::bench_read::run(args, &cli.globals),
        cli::Command::Doctor(args) => cli::doctor::run(args, &cli.globals),
        cli::Command::Completions(args) => cli::shell::completions(args),
        cli::Command::Man(args) => cli::shell::man(args),
    };
    cli::exit(outcome, &cli.globals)
}
