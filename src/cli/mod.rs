//! The command line: the only module that uses the terminal.
//!
//! `commands` reads the options of each command and calls the library, `render` makes the text of its report, `progress`
//! shows the work while it runs.

mod args;
mod command_line;
mod commands;
mod globals;
mod last_resort;
mod log;
mod output;
mod places;
mod progress;
mod render;
mod signals;
mod source_list;
mod usage;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::{
    bench, bench_read, bundle, clean, doctor, export, generate, get, import, inspect, presets, seed, shell, stat,
    verify, walk,
};
use globals::Globals;

/// Imports a blockchain snapshot into RocksDB in one fast, verified, crash-safe pass
///
/// Exit codes: 0 done; 1 failed (I/O, no space); 2 wrong usage; 3 bad or missing input, or damaged database; 4 no
/// such database, or its state does not allow the command; 130 interrupted. Any other code is a failure, too.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true, disable_help_flag = true)]
#[command(after_help = "Example: bedload import snapshot.forest.car.zst --db /data/blocks")]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(Box<import::Args>),
    Inspect(inspect::Args),
    Verify(verify::Args),
    Walk(walk::Args),
    Get(get::Args),
    Stat(stat::Args),
    Export(export::Args),
    Bundle(bundle::Args),
    Seed(seed::Args),
    Clean(clean::Args),
    Generate(generate::Args),
    Presets(presets::Args),
    Bench(Box<bench::Args>),
    #[command(hide = true)]
    BenchRead(bench_read::Args),
    Doctor(doctor::Args),
    Help(shell::HelpArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

impl Cli {
    /// Runs the command `name`, prints its error if it fails, and returns the exit code.
    fn run(&self, name: &str) -> ExitCode {
        let globals = &self.globals;
        log::set(globals.log_format);
        let watched = progress::monitor::begin(name, globals.metrics.as_deref());
        let outcome = watched.map_err(Into::into).and_then(|()| self.work(globals));
        output::exit_code(outcome, name, globals)
    }

    fn work(&self, globals: &Globals) -> anyhow::Result<()> {
        crate::os::resources::limit_kept_memory();
        crate::handle_sigbus();
        // `doctor` reports the limit before it raises it.
        if !matches!(self.command, Command::Doctor(_)) {
            crate::raise_open_files();
        }
        match &self.command {
            Command::Import(args) => import::run(args, globals),
            Command::Inspect(args) => inspect::run(args, globals),
            Command::Verify(args) => verify::run(args, globals),
            Command::Walk(args) => walk::run(args, globals),
            Command::Get(args) => get::run(args, globals),
            Command::Stat(args) => stat::run(args, globals),
            Command::Export(args) => export::run(args, globals),
            Command::Bundle(args) => bundle::run(args, globals),
            Command::Seed(args) => seed::run(args, globals),
            Command::Clean(args) => clean::run(args, globals),
            Command::Generate(args) => generate::run(args, globals),
            Command::Presets(args) => presets::run(args, globals),
            Command::Bench(args) => bench::run(args, globals),
            Command::BenchRead(args) => bench_read::run(args),
            Command::Doctor(args) => doctor::run(args, globals),
            Command::Help(args) => shell::help(args, command()),
            Command::Completions(args) => shell::completions(args, command()),
            Command::Man(args) => shell::man(args, command()),
        }
    }
}

/// The whole command line, whose help lists all options but the hidden ones.
fn command() -> clap::Command {
    fn show_all(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(show_all)
    }
    show_all(short_command())
}

/// The whole command line, whose help lists the usual options. The long text of a command is at the end of its help,
/// after the options and before the example.
fn short_command() -> clap::Command {
    let names: Vec<String> = Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = names.into_iter().fold(Cli::command(), |command, name| command.mut_subcommand(name, long_text_last));
    long_text_last(command)
}

fn long_text_last(command: clap::Command) -> clap::Command {
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    match long.split_once("\n\n") {
        Some((_, text)) => command.after_help(format!("{text}\n\n{after}")),
        None => command,
    }
}

/// The program: runs the command of the process's arguments, and returns the exit code.
pub fn main() -> ExitCode {
    last_resort::install();
    log::install();
    // `--help` has the layout of `-h` and lists more.
    let is_long = std::env::args_os().any(|arg| arg == "--help");
    let command = if is_long { command() } else { short_command() };
    let parsed = command.try_get_matches().and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    match parsed {
        Ok((cli, matches)) => cli.run(matches.subcommand_name().unwrap_or_default()),
        Err(error) => usage::end(&error, &self::command()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn command_line_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn usage_errors_have_message_and_hint() {
        for (line, message, hint) in [
            (
                "import a.car --db d --memry 1G",
                "unexpected argument '--memry' found",
                "a similar argument exists: '--memory'",
            ),
            ("verfy", "unrecognized subcommand 'verfy'", "a similar subcommand exists: 'verify'"),
            (
                "import --db d",
                "the following required arguments were not provided: <SNAPSHOT>...",
                "for example: bedload import snapshot.forest.car.zst --db /data/blocks",
            ),
            (
                "walk --db d --threads abc",
                "invalid value 'abc' for '--threads <N>': not a number",
                "bedload walk --help lists the options",
            ),
            (
                "walk --db d --root abc",
                "invalid value 'abc' for '--root <CID>': not a CID",
                "bedload walk --help lists the options",
            ),
            (
                "walk --db d --depth 5",
                "invalid value '5' for '--depth <tipsets=N>': write it as tipsets=5",
                "bedload walk --help lists the options",
            ),
            (
                "import a.car --db d --key cidd",
                "invalid value 'cidd' for '--key <LAYOUT>' [possible values: cid, multihash, digest, any]",
                "a similar value exists: 'cid'",
            ),
            (
                "export --db d a.car --all --cids b",
                "the argument '--all' cannot be used with '--cids <FILE>'",
                "bedload export --help lists the options",
            ),
        ] {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let with_name = std::iter::once("bedload".to_owned()).chain(args.iter().cloned());
            let error = super::command().try_get_matches_from(with_name).expect_err(line);
            let lines = super::usage::lines(&error.render().to_string(), &args, &super::command());
            assert_eq!(lines, (message.to_owned(), hint.to_owned()), "{line}");
        }
    }
}
