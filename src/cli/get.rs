//! `bedload get`: single blocks.

use std::io::{BufRead, BufWriter, Write};
use std::path::PathBuf;

use bedload::Error;
use bedload::read::get::{Lookup, to_json};
use clap::ValueEnum;

use super::Globals;
use super::shared::LocationArgs;

/// Keys looked up at once.
const BATCH: usize = 256;

/// Print blocks by their CIDs
///
/// Ends with exit code 1 when a key is not in the database; the others are printed all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload get --db /data/blocks --as json \
                        bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu")]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// What to look for: CIDs in any multibase, or keys as hex; `-` reads them from standard input, one a line
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<String>,
    /// How to print a block; json is dag-json where the CID names dag-cbor or dag-pb
    #[arg(long = "as", value_name = "FORM", default_value = "hex")]
    pub form: Form,

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

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let lookup = Lookup::open(&args.db, &args.location.location())?;
    let mut printer =
        Printer { args, globals, out: BufWriter::new(std::io::stdout().lock()), lookup, asked: 0, lost: 0 };
    let mut batch = Vec::new();
    for key in &args.keys {
        if key != "-" {
            printer.add(&mut batch, key.clone())?;
            continue;
        }
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(Error::io("read", "-"))?;
            if !line.trim().is_empty() {
                printer.add(&mut batch, line.trim().to_owned())?;
            }
        }
    }
    printer.print(&mut batch)?;
    printer.out.flush()?;
    let (lost, asked) = (printer.lost, printer.asked);
    if lost == 0 {
        return Ok(());
    }
    let reason = if asked == 1 { "the key is".into() } else { format!("{lost} of {asked} keys are") };
    Err(Error::NotFound { path: args.db.clone(), reason: format!("{reason} not in the database") }.into())
}

struct Printer<'a, W: Write> {
    args: &'a Args,
    globals: &'a Globals,
    out: W,
    lookup: Lookup,
    asked: u64,
    lost: u64,
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
        for ((text, wanted), block) in batch.drain(..).zip(&wanted).zip(blocks) {
            self.asked += 1;
            self.lost += u64::from(block.is_none());
            if self.globals.json {
                let (form, content) = match (self.args.form, &block) {
                    (_, None) => ("block", serde_json::Value::Null),
                    (Form::Json, Some(block)) => ("block", serde_json::from_str(&to_json(wanted.codec, block))?),
                    (Form::Hex | Form::Raw, Some(block)) => ("hex", hex(block).into()),
                };
                let line = serde_json::json!({
                    "schema": "bedload-get-1", "key": text, "found": block.is_some(),
                    "bytes": block.as_ref().map(Vec::len), form: content,
                });
                writeln!(self.out, "{line}")?;
                continue;
            }
            match (self.args.form, block) {
                // Said on standard error: standard output has blocks and nothing else.
                (_, None) => writeln!(std::io::stderr(), "not in the database: {text}")?,
                (Form::Raw, Some(block)) => self.out.write_all(&block)?,
                (Form::Hex, Some(block)) => writeln!(self.out, "{}", hex(&block))?,
                (Form::Json, Some(block)) => writeln!(self.out, "{}", to_json(wanted.codec, &block))?,
            }
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
