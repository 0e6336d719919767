//! Opening the source: its format, its compression, and its identity.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::load::identity::is_file;
use crate::load::options::{F3Data, Format, ImportOptions};
use crate::load::record_streams::RecordStreams;
use crate::load::sink::batches::block_share;
use crate::load::source_identity::{KnownSource, RemoteOrigin, SourceFacts, SourceFile, SourceIdentity, digest};
use crate::load::sources::Sources;
use crate::load::validate;
use crate::report::{ChecksumInfo, Plan, SourceInfo};
use crate::source::block_log::{Dictionaries, Log, LogBody, Opened, Sought};
use crate::source::car::{Chunks, Header, Limits};
use crate::source::input::{self, Compression, Expected, Extent, Input, InputOptions, Remote};

/// Bytes of a pipe that identify it.
const HEAD: usize = 4096;

pub(super) enum Body {
    /// A CAR, whose header is not read yet.
    Car(Input),
    BlockLog(Box<Log>),
    Records(Box<RecordStreams>),
}

/// An open source.
pub(super) struct OpenSource {
    pub body: Body,
    /// Compression of the first source.
    pub compression: Compression,
    /// Bytes on disk of all sources.
    pub size: Option<u64>,
    pub largest: Option<u64>,
    /// The number of blocks, if all sources have it in an index.
    pub blocks: Option<u64>,
    pub expected: Option<u64>,
    /// The first source, if it is on the network.
    remote: Option<Arc<Remote>>,
    /// The checksum that a single source is compared with.
    sum: Option<Arc<Expected>>,
    pub sources: Arc<Sources>,
    reading: InputOptions,
}

/// A source at its first block.
pub(super) enum Source {
    Car(Box<Car>),
    BlockLog(Box<Log>),
    Records(Box<RecordStreams>),
}

/// A CAR whose header has been read.
pub(super) struct Car {
    header: Header,
    pub chunks: Chunks,
}

impl OpenSource {
    /// Opens the source, to be decompressed on up to `threads` threads, and detects its format.
    pub fn open(options: &ImportOptions, sources: &Arc<Sources>, threads: usize) -> Result<Self> {
        let dictionaries = Dictionaries::new(options.log.dictionaries.as_deref())?;
        let set = match options.format {
            Format::Car => None,
            // A log of several files.
            _ if sources.names.len() > 1 => None,
            _ => Log::of_set(sources.first(), options.log.tail, &dictionaries)?,
        };
        let reading = InputOptions {
            network: options.network.clone(),
            checksum: options.checksum.clone(),
            // A part has no checksum.
            extent: if options.log.to.is_some() { Extent::Part } else { Extent::All },
            ..InputOptions::of_share(threads, options.memory_budget() / 4)
        };
        let is_single = sources.names.len() == 1;
        let (opened, remote, sum) = match set {
            Some(_) if options.checksum.is_some() => {
                return Err(Error::usage("a checksum applies to one file, but there are several", "leave it out"));
            }
            Some(log) => (Opened::Log(Box::new(log)), None, None),
            None => {
                let input = sources.open(0, &reading)?;
                let (remote, sum) = (input.remote.clone(), input.expected.clone().filter(|_| is_single));
                // Several sources are CARs.
                let opened = if is_single { detect(input, options, &dictionaries)? } else { Opened::Other(input) };
                (opened, remote, sum)
            }
        };
        if is_single {
            let _ = sources.known.set([known(sources.first(), &opened, remote.as_deref())?].into());
        }
        let compression = match &opened {
            Opened::Log(log) => log.compression,
            Opened::Other(input) => input.compression,
        };
        let body = match opened {
            Opened::Log(log) => Body::BlockLog(log),
            Opened::Other(input) if options.format != Format::Auto => Body::Car(input),
            Opened::Other(input) => match RecordStreams::detect(input, options, sources, &reading)? {
                Ok(streams) => Body::Records(Box::new(streams)),
                Err(input) => Body::Car(input),
            },
        };
        let sizes = sources.all(|facts| facts.size);
        let size = sizes.as_ref().map(|sizes| sizes.iter().sum::<u64>());
        let scale = |number: u64| match options.assumed_bytes.zip(size) {
            Some((assumed, real)) => (number as f64 / real.max(1) as f64 * assumed as f64) as u64,
            None => number,
        };
        let total = |numbers: Vec<u64>| scale(numbers.into_iter().fold(0, u64::saturating_add));
        Ok(Self {
            compression,
            size: size.map(scale),
            largest: sizes.and_then(|sizes| sizes.into_iter().max()).map(scale),
            blocks: sources.all(|facts| facts.blocks).map(total),
            expected: sources.all(SourceFacts::expected).map(total),
            body,
            remote,
            sum,
            sources: Arc::clone(sources),
            reading,
        })
    }

    /// True if blocks on the disk save fetching bytes again after a kill.
    pub fn prefers_spill_for_resume(&self) -> bool {
        let restarts = |remote: &Remote| {
            let (has_ranges, ..) = remote.traffic();
            has_ranges && matches!(self.compression, Compression::None | Compression::Zstd | Compression::ForestZstd)
        };
        match self.sources.names.len() {
            1 => self.remote.as_deref().is_some_and(restarts),
            // Sources that were read to their ends are not fetched again.
            _ => self.sources.has_remote(),
        }
    }

    /// The block log, if the source is one.
    pub fn log(&self) -> Option<&Log> {
        if let Body::BlockLog(log) = &self.body { Some(log) } else { None }
    }

    /// The streams of records, if the sources are such.
    pub fn records(&self) -> Option<&RecordStreams> {
        if let Body::Records(streams) = &self.body { Some(streams) } else { None }
    }

    /// Reads the header of a CAR.
    pub fn read_header(self, options: &ImportOptions, plan: &Plan) -> Result<Source> {
        let input = match self.body {
            Body::BlockLog(log) => return Ok(Source::BlockLog(log)),
            Body::Records(streams) => return Ok(Source::Records(streams)),
            Body::Car(input) => input,
        };
        let limits = Limits {
            max_block: options.max_block_size,
            null_padding: options.null_padding,
            fits: options.memory_budget() / block_share(plan),
            budget: options.memory_budget(),
            chunk: plan.chunk_bytes as usize,
            records_roots: true,
        };
        let (header, mut chunks) = Chunks::open(input, limits)?;
        validate::check_has_no_log_options(options)?;
        if options.concatenated {
            chunks.accept_concatenated(false);
        }
        if options.f3 != F3Data::Store {
            chunks.skip_f3_data(&header.roots, options.verify)?;
        }
        chunks.follow(self.sources.following(self.reading));
        Ok(Source::Car(Box::new(Car { header, chunks })))
    }

    /// The checksum that the source is compared with, for the report.
    pub fn checksum(&self) -> Option<ChecksumInfo> {
        self.sum.as_deref().map(ChecksumInfo::of)
    }
}

impl Source {
    /// The identity of the sources. `checksum` belongs to a single one.
    pub fn identity(&self, sources: &Sources, checksum: Option<&ChecksumInfo>) -> SourceIdentity {
        let head = match self {
            Self::Car(car) => format!("{} {}", car.header.version, self.roots().join(" ")).into_bytes(),
            Self::BlockLog(log) => match &log.body {
                LogBody::Files(_) => Vec::new(),
                LogBody::Stream(forward) => forward.lock().head().iter().copied().take(HEAD).collect(),
            },
            Self::Records(streams) => streams.identity().into_bytes(),
        };
        let sum = checksum.map(|ChecksumInfo { function, sum, .. }| format!("{function} {sum}"));
        SourceIdentity { header: digest(&head), sources: sources.known(), sum, bundle: None }
    }

    /// The report of all sources together, before they are read.
    pub fn info(&self, sources: &Sources, compression: Compression) -> SourceInfo {
        let (format, version) = match self {
            Self::Car(car) => ("car", car.header.version),
            Self::BlockLog(log) => ("block-log", u64::from(log.version())),
            Self::Records(streams) => (streams.format().name(), 1),
        };
        SourceInfo {
            path: sources.shown().display().to_string(),
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
            Self::BlockLog(_) | Self::Records(_) => Vec::new(),
        }
    }
}

/// Opens an input as a log if it is one.
fn detect(input: Input, options: &ImportOptions, dictionaries: &Dictionaries) -> Result<Opened> {
    let sought = match options.format {
        Format::Car => return Ok(Opened::Other(input)),
        Format::BlockLog => Sought::Log,
        Format::Auto => Sought::Either,
    };
    Log::detect(input, sought, options.log.tail, dictionaries)
}

/// The properties of an open source.
fn known(name: &Path, opened: &Opened, remote: Option<&Remote>) -> Result<KnownSource> {
    let (facts, files) = match opened {
        Opened::Log(log) => {
            let parts = match &log.body {
                LogBody::Files(files) => files.parts.as_slice(),
                LogBody::Stream(_) => &[],
            };
            // Standard input has no name to open later.
            let named = parts.iter().filter(|part| is_file(&part.path));
            let files = named.map(|part| SourceFile::of(&part.path, &part.file)).collect::<Result<_>>()?;
            let (size, compression) = (log.size, log.compression);
            (SourceFacts { size, compression, blocks: None, is_plain: !log.is_piped() }, files)
        }
        Opened::Other(Input { size, compression, blocks, body, file, .. }) => {
            let (size, compression, blocks) = (*size, *compression, *blocks);
            let facts = SourceFacts { size, compression, blocks, is_plain: matches!(body, input::Body::File(_)) };
            (facts, file.iter().map(|file| SourceFile::of(name, file)).collect::<Result<_>>()?)
        }
    };
    let remote = remote.map(|remote| Box::new(RemoteOrigin::of(remote)));
    Ok(KnownSource { files, remote, facts, ..KnownSource::named(name) })
}
