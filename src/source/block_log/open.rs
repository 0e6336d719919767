//! Opens a log from files or a stream.

use std::path::Path;

use data_encoding::HEXLOWER;
use parking_lot::Mutex;

use super::discover::part_number;
use super::part::LogPart;
use super::preamble::Preamble;
use super::{Dictionaries, Forward, Framing, IndexUse, LogFiles, LogLayout, PEEK, TornTail, is_block_log, is_set};
use crate::blocks::chain::Family;
use crate::error::Result;
use crate::source::input::{Body, Compression, Input, peek};

pub(crate) struct Log {
    pub body: LogBody,
    pub dictionaries: Dictionaries,
    pub compression: Compression,
    /// Bytes on disk; `None` for a pipe.
    pub size: Option<u64>,
    pub framing: Framing,
    preamble: Option<Preamble>,
}

pub(crate) enum LogBody {
    Files(LogFiles),
    Stream(Box<Mutex<Forward>>),
}

pub(crate) enum Opened {
    Log(Box<Log>),
    /// A CAR, or nothing that is known here.
    Other(Input),
}

/// The format that the caller expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    Log,
    /// Any: the first bytes decide.
    Either,
}

impl Log {
    /// Opens a log of several files. `None` if the source is one file.
    pub fn of_set(path: &Path, tail: TornTail, dictionaries: &Dictionaries) -> Result<Option<Self>> {
        if !is_set(path) {
            return Ok(None);
        }
        let files = LogFiles::open(path, tail, dictionaries)?;
        let size = Some(files.size());
        Ok(Some(Self::of_files(files, dictionaries, Compression::None, size)))
    }

    fn of_files(files: LogFiles, dictionaries: &Dictionaries, compression: Compression, size: Option<u64>) -> Self {
        let first = files.parts.first();
        let framing = first.map_or(Framing::Graphene, |part| part.framing);
        let preamble = first.and_then(|part| part.preamble.clone());
        let (body, dictionaries) = (LogBody::Files(files), dictionaries.clone());
        Self { body, dictionaries, compression, size, framing, preamble }
    }

    /// Opens an input as a log, if it is one.
    pub fn detect(mut input: Input, sought: Sought, tail: TornTail, dictionaries: &Dictionaries) -> Result<Opened> {
        let (head, ends) = peek(&mut input, PEEK)?;
        if sought == Sought::Either && !is_block_log(&head, ends) {
            return Ok(Opened::Other(input));
        }
        let Input { name, size, compression, body, .. } = input;
        let log = match body {
            Body::File(file) => {
                let files = LogFiles::of_file(&name, file, tail, dictionaries)?;
                Self::of_files(files, dictionaries, compression, size)
            }
            Body::Stream(stream) => {
                let forward = Forward::open(&name, stream, tail, dictionaries)?;
                let (framing, preamble, dictionaries) =
                    (forward.framing, forward.preamble.clone(), dictionaries.clone());
                let body = LogBody::Stream(Box::new(Mutex::new(forward)));
                Self { body, dictionaries, compression, size, framing, preamble }
            }
        };
        Ok(Opened::Log(Box::new(log)))
    }

    fn part_files(&self) -> &[LogPart] {
        match &self.body {
            LogBody::Files(files) => &files.parts,
            LogBody::Stream(_) => &[],
        }
    }

    pub fn is_piped(&self) -> bool {
        matches!(self.body, LogBody::Stream(_))
    }

    /// Returns the family by the files and by whether blocks are `packed`.
    pub fn family(&self, packed: bool) -> Family {
        if let Framing::Antelope { .. } = self.framing {
            return Family::Antelope;
        }
        let is_hives = self.part_files().iter().any(|part| {
            part.path.file_name().and_then(part_number).is_some()
                || part.index_use().is_some_and(|used| used.kind != "index")
        });
        if packed || is_hives { Family::Hive } else { Family::Steem }
    }

    pub fn chain_id(&self) -> Option<String> {
        self.preamble.as_ref().map(|preamble| preamble.chain_id.to_string())
    }

    /// Returns the layout of the log if blocks `first` to `last` were read.
    pub fn layout(&self, first: u32, last: u32) -> LogLayout {
        let end = match &self.body {
            LogBody::Files(files) => match &files.parts[..] {
                [part] if (part.first.number, part.last.number) == (first, last) => Some(part.end),
                _ => None,
            },
            LogBody::Stream(forward) => {
                let forward = forward.lock();
                forward.end().filter(|_| forward.first == Some(first))
            }
        };
        let pruned = self.preamble.as_ref().is_some_and(|preamble| preamble.pruned);
        let head = self.preamble.as_ref().map(|preamble| HEXLOWER.encode(&preamble.bytes));
        LogLayout { bytes: end.filter(|_| !pruned), pruned, head }
    }

    /// Version of an Antelope log, 0 for others.
    pub fn version(&self) -> u32 {
        self.framing.version()
    }

    pub fn indexes(&self) -> Vec<IndexUse> {
        self.part_files().iter().filter_map(LogPart::index_use).collect()
    }

    pub fn rest(&self) -> u64 {
        match &self.body {
            LogBody::Files(files) => files.parts.last().map_or(0, |part| part.rest),
            LogBody::Stream(forward) => forward.lock().rest,
        }
    }

    pub fn parts(&self) -> u64 {
        self.part_files().len().max(1) as u64
    }

    /// True if such a log may begin after block 1.
    pub fn may_begin_later(&self) -> bool {
        let is_set = matches!(&self.body, LogBody::Files(files) if is_set(&files.path));
        is_set || self.preamble.as_ref().is_some_and(|preamble| preamble.pruned || preamble.first_block != 1)
    }
}
