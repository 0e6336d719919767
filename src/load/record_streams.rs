//! The streams of records of an import, one after the other.

use std::sync::Arc;

use data_encoding::HEXLOWER;

use crate::error::{Error, InputKind, Result};
use crate::load::options::ImportOptions;
use crate::load::sources::Sources;
use crate::os::buffer::{Buffer, Slab};
use crate::preset::Resolved;
use crate::source::StatedProblem;
use crate::source::car::SourceRead;
use crate::source::input::{Input, InputOptions, peek};
use crate::source::records::{
    RecordChunk, RecordFormat, RecordHeader, RecordLimits, RecordPosition, RecordReader, damaged, detect, is_plain_dump,
};

/// Bytes by which a format is detected.
const PEEK: usize = 4096;

/// The most column families of all streams together, and the memory that one takes: 256 took 130 MiB beside the budget.
const MAX_FAMILIES: u64 = 256;
const FAMILY: u64 = 1 << 20;

/// All memory of an import divided by the first number, and by the second for each thread, is a chunk, within limits. A chunk of short
/// records takes four times its size while a thread sorts it.
const CHUNK_SHARE: (u64, u64) = (64, 16);
const CHUNK: (u64, u64) = (64 << 10, 4 << 20);

/// A value may take the budget divided by this.
const VALUE_SHARE: u64 = 16;

#[derive(Default)]
pub(in crate::load) struct RecordStreams {
    sources: Arc<Sources>,
    reading: InputOptions,
    pub limits: RecordLimits,
    /// The column family of streams that name none.
    own_family: String,
    /// The column families of all streams.
    pub families: Vec<String>,
    /// The options of each of them.
    pub presets: Vec<Resolved>,
    streams: Vec<Stream>,
    current: usize,
    reader: Option<RecordReader>,
    chunks: u32,
    /// Memory of the chunks since the caller set it to zero.
    pub handed_out: u64,
    slab: Slab,
    spares: Vec<Buffer>,
    /// Bytes on disk of the streams before the current one.
    before: u64,
}

struct Stream {
    header: RecordHeader,
    /// The number of each of its column families.
    families: Arc<[u16]>,
    /// An opened stream. Files and URLs are opened again in their turn.
    waiting: Option<RecordReader>,
    read: SourceRead,
}

/// The first bytes of a key as hex, for a message.
pub(in crate::load) fn show_key(key: &[u8]) -> String {
    HEXLOWER.encode(&key[..key.len().min(64)])
}

/// A chunk and its place.
pub(in crate::load) struct NextChunk {
    pub chunk: RecordChunk,
    pub index: u32,
    pub source: u16,
    pub families: Arc<[u16]>,
}

impl RecordStreams {
    /// Opens all streams, the first of which is `first`. Returns the input if that is no stream of records.
    pub fn detect(
        mut first: Input,
        options: &ImportOptions,
        sources: &Arc<Sources>,
        reading: &InputOptions,
    ) -> Result<std::result::Result<Self, Input>> {
        let (head, _) = peek(&mut first, PEEK)?;
        if is_plain_dump(&head) {
            let reason = "the text of `ldb dump` without `--hex` lacks bytes of keys and values";
            let problem = StatedProblem::new(InputKind::Unsupported, reason, "dump it with `ldb --hex dump`");
            return Err(Error::bad_input(&first.name, None, problem));
        }
        let Some(format) = detect(&head) else { return Ok(Err(first)) };
        let budget = options.memory_budget();
        let share = CHUNK_SHARE.0.max(CHUNK_SHARE.1 * reading.threads as u64);
        let chunk = (budget / share).clamp(CHUNK.0, CHUNK.1).max(budget / (u64::from(u16::MAX) / 2));
        let limits = RecordLimits {
            max_value: options.max_block_size,
            fits: budget / VALUE_SHARE,
            budget,
            chunk: chunk as usize,
            allow_no_trailer: options.allow_no_trailer,
        };
        let mut all = Self {
            sources: Arc::clone(sources),
            reading: reading.clone(),
            limits,
            own_family: options.column_family.clone(),
            ..Self::default()
        };
        all.add(first, format)?;
        for number in 1..sources.names.len() {
            options.check_cancelled()?;
            let mut input = sources.open(number, reading)?;
            let (head, _) = peek(&mut input, PEEK)?;
            let format = detect(&head).ok_or_else(|| {
                let reason = "it is no stream of records, and the first source is one";
                let hint = "leave it out; a snapshot or a database is imported alone";
                Error::bad_input(&input.name, None, StatedProblem::new(InputKind::Unsupported, reason, hint))
            })?;
            all.add(input, format)?;
        }
        let have_names = all.streams.iter().all(|stream| !stream.header.families.is_empty());
        if have_names && options.given_column_family.is_some() {
            let reason = format!("each record of {} names its column family", sources.shown().display());
            return Err(Error::usage(reason, "leave --column-family out"));
        }
        Ok(Ok(all))
    }

    fn add(&mut self, input: Input, format: RecordFormat) -> Result<()> {
        let can_reopen = input.file.is_some() || input.remote.is_some();
        let compression = input.compression;
        let reader = RecordReader::open(input, format, self.limits)?;
        let header = reader.header.clone();
        let names = if header.families.is_empty() { std::slice::from_ref(&self.own_family) } else { &header.families };
        let mut number = |name: &String| {
            let known = self.families.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                self.families.push(name.clone());
                self.families.len() - 1
            }) as u16
        };
        let families = names.iter().map(&mut number).collect();
        let count = self.families.len() as u64;
        if count > MAX_FAMILIES || count * FAMILY > self.limits.budget {
            let reason =
                format!("{count} column families need --memory {count}MiB, and at most {MAX_FAMILIES} are possible");
            return Err(Error::usage(reason, "give more memory, or import them into several databases"));
        }
        let waiting = (self.streams.is_empty() || !can_reopen).then_some(reader);
        let read = SourceRead {
            source: self.streams.len() as u32,
            version: 1,
            compression: compression.name().into(),
            ..SourceRead::default()
        };
        self.streams.push(Stream { header, families, waiting, read });
        Ok(())
    }

    /// The format of the first stream.
    pub fn format(&self) -> RecordFormat {
        self.streams.first().map_or(RecordFormat::Kv, |stream| stream.header.format)
    }

    /// The names of formats and column families, which identify streams.
    pub fn identity(&self) -> String {
        let each = self.streams.iter().map(|Stream { header, .. }| {
            let sorted = if header.is_sorted { "sorted" } else { "unsorted" };
            format!("{} {sorted} {}", header.format.name(), header.families.join("\0"))
        });
        each.collect::<Vec<_>>().join("\n")
    }

    /// True if the only stream says that its records are sorted.
    pub fn are_sorted(&self) -> bool {
        matches!(&self.streams[..], [only] if only.header.is_sorted)
    }

    pub fn has_ended(&self) -> bool {
        self.current >= self.streams.len()
    }

    /// Takes memory for later chunks.
    pub fn reuse(&mut self, buffers: impl Iterator<Item = Buffer>) {
        self.spares.extend(buffers.filter(|buffer| buffer.len() >= self.limits.chunk));
    }

    /// Returns the next chunk, or `None` at the end of the last stream.
    pub fn next(&mut self) -> Result<Option<NextChunk>> {
        while let Some(stream) = self.streams.get_mut(self.current) {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                none => none.insert(stream.open(&self.sources, self.current, &self.reading, self.limits)?),
            };
            let spare = || self.spares.pop().map_or_else(|| self.slab.cut(self.limits.chunk), Ok);
            let Some(mut chunk) = reader.next(spare)? else {
                self.before += reader.consumed();
                stream.read.bytes = reader.consumed();
                (self.reader, self.current) = (None, self.current + 1);
                continue;
            };
            let (index, source, families) = (self.chunks, self.current as u16, Arc::clone(&stream.families));
            self.chunks += 1;
            // Small streams must not take a large buffer each.
            let left = chunk.shrink(|len| self.slab.cut(len))?;
            self.reuse(left.into_iter());
            self.handed_out += chunk.memory();
            return Ok(Some(NextChunk { chunk, index, source, families }));
        }
        Ok(None)
    }

    /// The number of the current stream, and the place in it.
    pub fn position(&self) -> (u32, RecordPosition) {
        let at = self.reader.as_ref().map(RecordReader::position).unwrap_or_default();
        (self.current as u32, at)
    }

    /// Bytes on disk of the streams that were read.
    pub fn consumed(&self) -> u64 {
        self.before + self.reader.as_ref().map_or(0, RecordReader::consumed)
    }

    /// Continues at a place that an earlier run has noted. `known` are the streams before it.
    pub fn skip_to(&mut self, source: u32, position: RecordPosition, known: &[SourceRead]) -> Result<()> {
        for (stream, known) in self.streams.iter_mut().zip(known).take(source as usize) {
            stream.read = known.clone();
            stream.waiting = None;
            self.before += known.bytes;
        }
        self.current = source as usize;
        let Some(stream) = self.streams.get_mut(self.current) else { return Ok(()) };
        let mut reader = stream.open(&self.sources, self.current, &self.reading, self.limits)?;
        if position != RecordPosition::default() {
            reader.skip_to(position)?;
        }
        self.reader = Some(reader);
        Ok(())
    }

    /// The streams that were read, from the number `first` on, with the counts of their records.
    pub fn reads(&self, counts: &[u64], first: u32) -> Vec<SourceRead> {
        let read = |(stream, count): (&Stream, &u64)| SourceRead { blocks: *count, ..stream.read.clone() };
        self.streams.iter().zip(counts).take(self.current + 1).skip(first as usize).map(read).collect()
    }

    /// The error for a record of a sorted stream that is not after the record before it.
    pub fn unsorted(&self, source: u16, offset: u64, key: &[u8]) -> Error {
        let name = self.sources.names.get(usize::from(source)).cloned().unwrap_or_default();
        let reason = format!(
            "the header says that the records are sorted, and this one, with the key 0x{}, is not after the record before it",
            show_key(key)
        );
        let hint = "sort the records by column family and key, each key once, or write the header without the flag";
        Error::bad_input(&name, offset, StatedProblem::new(InputKind::Damaged, reason, hint))
    }

    pub fn count(&self) -> usize {
        self.streams.len()
    }
}

impl Stream {
    fn open(
        &mut self,
        sources: &Sources,
        number: usize,
        reading: &InputOptions,
        limits: RecordLimits,
    ) -> Result<RecordReader> {
        let mut reader = match self.waiting.take() {
            Some(waiting) => waiting,
            None => RecordReader::open(sources.open(number, reading)?, self.header.format, limits)?,
        };
        if reader.header != self.header {
            return Err(Error::bad_input(&reader.name, None, damaged("its header has changed")));
        }
        reader.map();
        Ok(reader)
    }
}
