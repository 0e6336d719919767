//! Opening the source: its format, its compression, and its identity.

use std::fs::File;

use crate::error::Result;
use crate::load::identity::{Origin, is_file};
use crate::load::options::{F3Data, Format, ImportOptions, LogOptions};
use crate::load::validate;
use crate::report::{Plan, SourceInfo};
use crate::source::block_log::{Dictionaries, Log, LogBody, Opened, Sought, TornTail};
use crate::source::car::Header;
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::input::{self, Body, Compression, Input, InputOptions};

/// The share of the budget that one block may have: it is read, sorted and built while others are, and RocksDB copies
/// it once or twice.
const BLOCK_SHARE: u64 = 4;

/// The least that decompressing a source can work with, in bytes.
const MIN_DECOMPRESSION: u64 = 20 << 20;

/// Bytes of a pipe that identify it.
const HEAD: usize = 4096;

/// A source that is open; of a CAR the header is not read yet.
pub(super) struct OpenSource {
    opened: Opened,
    pub compression: Compression,
    pub size: Option<u64>,
    /// Blocks in it, where it says so.
    pub blocks: Option<u64>,
    /// Whether it is a file that needs no decompression.
    pub plain: bool,
}

/// A source at its first block.
pub(super) enum Source {
    Car(Box<Car>),
    BlockLog(Box<Log>),
}

/// A CAR behind its header.
pub(super) struct Car {
    header: Header,
    pub chunks: Chunks,
    /// The source, where it is a file that was opened by its name.
    file: Option<File>,
}

impl OpenSource {
    /// Opens the source, which is decompressed on up to `threads` threads, and detects its format.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), [`Error::BadInput`](crate::Error::BadInput): it is not there, or is nothing that
    /// can be read.
    pub fn open(options: &ImportOptions, threads: usize) -> Result<Self> {
        let memory = (options.memory_budget() / 4).max(MIN_DECOMPRESSION);
        let dictionaries = Dictionaries::new(options.log.dictionaries.as_deref());
        let set = match options.format {
            Format::Car => None,
            // A log that is several files.
            _ => Log::of_set(&options.source, options.log.tail, &dictionaries)?,
        };
        let opened = match set {
            Some(log) => Opened::Log(Box::new(log)),
            None => detect(input::open(&options.source, &InputOptions { threads, memory })?, options, &dictionaries)?,
        };
        let (compression, size, blocks, plain) = match &opened {
            Opened::Log(log) => (log.compression, log.size, None, !log.is_piped()),
            Opened::Other(input) => (input.compression, input.size, input.blocks, matches!(input.body, Body::File(_))),
        };
        Ok(Self { opened, compression, size, blocks, plain })
    }

    /// The block log that it is, if it is one.
    pub fn log(&self) -> Option<&Log> {
        match &self.opened {
            Opened::Log(log) => Some(log),
            Opened::Other(_) => None,
        }
    }

    /// Goes to the first block.
    ///
    /// # Errors
    /// [`Error::BadInput`](crate::Error::BadInput) where a CAR's header is damaged, [`Error::Usage`](crate::Error::Usage)
    /// where options of block logs are given for a CAR.
    pub fn read_header(self, options: &ImportOptions, plan: &Plan) -> Result<Source> {
        let mut input = match self.opened {
            Opened::Log(log) => return Ok(Source::BlockLog(log)),
            Opened::Other(input) => input,
        };
        let limits = Limits {
            max_block: options.max_block_size,
            null_padding: options.null_padding,
            fits: options.memory_budget() / BLOCK_SHARE,
            budget: options.memory_budget(),
            chunk: plan.chunk_bytes as usize,
        };
        let file = input.file.take();
        let (header, mut chunks) = Chunks::open(input, limits)?;
        validate::check_has_no_log_options(options)?;
        if options.f3 != F3Data::Store {
            chunks.pass_over_f3(&header.roots, options.verify)?;
        }
        Ok(Source::Car(Box::new(Car { header, chunks, file })))
    }
}

impl Source {
    /// What identifies the source.
    pub fn origin(&self, options: &ImportOptions) -> Origin<'_> {
        match self {
            Self::BlockLog(log) => origin_of_log(log, options),
            Self::Car(car) => {
                let head = format!("{} {}", car.header.version, self.roots().join(" ")).into_bytes();
                let files = car.file.iter().map(|file| (options.source.clone(), file)).collect();
                Origin { head, files, log: String::new() }
            }
        }
    }

    /// The source in the report, before it is read.
    pub fn info(&self, options: &ImportOptions, compression: Compression) -> SourceInfo {
        let (format, version) = match self {
            Self::Car(car) => ("car", car.header.version),
            Self::BlockLog(log) => ("block-log", u64::from(log.version())),
        };
        SourceInfo {
            path: options.source.display().to_string(),
            format: format.into(),
            compression: compression.name().into(),
            version,
            bytes: 0,
            roots: self.roots(),
            null_padding: 0,
        }
    }

    fn roots(&self) -> Vec<String> {
        match self {
            Self::Car(car) => car.header.roots.iter().map(ToString::to_string).collect(),
            Self::BlockLog(_) => Vec::new(),
        }
    }
}

/// Detects whether an opened input is a log, and opens it as one.
///
/// # Errors
/// [`Error::BadInput`](crate::Error::BadInput), [`Error::Io`](crate::Error::Io): it is one, or the caller says so, and it
/// cannot be read.
fn detect(input: Input, options: &ImportOptions, dictionaries: &Dictionaries) -> Result<Opened> {
    let sought = match options.format {
        Format::Car => return Ok(Opened::Other(input)),
        Format::BlockLog => Sought::Log,
        Format::Auto => Sought::Either,
    };
    Log::detect(input, sought, options.log.tail, dictionaries)
}

/// What identifies a log.
fn origin_of_log<'a>(log: &'a Log, options: &ImportOptions) -> Origin<'a> {
    let chosen = chosen(&options.log);
    match &log.body {
        LogBody::Files(files) => {
            // Standard input has no name to open later.
            let named = files.parts.iter().filter(|part| is_file(&part.path));
            let files = named.map(|part| (part.path.clone(), part.file())).collect();
            Origin { head: Vec::new(), files, log: chosen }
        }
        LogBody::Stream(forward) => {
            let forward = forward.lock();
            let head = forward.head();
            Origin { head: head.get(..HEAD).unwrap_or(head).to_vec(), files: Vec::new(), log: chosen }
        }
    }
}

/// The options that are not defaults, as on the command line.
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
    let block = |name: &str, (number, id): &(u32, crate::chain::Id)| format!("{name} {number}:{id}");
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
