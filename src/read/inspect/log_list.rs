//! Lists every block of a log in order; each must follow the previous one.

use std::io::Write;
use std::path::Path;

use super::log::{WINDOW, each_batch, expectations};
use super::options::InspectOptions;
use crate::error::{Error, Result};
use crate::report::shell_word;
use crate::schema::NUMBER;
use crate::source::block_log::{Batch, Forward, Log, LogBody, LogFiles, LogProblem, RangeReader, Unpacker};
use crate::source::block_log::{Chain, Checked};

/// Writes number, id, sizes and offset of every block as a line of JSON.
pub(super) fn list(log: &Log, options: &InspectOptions, out: &mut dyn Write) -> Result<()> {
    let last = match &log.body {
        LogBody::Files(files) => list_files(files, log, options, out)?,
        LogBody::Stream(forward) => {
            let mut forward = forward.lock();
            list_stream(&mut forward, log, options, out)?
        }
    };
    out.flush().map_err(failed())?;
    if log.rest() == 0 {
        return Ok(());
    }
    Err(Error::VerificationFailed {
        action: "inspect",
        path: options.source.clone(),
        problems: "a torn tail".into(),
        hint: trim_hint(&options.source, last),
    })
}

/// The hint for a log that ends inside a block.
pub(crate) fn trim_hint(log: &Path, last: u32) -> String {
    let log = shell_word(log);
    format!("`bedload import {log} --db DIR --tail trim` imports up to block {last} and leaves the rest out")
}

fn list_files(files: &LogFiles, log: &Log, options: &InspectOptions, out: &mut dyn Write) -> Result<u32> {
    let expectations = expectations();
    let mut batch = Batch::default();
    let mut last = 0;
    for range in files.ranges(u64::MAX, &[], &log.dictionaries)? {
        let Some(mut reader) = RangeReader::new(files, &range, WINDOW) else { continue };
        let part = reader.part();
        let number = (files.parts.len() > 1).then_some(range.part + 1);
        let unpacker = Unpacker::new(&log.dictionaries);
        let mut chain = Chain::new(log.framing, &expectations, unpacker, range.first, range.before);
        loop {
            if options.resources.stop.is_cancelled() {
                return Err(Error::interrupted_reading());
            }
            let Chain { next, before, unpacker, .. } = &mut chain;
            if !reader.next(&mut batch, *next, before.as_ref(), unpacker)? {
                break;
            }
            lines(&mut chain, &mut batch, number, out, |offset, problem| part.bad(offset, problem))?;
        }
        last = range.last;
    }
    Ok(last)
}

fn list_stream(forward: &mut Forward, log: &Log, options: &InspectOptions, out: &mut dyn Write) -> Result<u32> {
    each_batch(forward, log, options, |chain, batch, _| {
        lines(chain, batch, None, out, |offset, problem| Error::bad_input(&options.source, offset, problem))
    })?;
    Ok(forward.last().unwrap_or_default())
}

/// Writes a line for each block of a batch.
fn lines(
    chain: &mut Chain<'_>,
    batch: &mut Batch,
    part: Option<usize>,
    out: &mut dyn Write,
    bad: impl Fn(u64, LogProblem) -> Error,
) -> Result<()> {
    let part = part.map(|part| format!(",\"part\":{part}")).unwrap_or_default();
    for at in 0..batch.spans.len() {
        let Some(&span) = batch.spans.get(at) else { break };
        let (offset, stored) = (batch.offset(span), span.end - span.start);
        let Checked { record, header } = chain.take(batch, at).map_err(|problem| bad(offset, problem))?;
        writeln!(
            out,
            "{{\"schema\":\"bedload-list-1\",\"type\":\"block\",\"number\":{},\"id\":\"{}\",\"bytes\":{},\
             \"stored_bytes\":{stored},\"offset\":{offset}{part}}}",
            header.number,
            header.id,
            record.len().saturating_sub(NUMBER)
        )
        .map_err(failed())?;
    }
    Ok(())
}

fn failed() -> impl FnOnce(std::io::Error) -> Error {
    Error::io("write", Path::new("-"))
}
