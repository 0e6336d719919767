//! What an import asks of the log it reads.

use std::path::Path;
use std::sync::PoisonError;

use super::super::identity::{Origin, is_file};
use super::super::options::{Format, ImportOptions, LogOptions};
use super::output::RangeDone;
use crate::chain::Id;
use crate::error::{Error, Result};
use crate::source::block_log::{Dictionaries, Log, LogBody, LogProblem, Opened, Sought, TornTail};
use crate::source::input::Input;

/// Bytes of a pipe that tell it from another one.
const HEAD: usize = 4096;

/// Opens what is several files; `None` when the source is one file, or a CAR by the caller's word.
///
/// # Errors
/// A set that is incomplete, or no log.
pub(in crate::load) fn of_set(options: &ImportOptions, dictionaries: &Dictionaries) -> Result<Option<Log>> {
    if options.format == Format::Car { Ok(None) } else { Log::of_set(&options.source, options.log.tail, dictionaries) }
}

/// Looks whether an opened input is a log, and opens it as one.
///
/// # Errors
/// It is one, or should be by the caller's word, and cannot be read.
pub(in crate::load) fn detect(input: Input, options: &ImportOptions, dictionaries: &Dictionaries) -> Result<Opened> {
    let sought = match options.format {
        Format::Car => return Ok(Opened::Other(input)),
        Format::BlockLog => Sought::Log,
        Format::Auto => Sought::Either,
    };
    Log::detect(input, sought, options.log.tail, dictionaries)
}

/// What tells a log from another one.
pub(in crate::load) fn origin<'a>(log: &'a Log, options: &ImportOptions) -> Origin<'a> {
    let chosen = chosen(&options.log);
    match &log.body {
        LogBody::Files(files) => {
            // Standard input has no name to look at later.
            let named = files.parts.iter().filter(|part| is_file(&part.path));
            let files = named.map(|part| (part.path.clone(), part.file())).collect();
            Origin { head: Vec::new(), files, log: chosen }
        }
        LogBody::Stream(forward) => {
            let forward = forward.lock().unwrap_or_else(PoisonError::into_inner);
            let head = forward.head();
            Origin { head: head.get(..HEAD).unwrap_or(head).to_vec(), files: Vec::new(), log: chosen }
        }
    }
}

/// What was chosen, as the command line says it; nothing where that is the default.
fn chosen(options: &LogOptions) -> String {
    let LogOptions {
        dictionaries,
        tail,
        from,
        to,
        expect_head,
        checkpoints,
        no_id_index,
        index_transactions,
        links_only,
        skip_unknown_operations,
    } = options;
    let number = |name: &str, number: &Option<u32>| number.map(|number| format!("{name} {number}"));
    let block = |name: &str, (number, id): &(u32, Id)| format!("{name} {number}:{id}");
    let flag = |text: &str, given: bool| given.then(|| text.to_owned());
    let mut words: Vec<String> = Vec::new();
    words.extend(dictionaries.as_ref().map(|dir| format!("--dictionaries {}", dir.display())));
    words.extend(flag("--tail trim", *tail == TornTail::Trim));
    words.extend(number("--from", from));
    words.extend(number("--to", to));
    words.extend(expect_head.as_ref().map(|head| block("--expect-head", head)));
    // There may be as many as blocks.
    if !checkpoints.is_empty() {
        let all: String = checkpoints.iter().map(|checkpoint| block("\n", checkpoint)).collect();
        let hash = twox_hash::XxHash3_64::oneshot(all.as_bytes());
        words.push(format!("--checkpoint ({} blocks, {hash:016x})", checkpoints.len()));
    }
    words.extend(flag("--no-id-index", *no_id_index));
    words.extend(flag("--index transactions", *index_transactions));
    words.extend(flag("--verify links", *links_only));
    words.extend(flag("--unknown-operations skip", *skip_unknown_operations));
    words.join(" ")
}

/// Checks the blocks that are asked for against those that are there: the first one, and the last one where that is
/// known. A log `may_begin_later` than with block 1.
///
/// # Errors
/// They are not all there.
pub(super) fn check_bounds(
    name: &Path,
    options: &ImportOptions,
    first: u32,
    last: Option<u32>,
    may_begin_later: bool,
) -> Result<()> {
    let bad = |problem: LogProblem| Err(Error::bad_input(name, None, problem));
    let (from, to) = (options.log.from, options.log.to);
    if from.is_none() && first != 1 && !may_begin_later {
        return bad(LogProblem::First { found: first });
    }
    let checkpoints = options.log.checkpoints.iter().map(|(number, _)| *number);
    for wanted in from.into_iter().chain(to).chain(checkpoints) {
        // Of a pipe the end is not known yet.
        if wanted < first || last.is_some_and(|last| wanted > last) {
            return bad(LogProblem::OutOfRange { wanted, first, last });
        }
    }
    Ok(())
}

/// Checks that each range follows the one before it.
///
/// # Errors
/// One does not.
pub(super) fn check_joins(input: &Log, options: &ImportOptions, ranges: &[RangeDone]) -> Result<()> {
    for pair in ranges.windows(2) {
        let [one, next] = pair else { continue };
        let bad = |problem: LogProblem| {
            let path = match &input.body {
                LogBody::Files(files) => files.parts.get(next.part).map(|part| part.path.clone()),
                LogBody::Stream(_) => None,
            };
            let path = path.unwrap_or_else(|| options.source.clone());
            Err(Error::bad_input(&path, next.start, problem))
        };
        let number = next.first.number;
        if one.last.number.checked_add(1) != Some(number) {
            let expected = one.last.number.saturating_add(1);
            return bad(LogProblem::Number { expected, found: number });
        }
        if next.before != one.last.id
            && options.verify
            && let (Ok(previous), Ok(before)) = (next.before.parse(), one.last.id.parse())
        {
            return bad(LogProblem::Link { number, previous, before });
        }
    }
    Ok(())
}

/// Checks that the last block is the one that is expected, if one is.
///
/// # Errors
/// It is another one.
pub(super) fn check_head(options: &ImportOptions, ranges: &[RangeDone]) -> Result<()> {
    let last = ranges.last().map(|range| &range.last);
    let (Some((expected, id)), Some(last)) = (options.log.expect_head, last) else { return Ok(()) };
    let found = last.id.parse().unwrap_or(id);
    let problem = if last.number != expected {
        LogProblem::Head { expected, found: last.number, id: found }
    } else if found != id {
        LogProblem::Checkpoint { number: expected, expected: id, found }
    } else {
        return Ok(());
    };
    Err(Error::bad_input(&options.source, None, problem))
}
