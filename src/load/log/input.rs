//! The log that an import reads: files, or bytes that come front to back.

use std::path::Path;
use std::sync::Mutex;

use super::super::identity::Origin;
use super::super::lock;
use super::super::options::{Format, ImportOptions};
use crate::chain::Family;
use crate::error::{Error, Result};
use crate::report::IndexUse;
use crate::source::block_log::{
    self, Dictionaries, Forward, Framing, LogFiles, LogProblem, PEEK, Packing, is_block_log, is_set,
};
use crate::source::input::{Body, Input, Wrapping, peek};

/// Bytes of a pipe that tell it from another one.
const HEAD: usize = 4096;

/// A log that has been opened.
pub(in crate::load) struct LogInput {
    pub body: LogBody,
    pub dictionaries: Dictionaries,
    pub wrapping: Wrapping,
    /// Bytes as they lie on disk; `None` for a pipe.
    pub size: Option<u64>,
}

/// Where the bytes come from.
pub(in crate::load) enum LogBody {
    Files(LogFiles),
    Stream(Box<Mutex<Forward>>),
}

/// What an import's source is.
pub(in crate::load) enum Opened {
    Log(Box<LogInput>),
    /// A CAR, or nothing that is known here.
    Other(Input),
}

impl LogInput {
    /// Opens what is several files; `None` when the source is one file, or a CAR by the caller's word.
    ///
    /// # Errors
    /// A set that is incomplete, or no log.
    pub fn of_set(options: &ImportOptions, dictionaries: &Dictionaries) -> Result<Option<Self>> {
        let is_log = options.format != Format::Car && is_set(&options.source);
        if !is_log {
            return Ok(None);
        }
        let files = LogFiles::open(&options.source, options.log.tail, dictionaries)?;
        let size = Some(files.size());
        let dictionaries = dictionaries.clone();
        Ok(Some(Self { body: LogBody::Files(files), dictionaries, wrapping: Wrapping::None, size }))
    }

    /// Looks whether an opened input is a log, and opens it as one.
    ///
    /// # Errors
    /// It is one, or should be by the caller's word, and cannot be read.
    pub fn detect(mut input: Input, options: &ImportOptions, dictionaries: &Dictionaries) -> Result<Opened> {
        if options.format == Format::Car {
            return Ok(Opened::Other(input));
        }
        let (head, ends) = peek(&mut input, PEEK)?;
        if options.format == Format::Auto && !is_block_log(&head, ends) {
            return Ok(Opened::Other(input));
        }
        let Input { name, size, wrapping, body, .. } = input;
        let tail = options.log.tail;
        let body = match body {
            Body::File(file) => LogBody::Files(LogFiles::of_file(&name, file, tail, dictionaries)?),
            Body::Stream(stream) => {
                LogBody::Stream(Box::new(Mutex::new(Forward::open(&name, stream, tail, dictionaries)?)))
            }
        };
        Ok(Opened::Log(Box::new(Self { body, dictionaries: dictionaries.clone(), wrapping, size })))
    }

    pub fn is_piped(&self) -> bool {
        matches!(self.body, LogBody::Stream(_))
    }

    /// What tells it from another source.
    pub fn origin(&self, options: &ImportOptions) -> Origin {
        let log = format!("{:?}", options.log);
        match &self.body {
            LogBody::Files(files) => {
                Origin { head: Vec::new(), files: files.parts.iter().map(|part| part.path.clone()).collect(), log }
            }
            LogBody::Stream(forward) => {
                let forward = lock(forward);
                let head = forward.head();
                Origin { head: head.get(..HEAD).unwrap_or(head).to_vec(), files: Vec::new(), log }
            }
        }
    }

    pub fn framing(&self) -> Framing {
        match &self.body {
            LogBody::Files(files) => files.framing(),
            LogBody::Stream(forward) => lock(forward).framing,
        }
    }

    /// The family, as far as the files alone tell it; whether blocks were packed says the rest.
    pub fn family(&self, packed: bool) -> Family {
        if let Framing::Antelope { .. } = self.framing() {
            return Family::Antelope;
        }
        let is_hives = match &self.body {
            LogBody::Files(files) => files.parts.iter().any(|part| {
                let name = part.path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("block_log_part.") || part.index_use().is_some_and(|used| used.kind != "index")
            }),
            LogBody::Stream(_) => false,
        };
        if packed || is_hives { Family::Hive } else { Family::Steem }
    }

    /// The chain's id, where the log says it.
    pub fn chain_id(&self) -> Option<String> {
        let id = match &self.body {
            LogBody::Files(files) => files.preamble().map(|preamble| preamble.chain_id),
            LogBody::Stream(forward) => lock(forward).preamble.as_ref().map(|preamble| preamble.chain_id),
        };
        id.map(|id| id.to_string())
    }

    /// Version of an Antelope log; 0 for others.
    pub fn version(&self) -> u32 {
        self.framing().version()
    }

    pub fn indexes(&self) -> Vec<IndexUse> {
        match &self.body {
            LogBody::Files(files) => files.indexes(),
            LogBody::Stream(_) => Vec::new(),
        }
    }

    /// Bytes behind the last whole block.
    pub fn rest(&self) -> u64 {
        match &self.body {
            LogBody::Files(files) => files.parts.last().map_or(0, |part| part.rest),
            LogBody::Stream(forward) => lock(forward).rest,
        }
    }

    pub fn parts(&self) -> u64 {
        match &self.body {
            LogBody::Files(files) => files.parts.len() as u64,
            LogBody::Stream(_) => 1,
        }
    }

    /// Whether such a log may begin with another block than the first.
    fn may_begin_later(&self) -> bool {
        let is_later = |preamble: Option<&block_log::preamble::Preamble>| {
            preamble.is_some_and(|preamble| preamble.pruned || preamble.first_block != 1)
        };
        match &self.body {
            LogBody::Files(files) => is_set(&files.path) || is_later(files.preamble()),
            LogBody::Stream(forward) => is_later(lock(forward).preamble.as_ref()),
        }
    }

    /// Checks the blocks that are asked for against those that are there: the first one, and the last one where that is
    /// known.
    ///
    /// # Errors
    /// They are not all there.
    pub fn check_bounds(&self, options: &ImportOptions, first: u32, last: Option<u32>) -> Result<()> {
        self.check_bounds_of(options, first, last, self.may_begin_later())
    }

    /// The same for somebody who has the log locked.
    pub fn check_bounds_of(
        &self,
        options: &ImportOptions,
        first: u32,
        last: Option<u32>,
        may_begin_later: bool,
    ) -> Result<()> {
        let bad = |problem: LogProblem| Err(Error::bad_input(self.name(&options.source), None, problem));
        let (from, to) = (options.log.from, options.log.to);
        if from.is_none() && first != 1 && !may_begin_later {
            return bad(LogProblem::First { found: first });
        }
        let checkpoints = options.log.checkpoints.iter().map(|(number, _)| *number);
        let head = options.log.expect_head.map(|(number, _)| number);
        for wanted in from.into_iter().chain(to).chain(checkpoints).chain(head) {
            // Of a pipe the end is not known yet.
            if wanted < first || last.is_some_and(|last| wanted > last) {
                return bad(LogProblem::OutOfRange { wanted, first, last: last.unwrap_or(u32::MAX) });
            }
        }
        Ok(())
    }

    fn name<'n>(&'n self, source: &'n Path) -> &'n Path {
        match &self.body {
            LogBody::Files(files) if files.parts.len() == 1 => files.parts.first().map_or(source, |part| &part.path),
            _ => source,
        }
    }
}

/// Whether blocks lie packed.
pub(super) fn is_packed(packing: Packing) -> bool {
    packing != Packing::Raw
}
