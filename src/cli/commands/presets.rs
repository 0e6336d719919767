//! `bedload presets`: lists, shows, explains and compares presets.

use std::io::{self, IsTerminal, Write};

use crate::Error;
use crate::preset::{self, Overrides, Preset, Resolved, options_file};
use crate::report::shown;
use clap::Subcommand;

use crate::cli::args::OverrideArgs;
use crate::cli::globals::Globals;
use crate::cli::render::presets::{self as render, Listed};
use crate::cli::{output, values};

/// Show the presets: sets of RocksDB options for an import
///
/// A preset is a file. `show` prints it; pass the path of a changed copy to --preset. Presets use RocksDB's own option
/// names.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = "Example: bedload presets explain ingest")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Also list the presets that are for comparison only
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the built-in presets: name, loader, RocksDB version, summary
    #[command(after_help = "Example: bedload presets list --all")]
    List(ListArgs),
    /// Print a preset file
    #[command(after_help = "Example: bedload presets show ingest > mine.toml")]
    Show {
        /// A built-in preset's name or a file
        #[arg(value_name = "NAME|FILE", hide_possible_values = true, value_parser = values::preset())]
        preset: String,
    },
    /// Explain every option that differs from RocksDB's default, with its reason and its cost
    ///
    /// For a node's OPTIONS file, it explains the options of the database.
    #[command(after_help = "Example: bedload presets explain ingest --set node.table.block_size=32K")]
    Explain {
        /// A built-in preset's name, a file, or a node's OPTIONS file; by default the preset of an import
        #[arg(value_name = "NAME|FILE", hide_possible_values = true, value_parser = values::preset())]
        preset: Option<String>,
        #[command(flatten)]
        over: OverrideArgs,
    },
    /// Show the options in which two presets differ
    ///
    /// A node's OPTIONS file is compared with the options that the preset leaves the database with.
    #[command(after_help = "Example: bedload presets diff ingest memtable")]
    Diff {
        /// A built-in preset's name, a file, or a node's OPTIONS file
        #[arg(value_name = "A", hide_possible_values = true, value_parser = values::preset())]
        a: String,
        /// The second preset
        #[arg(value_name = "B", hide_possible_values = true, value_parser = values::preset())]
        b: String,
    },
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    match &args.what {
        None => list(&args.list, globals),
        Some(What::List(args)) => list(args, globals),
        Some(What::Show { preset }) => show(preset, globals),
        Some(What::Explain { preset, over }) => {
            let resolved = explained(preset.as_deref(), over.overrides())?;
            let explained = preset::explain(&resolved);
            output::print(&explained, &explained.to_string(), 2, globals)
        }
        Some(What::Diff { a, b }) => diff(a, b, globals),
    }
}

/// The preset or OPTIONS file of that name, with its overrides.
fn explained(word: Option<&str>, overrides: Overrides) -> crate::Result<Resolved> {
    let Some(file) = word.and_then(options_file) else {
        return preset::resolve(&overrides.preset(word)?, &overrides);
    };
    if overrides.options_file.is_some() {
        let reason = format!("{} is an OPTIONS file, and --options-file names another", file.display());
        return Err(Error::usage(reason, "give one of them"));
    }
    preset::resolve(&Preset::for_options_file(&file, None), &overrides.options_file(file))
}

fn list(args: &ListArgs, globals: &Globals) -> anyhow::Result<()> {
    let mut listed = Vec::new();
    let names: Vec<&str> = if args.all { Preset::builtin_names().collect() } else { Preset::main_names().collect() };
    let more = Preset::builtin_names().count() - names.len();
    for name in names {
        let preset = Preset::builtin(name)?;
        let oldest_rocksdb = preset.oldest_rocksdb();
        let Preset { name, loader, summary, .. } = preset;
        let default = name == preset::DEFAULT;
        listed.push(Listed { name, loader, oldest_rocksdb, summary, default });
    }
    if globals.json {
        return output::print_json(&serde_json::json!({ "schema": "bedload-presets-2", "presets": listed }));
    }
    Ok(write!(io::stdout(), "{}", render::list(listed, more))?)
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
    // Overrides would be the same on both sides. An OPTIONS file has no options of loading: it gets those of the preset.
    let resolved = |word: &str, other: &str| -> anyhow::Result<Resolved> {
        let Some(file) = options_file(word) else {
            return Ok(preset::resolve(&Preset::find(word)?, &Overrides::default())?);
        };
        let like = if options_file(other).is_some() { None } else { Some(Preset::find(other)?) };
        let preset = Preset::for_options_file(&file, like.as_ref());
        Ok(preset::resolve(&preset, &Overrides::default().options_file(file))?)
    };
    let (a, b) = (resolved(a, b)?, resolved(b, a)?);
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
