//! `bedload get`: single blocks.

use std::io::{BufRead, BufWriter, Write};
use std::path::PathBuf;

use crate::Error;
use crate::read::block::BlockLookup;
use crate::read::get::{Found, Lookup, to_json};
use crate::report::shown_json;
use clap::ValueEnum;
use data_encoding::HEXLOWER;

use crate::cli::args::LocationArgs;
use crate::cli::globals::Globals;
use crate::cli::render::block::{document, header_fields};
use crate::cli::render::screen;

/// Keys looked up at once.
const BATCH: usize = 256;

/// Print blocks by CID; those of a block log by number, id, or the id of a transaction
///
/// Ends with exit code 1 when a key is not in the database; the others are printed all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload get --db /data/blocks --as json \
                        bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu")]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// What to look for: CIDs in any multibase, or keys as hex; in a database made from a block log the number of a
    /// block, its id, or the id of a transaction in it; `-` reads them from standard input, one a line
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<String>,
    /// How to print a block; json is dag-json where the CID names dag-cbor or dag-pb, and the fields of its header for a
    /// block of a log. The default is hex, and json for a block of a log
    #[arg(long = "as", value_name = "FORM")]
    pub form: Option<Form>,
    /// The same as --as raw
    #[arg(long, conflicts_with = "form")]
    pub raw: bool,

    #[command(flatten)]
    pub location: LocationArgs,
}

/// How to print a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// As hex, one block a line.
    Hex,
    /// Its bytes, and nothing else.
    Raw,
    /// As JSON, one block a line.
    Json,
}

impl Args {
    /// The form that the options name, or `default`.
    fn form_or(&self, default: Form) -> Form {
        if self.raw { Form::Raw } else { self.form.unwrap_or(default) }
    }
}

/// Every key of the command line and, for `-`, of standard input.
fn each_key(args: &Args, mut take: impl FnMut(String) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for key in &args.keys {
        if key != "-" {
            take(key.clone())?;
            continue;
        }
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| match error.kind() {
                std::io::ErrorKind::InvalidData => Error::Usage {
                    reason: "standard input is no text in UTF-8".into(),
                    hint: "give one key a line".into(),
                },
                _ => Error::io("read", "standard input")(error),
            })?;
            if !line.trim().is_empty() {
                take(line.trim().to_owned())?;
            }
        }
    }
    Ok(())
}

/// Fails with exit code 1 when a key was not found.
fn all_found(args: &Args, missing: u64, requested: u64) -> anyhow::Result<()> {
    if missing == 0 {
        return Ok(());
    }
    let reason = if requested == 1 { "the key is".into() } else { format!("{missing} of {requested} keys are") };
    Err(Error::NotFound { path: args.db.clone(), reason: format!("{reason} not in the database") }.into())
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    if args.location.key.is_none()
        && args.location.column_family.is_none()
        && let Some(lookup) = BlockLookup::open(&args.db)?
    {
        return of_log(args, globals, &lookup);
    }
    let lookup = Lookup::open(&args.db, &args.location.location())?;
    let mut printer =
        Printer { args, globals, out: BufWriter::new(std::io::stdout().lock()), lookup, requested: 0, missing: 0 };
    let mut batch = Vec::new();
    each_key(args, |key| printer.add(&mut batch, key))?;
    printer.print(&mut batch)?;
    printer.out.flush()?;
    all_found(args, printer.missing, printer.requested)
}

/// Prints blocks of a log.
fn of_log(args: &Args, globals: &Globals, lookup: &BlockLookup) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut requested, mut missing) = (0, 0);
    each_key(args, |key| {
        let found = lookup.get(&key)?;
        requested += 1;
        missing += u64::from(found.is_none());
        let form = args.form_or(Form::Json);
        if globals.json {
            let content = match (form, &found) {
                (_, None) => ("block", serde_json::Value::Null),
                (Form::Json, Some(found)) => ("block", header_fields(lookup, found)),
                (Form::Hex | Form::Raw, Some(found)) => ("hex", HEXLOWER.encode(&found.block).into()),
            };
            let line = document(&key, found.as_ref().map(|found| &found.block[..]), content);
            writeln!(out, "{}", shown_json(&line.to_string()))?;
            return Ok(());
        }
        match (form, found) {
            // On standard error: standard output has blocks and nothing else.
            (_, None) => screen::print_to_stderr(&format!("not in the database: {key}")),
            (Form::Raw, Some(found)) => out.write_all(&found.block)?,
            (Form::Hex, Some(found)) => writeln!(out, "{}", HEXLOWER.encode(&found.block))?,
            (Form::Json, Some(found)) => writeln!(out, "{}", shown_json(&header_fields(lookup, &found).to_string()))?,
        }
        Ok(())
    })?;
    out.flush()?;
    all_found(args, missing, requested)
}

struct Printer<'a, W: Write> {
    args: &'a Args,
    globals: &'a Globals,
    out: W,
    lookup: Lookup,
    requested: u64,
    missing: u64,
}

impl<W: Write> Printer<'_, W> {
    fn add(&mut self, batch: &mut Vec<String>, key: String) -> anyhow::Result<()> {
        batch.push(key);
        if batch.len() >= BATCH {
            self.print(batch)?;
        }
        Ok(())
    }

    fn print(&mut self, batch: &mut Vec<String>) -> anyhow::Result<()> {
        let wanted = batch.iter().map(|text| self.lookup.wanted(text)).collect::<Result<Vec<_>, _>>()?;
        let blocks = self.lookup.get(&wanted)?;
        for (text, found) in batch.drain(..).zip(blocks) {
            self.requested += 1;
            self.missing += u64::from(found.is_none());
            if self.globals.json {
                let content = match (self.args.form_or(Form::Hex), &found) {
                    (_, None) => ("block", serde_json::Value::Null),
                    (Form::Json, Some(Found { block, codec })) => {
                        ("block", serde_json::from_str(&to_json(*codec, block))?)
                    }
                    (Form::Hex | Form::Raw, Some(found)) => ("hex", HEXLOWER.encode(&found.block).into()),
                };
                let line = document(&text, found.as_ref().map(|found| &found.block[..]), content);
                writeln!(self.out, "{}", shown_json(&line.to_string()))?;
                continue;
            }
            match (self.args.form_or(Form::Hex), found) {
                // On standard error: standard output has blocks and nothing else.
                (_, None) => screen::print_to_stderr(&format!("not in the database: {text}")),
                (Form::Raw, Some(found)) => self.out.write_all(&found.block)?,
                (Form::Hex, Some(found)) => writeln!(self.out, "{}", HEXLOWER.encode(&found.block))?,
                (Form::Json, Some(found)) => writeln!(self.out, "{}", shown_json(&to_json(found.codec, &found.block)))?,
            }
        }
        Ok(())
    }
}
