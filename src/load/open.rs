//! Opening the source: its format, its compression, and its identity.

use std::fs::File;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::load::identity::{Origin, RemoteOrigin, is_file};
use crate::load::options::{F3Data, Format, ImportOptions, Indexes, LogOptions};
use crate::load::sink::batches::block_share;
use crate::load::sources::Sources;
use crate::load::validate;
use crate::report::{ChecksumInfo, Plan, SourceInfo};
use crate::source::block_log::{Dictionaries, Log, LogBody, Opened, Sought, TornTail};
use crate::source::car::Header;
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::input::{Body, Compression, Expected, Extent, Input, InputOptions, Remote};

/// Compressed sources come to about so many times their size: state compresses to a third. A wrong guess costs partitions that
/// are too small, or a merge.
const UNPACKED: u64 = 3;

/// Bytes of a pipe that identify it.
const HEAD: usize = 4096;

/// A source that is open; of a CAR the header is not read yet.
pub(super) struct OpenSource {
    opened: Opened,
    pub compression: Compression,
    pub size: Option<u64>,
    /// Blocks in it, where it says so.
    pub blocks: Option<u64>,
    /// Whether it is a file that needs no decompression; of several, whether all are.
    pub plain: bool,
    /// Bytes of blocks in it, where it is known or can be guessed; and whether that is no guess.
    pub expected: Option<u64>,
    pub is_exact: bool,
    /// What one source is on the network, and the sum that all of it is compared with.
    remote: Option<Arc<Remote>>,
    sum: Option<Arc<Expected>>,
    sources: Arc<Sources>,
    reading: InputOptions,
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
    sources: Arc<Sources>,
    /// The source, where it is a file that was opened by its name.
    file: Option<File>,
}

impl OpenSource {
    /// Opens the source, which is decompressed on up to `threads` threads, and detects its format.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), [`Error::BadInput`](crate::Error::BadInput): it is not there, or is nothing that
    /// can be read.
    pub fn open(options: &ImportOptions, sources: &Arc<Sources>, threads: usize) -> Result<Self> {
        let dictionaries = Dictionaries::new(options.log.dictionaries.as_deref());
        let set = match options.format {
            Format::Car => None,
            // A log that is several files.
            _ if sources.are_several() => None,
            _ => Log::of_set(sources.first(), options.log.tail, &dictionaries)?,
        };
        let reading = InputOptions {
            network: options.network.clone(),
            checksum: options.checksum.clone(),
            // What is not read to its end has no sum.
            extent: if options.log.to.is_some() { Extent::Part } else { Extent::All },
            ..InputOptions::of_share(threads, options.memory_budget() / 4)
        };
        let (mut remote, mut sum) = (None, None);
        let opened = match set {
            Some(_) if options.checksum.is_some() => {
                return Err(Error::Usage {
                    reason: "--checksum is of one file, and the source is several".into(),
                    hint: "leave it out".into(),
                });
            }
            Some(log) => Opened::Log(Box::new(log)),
            None if sources.are_several() => Opened::Other(sources.open(0, &reading)?),
            None => {
                let input = sources.open(0, &reading)?;
                (remote, sum) = (input.remote.clone(), input.expected.clone());
                detect(input, options, &dictionaries)?
            }
        };
        let (compression, size, blocks, plain) = match &opened {
            Opened::Log(log) => (log.compression, log.size, None, !log.is_piped()),
            Opened::Other(input) => (input.compression, input.size, input.blocks, matches!(input.body, Body::File(_))),
        };
        let (size, blocks) = match (options.assumed_bytes, size) {
            (Some(assumed), Some(real)) => {
                let scale = |blocks: u64| (blocks as f64 / real.max(1) as f64 * assumed as f64) as u64;
                (Some(assumed), blocks.map(scale))
            }
            _ => (size, blocks),
        };
        let sources = Arc::clone(sources);
        let is_exact = match sources.are_several() {
            true => sources.need_no_decompression(),
            false => size.is_some() && (plain || compression == Compression::None),
        };
        let opened = Self {
            opened,
            compression,
            size,
            blocks,
            plain,
            expected: size.map(|size| if is_exact { size } else { size.saturating_mul(UNPACKED) }),
            is_exact,
            remote,
            sum,
            sources: Arc::clone(&sources),
            reading,
        };
        if !sources.are_several() {
            return Ok(opened);
        }
        let (size, blocks, plain) = (sources.size(), sources.blocks(), sources.are_plain());
        Ok(Self { size, blocks, plain, expected: sources.expected(UNPACKED), ..opened })
    }

    /// How many more sources follow the first one.
    pub fn sources(&self) -> u64 {
        self.sources.names().len() as u64 - 1
    }

    /// Whether less would have to come over the network again after a kill if blocks were on the disk by then.
    pub fn goes_on_from_disk(&self) -> bool {
        match &self.remote {
            Some(remote) => {
                let (has_ranges, ..) = remote.traffic();
                has_ranges
                    && matches!(self.compression, Compression::None | Compression::Zstd | Compression::ForestZstd)
            }
            None => self.sources.has_remote(),
        }
    }

    /// Bytes of the largest source.
    pub fn largest(&self) -> Option<u64> {
        if self.sources.are_several() { self.sources.largest() } else { self.size }
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
            fits: options.memory_budget() / block_share(plan),
            budget: options.memory_budget(),
            chunk: plan.chunk_bytes as usize,
        };
        let file = input.file.take();
        let (header, mut chunks) = Chunks::open(input, limits)?;
        validate::check_has_no_log_options(options)?;
        if options.concatenated {
            chunks.accept_concatenated(false);
        }
        if options.f3 != F3Data::Store {
            chunks.skip_f3_data(&header.roots, options.verify)?;
        }
        let sources = self.sources;
        if sources.are_several() {
            chunks.follow(sources.following(self.reading));
        }
        Ok(Source::Car(Box::new(Car { header, chunks, sources, file })))
    }

    /// What identifies one source on the network, and the sum that it has.
    pub fn origin(&self) -> Origin<'static> {
        let remote = self.remote.as_ref().map(|remote| RemoteOrigin::of(remote));
        let sum = self.sum.as_ref().map(|expected| format!("{} {}", expected.function, expected.sum));
        Origin { remote, sum, ..Origin::default() }
    }

    /// The sum that all of the source is compared with, for the report.
    pub fn checksum(&self) -> Option<ChecksumInfo> {
        self.sum.as_deref().map(ChecksumInfo::of)
    }
}

impl Source {
    /// What identifies the source; `opened` is what was known before its header.
    pub fn origin<'a>(&'a self, options: &ImportOptions, opened: Origin<'a>) -> Origin<'a> {
        match self {
            Self::BlockLog(log) => origin_of_log(log, options, opened),
            Self::Car(car) => {
                let head = format!("{} {}", car.header.version, self.roots().join(" ")).into_bytes();
                let sources = car.sources.identities();
                let named = car.file.iter().filter(|_| sources.is_empty());
                let files = named.map(|file| (car.sources.first().to_owned(), file)).collect();
                Origin { head, files, sources, paths: Arc::clone(car.sources.names()), ..opened }
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
            path: match self {
                Self::Car(car) => car.sources.shown().display().to_string(),
                Self::BlockLog(_) => options.source().display().to_string(),
            },
            format: format.into(),
            compression: compression.name().into(),
            version,
            bytes: 0,
            roots: self.roots(),
            null_padding: 0,
            blocks: None,
            remote: None,
            checksum: None,
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
fn origin_of_log<'a>(log: &'a Log, options: &ImportOptions, opened: Origin<'a>) -> Origin<'a> {
    let chosen = chosen(&options.log);
    match &log.body {
        LogBody::Files(files) => {
            // Standard input has no name to open later.
            let named = files.parts.iter().filter(|part| is_file(&part.path));
            let files = named.map(|part| (part.path.clone(), part.file())).collect();
            Origin { files, log: chosen, ..opened }
        }
        LogBody::Stream(forward) => {
            let forward = forward.lock();
            let head = forward.head();
            let head = head.get(..HEAD).unwrap_or(head).to_vec();
            Origin { head, log: chosen, ..opened }
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
        indexes,
        links_only,
        skip_unknown_operations,
    } = options;
    let number = |name: &str, number: &Option<u32>| number.map(|number| format!("{name} {number}"));
    let block = |name: &str, (number, id): &(u32, crate::blocks::chain::Id)| format!("{name} {number}:{id}");
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
    words.extend((*indexes != Indexes::default()).then(|| format!("--indexes {indexes}")));
    words.extend(flag("--verify links", *links_only));
    words.extend(flag("--unknown-operations skip", *skip_unknown_operations));
    words.join(" ")
}
