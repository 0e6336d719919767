//! `bedload completions` and `bedload man`.

use std::path::PathBuf;

use crate::Error;
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload completions bash > ~/.local/share/bash-completion/completions/bedload")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Write man pages
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The directory for one page of each command; without it the main page goes to standard output
    pub dir: Option<PathBuf>,
}

/// Prints the completions of `command`.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> anyhow::Result<()> {
    // Into memory first: the generator does not distinguish a broken pipe from an error.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "bedload", &mut text);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &text)?;
    Ok(())
}

/// Writes the man pages of `command`.
pub fn man(args: &ManArgs, command: clap::Command) -> anyhow::Result<()> {
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
            clap_mangen::generate_to(command, dir).map_err(Error::io("write man pages into", dir))?;
        }
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text)?;
            std::io::Write::write_all(&mut std::io::stdout().lock(), &text)?;
        }
    }
    Ok(())
}
