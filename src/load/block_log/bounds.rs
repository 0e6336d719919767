//! Requirements of an import on its log.

use crate::error::{Error, Result};
use crate::load::built::RangeDone;
use crate::load::options::ImportOptions;
use crate::source::block_log::{Log, LogBody, LogProblem};

/// Checks that each range follows the one before it.
pub(super) fn check_joins(input: &Log, options: &ImportOptions, ranges: &[RangeDone]) -> Result<()> {
    for pair in ranges.windows(2) {
        let [one, next] = pair else { continue };
        let bad = |problem: LogProblem| {
            let path = match &input.body {
                LogBody::Files(files) => files.parts.get(next.part).map(|part| part.path.clone()),
                LogBody::Stream(_) => None,
            };
            let path = path.unwrap_or_else(|| options.source().to_owned());
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
pub(super) fn check_head(options: &ImportOptions, ranges: &[RangeDone]) -> Result<()> {
    let last = ranges.last().map(|range| &range.last);
    let (Some((expected, id)), Some(last)) = (options.log.expect_head, last) else { return Ok(()) };
    if last.number == expected && last.id == id.to_string() {
        return Ok(());
    }
    // The id was written by this program, here or into a journal that it checked.
    let found = last.id.parse().unwrap_or(id);
    let problem = if last.number == expected {
        LogProblem::Checkpoint { number: expected, expected: id, found }
    } else {
        LogProblem::Head { expected, found: last.number, id: found }
    };
    Err(Error::bad_input(options.source(), None, problem))
}
