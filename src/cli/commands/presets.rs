//! `bedload presets`: what there is to choose from, and what each choice does.

use std::io::{self, IsTerminal, Write};

use crate::preset::{self, Overrides, Preset, Resolved};
use crate::report::shown;
use clap::Subcommand;

use crate::cli::args::OverrideArgs;
use crate::cli::globals::Globals;
use crate::cli::render::presets::{self as render, Listed};
use crate::cli::render::screen;
use crate::cli::{output, values};

/// Show the sets of RocksDB options that an import can take
///
/// A preset is a file: `show` prints one, and a changed copy is named by its path. Options have RocksDB's own names.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = "Example: bedload presets explain ingest")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// All built-in presets: name, loader, summary
    #[command(after_help = "Example: bedload presets list")]
    List,
    /// A preset's file as it is
    #[command(after_help = "Example: bedload presets show ingest > mine.toml")]
    Show {
        /// A built-in preset's name or a file
        #[arg(value_name = "NAME|FILE", hide_possible_values = true, value_parser = values::preset())]
        preset: String,
    },
    /// Every option that differs from RocksDB's default, with its reason and its cost
    #[command(after_help = "Example: bedload presets explain ingest --set node.table.block_size=32K")]
    Explain {
        /// A built-in preset's name or a file; by default the one an import would take
        #[arg(value_name = "NAME|FILE", hide_possible_values = true, value_parser = values::preset())]
        preset: Option<String>,
        #[command(flatten)]
        over: OverrideArgs,
    },
    /// The options in which two presets differ
    #[command(after_help = "Example: bedload presets diff ingest memtable")]
    Diff {
        /// A built-in preset's name or a file
        #[arg(value_name = "A", hide_possible_values = true, value_parser = values::preset())]
        a: String,
        /// Another
        #[arg(value_name = "B", hide_possible_values = true, value_parser = values::preset())]
        b: String,
    },
}

/// Runs `bedload presets`.
///
/// # Errors
/// [`Error::Preset`](crate::Error::Preset), [`Error::Usage`](crate::Error::Usage) or [`Error::Io`](crate::Error::Io):
/// there is no such preset, or something in it is wrong.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    match &args.what {
        None | Some(What::List) => list(globals),
        Some(What::Show { preset }) => show(preset, globals),
        Some(What::Explain { preset, over }) => {
            let overrides = over.overrides();
            let resolved = preset::resolve(&overrides.preset(preset.as_deref())?, &overrides)?;
            let explained = preset::explain(&resolved);
            if globals.json {
                return output::print_json(&explained);
            }
            Ok(screen::print(&explained.to_string(), 2)?)
        }
        Some(What::Diff { a, b }) => diff(a, b, globals),
    }
}

fn list(globals: &Globals) -> anyhow::Result<()> {
    let mut listed = Vec::new();
    for name in Preset::builtin_names() {
        let preset = Preset::builtin(name)?;
        let oldest_rocksdb = preset.oldest_rocksdb()?;
        let Preset { name, loader, summary, .. } = preset;
        let default = name == preset::DEFAULT;
        listed.push(Listed { name, loader, oldest_rocksdb, summary, default });
    }
    if globals.json {
        return output::print_json(&serde_json::json!({ "schema": "bedload-presets-2", "presets": listed }));
    }
    Ok(write!(io::stdout(), "{}", render::list(listed))?)
}

fn show(word: &str, globals: &Globals) -> anyhow::Result<()> {
    let preset = Preset::find(word)?;
    if globals.json {
        let Preset { name, loader, summary, text, .. } = preset;
        return output::print_json(&serde_json::json!({
            "schema": "bedload-preset-1", "name": name, "loader": loader, "summary": summary, "text": text,
        }));
    }
    // A file or a pipe gets it unchanged.
    let text = if io::stdout().is_terminal() { shown(&preset.text) } else { (&*preset.text).into() };
    Ok(write!(io::stdout(), "{text}")?)
}

fn diff(a: &str, b: &str, globals: &Globals) -> anyhow::Result<()> {
    // The presets as they are: an override would be the same on both sides.
    let resolved =
        |word: &str| -> anyhow::Result<Resolved> { Ok(preset::resolve(&Preset::find(word)?, &Overrides::default())?) };
    let (a, b) = (resolved(a)?, resolved(b)?);
    let differences = preset::diff(&a, &b);
    if globals.json {
        return output::print_json(&serde_json::json!({
            "schema": "bedload-preset-diff-1",
            "a": { "name": a.preset, "loader": a.loader },
            "b": { "name": b.preset, "loader": b.loader },
            "options": differences,
        }));
    }
    Ok(write!(io::stdout(), "{}", render::diff(&a, &b, differences))?)
}
