//! `bedload completions` and `bedload man`.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use crate::Error;
use crate::os::files::create_last_dir;
use crate::preset::nearest_of;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload completions bash > ~/.local/share/bash-completion/completions/bedload")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Show the help of a command
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload help import")]
pub struct HelpArgs {
    /// The command, as `import` or `presets explain`
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Write man pages
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Directory for the man pages, one per command; without it the main page goes to standard output
    pub dir: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> anyhow::Result<()> {
    // Into memory first: the generator does not distinguish a broken pipe from an error.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "bedload", &mut text);
    io::stdout().lock().write_all(&text)?;
    Ok(())
}

pub fn help(args: &HelpArgs, mut command: clap::Command) -> anyhow::Result<()> {
    command.build();
    let mut found = &command;
    for name in &args.command {
        found = found.find_subcommand(name).ok_or_else(|| unknown(name, found))?;
    }
    let help = found.clone().render_help();
    let text = if io::stdout().is_terminal() { help.ansi().to_string() } else { help.to_string() };
    Ok(write!(io::stdout(), "{text}")?)
}

/// The error of a command that `parent` does not have. The hint names commands that begin with the name, or a similar one.
fn unknown(name: &str, parent: &clap::Command) -> Error {
    let names = || parent.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let mut meant: Vec<&str> = names().filter(|known| !name.is_empty() && known.starts_with(name)).collect();
    if meant.is_empty() {
        meant.extend(nearest_of(name, names()));
    }
    let all = parent.get_bin_name().unwrap_or("bedload");
    let hint = match &meant[..] {
        [] => format!("{all} --help lists the commands"),
        meant => format!("did you mean {}?", meant.join(" or ")),
    };
    Error::Usage { reason: format!("there is no command `{name}`"), hint: hint.into() }
}

pub fn man(args: &ManArgs, command: clap::Command) -> anyhow::Result<()> {
    fn show_hidden(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.hide(false)).mut_subcommands(show_hidden)
    }
    let mut command = show_hidden(command);
    command.build();
    let Some(dir) = &args.dir else { return Ok(io::stdout().lock().write_all(&page(&command)?.1)?) };
    create_last_dir(dir)?;
    let mut commands = vec![&command];
    while let Some(command) = commands.pop() {
        let (name, text) = page(command)?;
        std::fs::write(dir.join(name), text).map_err(Error::io("write man pages into", dir))?;
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
    }
    Ok(())
}

/// Descriptions of the exit codes, as in the program's help.
const EXITS: [(&str, &str); 6] = [
    ("0", "Done."),
    ("1", "Failed: I/O, no space, a key not found."),
    ("2", "The command line is wrong."),
    ("3", "The input is bad, or a verification has found something."),
    ("4", "The state of the database forbids it."),
    ("130", "Interrupted; the same command resumes an import."),
];

/// Files that the commands read and write beside those that are named.
const FILES: [(&str, &str); 4] = [
    ("DB/BEDLOAD.json", "The record of the import in the database."),
    ("DB.partial/", "Unfinished work of an import; the same command resumes from it."),
    ("FILE.partial", "An unfinished file, where the file system has no nameless files; the next run replaces it."),
    ("$XDG_CONFIG_HOME/bedload/config.toml, ~/.config/bedload/config.toml", "Options of RocksDB for every import."),
];

/// The name of a command's man page, and the page.
fn page(command: &clap::Command) -> anyhow::Result<(String, Vec<u8>)> {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Example: ")).collect();
    // Its contents have sections of their own.
    let man = Man::new(command.clone().after_help(""));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for line in usage.trim_start_matches("Usage:").lines().map(str::trim) {
        roff.text([bold(line)]).control("br", []);
    }
    roff.to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    for (title, items) in [("EXIT STATUS", &EXITS[..]), ("FILES", &FILES[..])] {
        roff.control("SH", [title]);
        for (name, what) in items {
            roff.control("TP", []).text([bold(*name)]).text([roman(*what)]);
        }
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        for example in examples {
            roff.control("PP", []).text([bold(example)]);
        }
    }
    roff.to_writer(&mut page)?;
    Ok((man.get_filename(), page))
}
