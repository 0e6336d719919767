//! `bedload presets`: what there is to choose from, and what each choice does.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use bedload::preset::{self, Difference, Loader, Overrides, Preset, Resolved};
use bedload::report::{shown, shown_in_line};
use clap::{Args as ClapArgs, Subcommand};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use super::{Globals, screen};

/// Show the sets of RocksDB options that an import can take
///
/// A preset is a file: `show` prints one, and a changed copy is named by its path. Options carry RocksDB's own names.
#[derive(Debug, ClapArgs)]
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
        #[arg(value_name = "NAME|FILE")]
        preset: String,
    },
    /// Every option that differs from RocksDB's default, with its reason and its cost
    #[command(after_help = "Example: bedload presets explain ingest --set node.table.block_size=32K")]
    Explain {
        /// A built-in preset's name or a file; by default the one an import would take
        #[arg(value_name = "NAME|FILE")]
        preset: Option<String>,
        #[command(flatten)]
        over: OverrideArgs,
    },
    /// The options in which two presets differ
    #[command(after_help = "Example: bedload presets diff ingest memtable")]
    Diff {
        /// A built-in preset's name or a file
        #[arg(value_name = "A")]
        a: String,
        /// Another
        #[arg(value_name = "B")]
        b: String,
    },
}

/// What is laid on top of a preset; the same for every command that takes one.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct OverrideArgs {
    /// Set one option, as load.cf.write_buffer_size=64M; may be given again
    #[arg(long = "set", value_name = "OPTION=VALUE", help_heading = "RocksDB")]
    pub set: Vec<String>,
    /// Take a node's own OPTIONS file as the `node` section, so that the database comes out as the node runs it
    #[arg(long, value_name = "FILE", help_heading = "RocksDB")]
    pub options_file: Option<PathBuf>,
}

impl OverrideArgs {
    /// With the environment and the user's configuration below.
    pub fn overrides(&self) -> Overrides {
        Overrides { set: self.set.clone(), options_file: self.options_file.clone(), ..Overrides::from_environment() }
    }
}

#[derive(Serialize)]
struct Listed {
    name: String,
    loader: Loader,
    summary: String,
    default: bool,
}

/// Runs `bedload presets`.
///
/// # Errors
/// A [`bedload::Error`]: there is no such preset, or something in it is wrong.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    match &args.what {
        None | Some(What::List) => list(globals),
        Some(What::Show { preset }) => show(preset, globals),
        Some(What::Explain { preset, over }) => {
            let overrides = over.overrides();
            let resolved = preset::resolve(&overrides.preset(preset.as_deref())?, &overrides)?;
            let explained = preset::explain(&resolved);
            if globals.json {
                return super::print_json(&explained);
            }
            Ok(screen::print(&explained.to_string(), 2)?)
        }
        Some(What::Diff { a, b }) => diff(a, b, globals),
    }
}

fn list(globals: &Globals) -> anyhow::Result<()> {
    let mut listed = Vec::new();
    for name in Preset::builtin_names() {
        let Preset { name, loader, summary, .. } = Preset::builtin(name)?;
        let default = name == preset::DEFAULT;
        listed.push(Listed { name, loader, summary, default });
    }
    if globals.json {
        return super::print_json(&serde_json::json!({ "schema": "bedload-presets-1", "presets": listed }));
    }
    let mut table = table(&["PRESET", "LOADER", "SUMMARY"]);
    for Listed { name, loader, summary, default } in listed {
        let summary = if default { format!("{summary} (default)") } else { summary };
        table.add_row([name, loader.to_string(), summary]);
    }
    print(&table)
}

fn show(word: &str, globals: &Globals) -> anyhow::Result<()> {
    let preset = Preset::find(word)?;
    if globals.json {
        let Preset { name, loader, summary, text, .. } = preset;
        return super::print_json(&serde_json::json!({
            "schema": "bedload-preset-1", "name": name, "loader": loader, "summary": summary, "text": text,
        }));
    }
    // Into a file or a pipe it goes as it is.
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
        return super::print_json(&serde_json::json!({
            "schema": "bedload-preset-diff-1",
            "a": { "name": a.preset, "loader": a.loader },
            "b": { "name": b.preset, "loader": b.loader },
            "options": differences,
        }));
    }
    let mut table = table(&["OPTION", &shown_in_line(&a.preset), &shown_in_line(&b.preset)]);
    if a.loader != b.loader {
        table.add_row(["loader".to_owned(), a.loader.to_string(), b.loader.to_string()]);
    }
    for Difference { option, a, b, unnamed } in differences {
        let cell = |value: String, side| if unnamed == Some(side) { format!("({value})") } else { value };
        table.add_row([option.to_string(), cell(a, "a"), cell(b, "b")].map(|cell| shown_in_line(&cell).into_owned()));
    }
    if table.row_iter().next().is_none() {
        return Ok(writeln!(io::stdout(), "no difference")?);
    }
    print(&table)?;
    Ok(writeln!(io::stdout(), "\n(value): not named by the preset; what holds without it")?)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header.iter().copied());
    if let Some(columns) = screen::stdout_columns().and_then(|columns| u16::try_from(columns).ok()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    }
    table
}

/// The table without the blanks around it.
fn print(table: &Table) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for line in table.lines() {
        writeln!(out, "{}", line.strip_prefix(' ').unwrap_or(&line).trim_end())?;
    }
    Ok(())
}
