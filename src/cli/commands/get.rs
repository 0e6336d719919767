//! `bedload get`: prints single blocks.

use std::io::{BufRead, BufWriter, IsTerminal, StdoutLock, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::progress::CancellationToken;
use crate::read::Location;
use crate::read::block::{BlockLookup, FoundBlock};
use crate::read::get::{CarBlock, Lookup, header_with_names, to_json_with_names};
use crate::report::shown_json;
use crate::schema::{BLOCK_IDS, TRANSACTIONS};
use crate::text::size::grouped;
use clap::ValueEnum;
use data_encoding::HEXLOWER;

use crate::cli::globals::Globals;
use crate::cli::log::{self, LogLevel};
use crate::cli::output;
use crate::cli::render::block::{document, header_fields};
use crate::cli::render::screen;
use crate::cli::signals;

/// Keys looked up at once.
const BATCH: usize = 256;

/// Print blocks by CID; from a block log, by number, block id or transaction id
///
/// Exits with code 1 if a key is not in the database; the blocks of the other keys are printed.
#[derive(Debug, clap::Args)]
#[command(override_usage = "bedload get [OPTIONS] <DB> <KEY>...\n       bedload get [OPTIONS] --db <DIR> <KEY>...")]
#[command(after_help = "Example: bedload get /data/blocks --as json \
                        bafy2bzacedjrqan2fwfvhfopi64yickki7miiksecglpeiavf7xueytnzevlu")]
pub struct Args {
    /// The database, as an option
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// The database, unless --db names it; then the keys: CIDs in any multibase, or hex. In a database made from a block
    /// log: the number of a block, a range such as 1-5, `head`, the id of a block, or the id of a transaction. `-` reads
    /// keys from standard input, one per line
    #[arg(value_name = "KEY")]
    pub words: Vec<String>,
    /// The headers of the Filecoin tipset at this epoch
    #[arg(long, value_name = "EPOCH")]
    pub epoch: Option<u64>,
    /// Output format. json is dag-json for dag-cbor and dag-pb, with named fields for a Filecoin header, and header and
    /// transactions for a block of a log. The default is hex; json for a block of a log and for --epoch
    #[arg(long = "as", value_name = "FORM")]
    pub form: Option<BlockForm>,
    /// Short for --as raw
    #[arg(long, conflicts_with = "form")]
    pub raw: bool,

    #[command(flatten)]
    pub location: Location,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BlockForm {
    /// As hex, one block a line.
    Hex,
    /// Its bytes, and nothing else.
    Raw,
    /// As JSON, one block a line.
    Json,
}

impl Args {
    fn split(&self) -> crate::Result<(&Path, &[String])> {
        let (db, keys) = match (&self.db, self.words.split_first()) {
            (Some(db), _) => (Some(db.as_path()), &*self.words),
            (None, Some((db, keys))) => (Some(Path::new(db)), keys),
            (None, None) => (None, &*self.words),
        };
        match db {
            Some(db) if keys.is_empty() != self.epoch.is_none() => Ok((db, keys)),
            Some(_) if self.epoch.is_some() => {
                Err(Error::usage("--epoch cannot be combined with keys", "omit --epoch or the keys"))
            }
            Some(_) => {
                Err(Error::usage("no key is given", "name the database and a key, as in `bedload get chain 1000`"))
            }
            None => Err(Error::usage("no database and no key are given", "name both, as in `bedload get chain 1000`")),
        }
    }

    /// The form that the options name, or `default`.
    fn form_or(&self, default: BlockForm) -> BlockForm {
        if self.raw { BlockForm::Raw } else { self.form.unwrap_or(default) }
    }
}

/// Every key of the command line and, for `-`, of standard input.
fn each_key(
    keys: &[String],
    stop: &CancellationToken,
    mut take: impl FnMut(String) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut take = |key| {
        stop.check(Error::interrupted_reading)?;
        take(key)
    };
    for key in keys {
        if key != "-" {
            take(key.clone())?;
            continue;
        }
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| match error.kind() {
                std::io::ErrorKind::InvalidData => {
                    Error::usage("standard input is not UTF-8 text", "give one key a line")
                }
                _ => Error::io("read", "standard input")(error),
            })?;
            if !line.trim().is_empty() {
                take(line.trim().to_owned())?;
            }
        }
    }
    Ok(())
}

fn not_found(key: &str) {
    let message = format!("not in the database: {key}");
    match log::is_json() {
        true => log::write(LogLevel::Warning, &message, serde_json::Value::Null),
        false => screen::print_to_stderr(&message),
    }
}

/// Fails with exit code 1 when a key was not found.
fn all_found(db: &Path, missing: u64, requested: u64, hint: &str) -> anyhow::Result<()> {
    if missing == 0 {
        return Ok(());
    }
    let keys = match requested {
        1 => "the key is".into(),
        _ => format!("{} of {} keys are", grouped(missing), grouped(requested)),
    };
    let reason = format!("{keys} not in the database");
    Err(Error::NotFound { path: db.to_owned(), reason, hint: hint.into() }.into())
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let (db, keys) = args.split()?;
    // Bytes of a block may be escape sequences.
    if args.form_or(BlockForm::Hex) == BlockForm::Raw && !globals.json && std::io::stdout().is_terminal() {
        return Err(output::refuse_terminal("the bytes of a block"));
    }
    let stop = CancellationToken::default();
    signals::cancel_on_signals(&stop, || "nothing was changed; run it again".into())?;
    if args.location.key.is_none()
        && args.location.column_family.is_none()
        && let Some(lookup) = BlockLookup::open(db)?
    {
        return of_log(args, globals, &lookup, &stop);
    }
    let lookup = Lookup::open(db, &args.location)?;
    let mut printer = Printer::new(args, globals);
    if let Some(epoch) = args.epoch {
        for (cid, found) in lookup.tipset(epoch, &stop)? {
            printer.print_found(&cid.to_string(), Some(found), BlockForm::Json)?;
        }
        return Ok(printer.out.flush()?);
    }
    let mut batch = Vec::new();
    let mut print = |batch: &mut Vec<String>| {
        let wanted = batch.iter().map(|text| lookup.wanted(text)).collect::<Result<Vec<_>, _>>()?;
        let blocks = lookup.get(&wanted)?;
        batch.drain(..).zip(blocks).try_for_each(|(key, found)| printer.print_found(&key, found, BlockForm::Hex))
    };
    each_key(keys, &stop, |key| {
        batch.push(key);
        if batch.len() < BATCH { Ok(()) } else { print(&mut batch) }
    })?;
    print(&mut batch)?;
    printer.out.flush()?;
    let hint = "check the key, and whether it is in another --column-family; without BEDLOAD.json, also --key";
    all_found(db, printer.missing, printer.requested, hint)
}

/// Prints blocks of a log.
fn of_log(args: &Args, globals: &Globals, lookup: &BlockLookup, stop: &CancellationToken) -> anyhow::Result<()> {
    let (db, keys) = args.split()?;
    if args.epoch.is_some() {
        let hint = "give the number of a block";
        return Err(Error::usage("--epoch is for Filecoin, and this database was made from a block log", hint).into());
    }
    let mut printer = Printer::new(args, globals);
    // The count of missing keys that are numbers, and the first of them.
    let (mut lost, mut first_lost) = (0, None);
    let mut print = |key: String| {
        let found = lookup.get(&key)?;
        if let (Some(number), None) = (number(&key), &found) {
            first_lost.get_or_insert(number);
            lost += 1;
        }
        let json = |found: &FoundBlock| header_fields(lookup, found).to_string();
        printer.print(&key, found.as_ref().map(|found| (found, &found.block[..])), BlockForm::Json, json, |_| None)
    };
    each_key(keys, stop, |key| match numbers(&key, db, lookup)? {
        Some(mut numbers) => numbers.try_for_each(|number| print(number.to_string())),
        None => print(key),
    })?;
    printer.out.flush()?;
    let Printer { requested, missing, .. } = printer;
    match (first_lost, lookup.bounds()?) {
        (Some(number), Some((first, last))) if (u64::from(first)..=u64::from(last)).contains(&number) => {
            let reason = format!("block {number} is not in the database, which has others from {first} to {last}");
            let hint = "bedload verify lists all missing blocks".into();
            Err(Error::NotFound { path: db.to_owned(), reason, hint }.into())
        }
        (Some(number), Some(bounds)) if lost == missing => {
            let what =
                if requested == 1 { format!("block {number} is") } else { format!("{lost} of {requested} keys are") };
            Err(not_there(db, &what, bounds).into())
        }
        _ => all_found(db, missing, requested, id_hint(lookup)),
    }
}

fn id_hint(lookup: &BlockLookup) -> &'static str {
    match (lookup.has(BLOCK_IDS), lookup.has(TRANSACTIONS)) {
        (true, true) => "check the id",
        (true, false) => "only ids of blocks are indexed; `bedload import --indexes ids,transactions` indexes both",
        (false, true) => {
            "only ids of transactions are indexed; `bedload import --indexes ids,transactions` indexes both"
        }
        (false, false) => "only numbers are indexed; `bedload import --indexes ids,transactions` indexes ids",
    }
}

/// The numbers of a key such as `1-5` or `head`; `None` for other keys.
fn numbers(key: &str, db: &Path, lookup: &BlockLookup) -> anyhow::Result<Option<RangeInclusive<u32>>> {
    let range = key.trim().split_once('-').and_then(|(from, to)| Some((number(from)?, number(to)?)));
    if range.is_none() && key.trim() != "head" {
        return Ok(None);
    }
    let Some((first, last)) = lookup.bounds()? else { return Ok(None) };
    match range {
        None => Ok(Some(last..=last)),
        Some((from, to)) if from > to => {
            let reason = format!("the range {key} ends before it begins");
            Err(Error::usage(reason, format!("write it as {to}-{from}")).into())
        }
        Some((from, to)) if from < u64::from(first) || to > u64::from(last) => {
            Err(not_there(db, &format!("blocks {from} to {to} are"), (first, last)).into())
        }
        Some((from, to)) => Ok(Some(u32::try_from(from)?..=u32::try_from(to)?)),
    }
}

/// A text of digits alone as a number.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn not_there(db: &Path, what: &str, (first, last): (u32, u32)) -> Error {
    let reason = format!("{what} not in the database, which has blocks {first} to {last}");
    Error::not_found(db.to_owned(), reason, "choose numbers in this range; `head` is the last block")
}

struct Printer<'a> {
    args: &'a Args,
    globals: &'a Globals,
    out: BufWriter<StdoutLock<'static>>,
    requested: u64,
    missing: u64,
}

impl<'a> Printer<'a> {
    fn new(args: &'a Args, globals: &'a Globals) -> Self {
        Self { args, globals, out: BufWriter::new(std::io::stdout().lock()), requested: 0, missing: 0 }
    }

    /// Prints a block of a CAR.
    fn print_found(&mut self, key: &str, found: Option<CarBlock>, default: BlockForm) -> anyhow::Result<()> {
        let json = |CarBlock { block, codec }: &CarBlock| to_json_with_names(*codec, block);
        let header = |CarBlock { block, codec }: &CarBlock| header_with_names(*codec, block);
        self.print(key, found.as_ref().map(|found| (found, &found.block[..])), default, json, header)
    }

    /// Prints the block of a key in the form that the options name, or in `default`. With `--json` the `header` is added,
    /// unless a form was chosen: readers want its fields more often than its bytes.
    fn print<T>(
        &mut self,
        key: &str,
        found: Option<(&T, &[u8])>,
        default: BlockForm,
        json: impl Fn(&T) -> String,
        header: impl Fn(&T) -> Option<String>,
    ) -> anyhow::Result<()> {
        self.requested += 1;
        self.missing += u64::from(found.is_none());
        let form = self.args.form_or(default);
        if self.globals.json {
            let content = match (form, found) {
                (_, None) => ("block", serde_json::Value::Null),
                (BlockForm::Json, Some((found, _))) => ("block", serde_json::from_str(&json(found))?),
                (BlockForm::Hex | BlockForm::Raw, Some((_, block))) => ("hex", HEXLOWER.encode(block).into()),
            };
            let mut line = document(key, found.map(|(_, block)| block), content);
            let is_default = self.args.form.is_none() && !self.args.raw;
            if let Some(header) = found.filter(|_| is_default).and_then(|(found, _)| header(found)) {
                line["block"] = serde_json::from_str(&header)?;
            }
            return Ok(writeln!(self.out, "{}", shown_json(&line.to_string()))?);
        }
        match (form, found) {
            // On standard error: standard output has only blocks.
            (_, None) => not_found(key),
            (BlockForm::Raw, Some((_, block))) => self.out.write_all(block)?,
            (BlockForm::Hex, Some((_, block))) => writeln!(self.out, "{}", HEXLOWER.encode(block))?,
            (BlockForm::Json, Some((found, _))) => writeln!(self.out, "{}", shown_json(&json(found)))?,
        }
        Ok(())
    }
}
