//! Exports a block log: the blocks in order, each followed by its position, and the head of an Antelope log before them.
//!
//! ```text
//! Steem, Hive     block | u64 position                                      every block raw
//! Antelope v1-v3  head | block | u64 position ..
//! Antelope v4     head | u32 size | u8 compression, 0 | block | u64 position ..
//! ```
//!
//! A log that was one file of raw blocks is reproduced byte for byte. Packed blocks are written raw, parts as one log.

use std::io::Write;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::batch::SectionLoader;
use super::options::{ExportOptions, interrupted};
use super::writer_pool::WriterPool;
use crate::blocks::chain::{self, Family, Header};
use crate::error::{Error, Result, StateKind};
use crate::hash::content_digest::Content;
use crate::progress::Phase;
use crate::report::{BlockRef, ExportReport, ExportedLog, ImportReport, LogReport};
use crate::rocks::Reader;
use crate::source::block_log::{Framing, MAX_BLOCK, preamble};

/// Length of a version 4 entry without its block.
const V4_AROUND: usize = 4 + 1 + 8;

pub(super) struct LogExport<'a> {
    options: &'a ExportOptions,
    record: &'a ImportReport,
    log: &'a LogReport,
    reader: Reader,
    family: Family,
    framing: Framing,
    head: Vec<u8>,
    first: u32,
    last: u32,
}

impl<'a> LogExport<'a> {
    /// Opens the database, before anything is written.
    pub fn open(options: &'a ExportOptions, record: &'a ImportReport, log: &'a LogReport) -> Result<Self> {
        let (first, last) = (options.from.unwrap_or(log.first.number), options.to.unwrap_or(log.last.number));
        let wrong = |reason: String, hint: &str| Err(Error::Usage { reason, hint: hint.into() });
        let known = log.first.number..=log.last.number;
        if let Some(wanted) = [first, last].iter().find(|wanted| !known.contains(wanted)) {
            let (start, end) = (known.start(), known.end());
            let reason = format!("block {wanted} is not in the database: it has blocks {start} to {end}");
            return wrong(reason, "choose blocks of this range, or omit --from and --to");
        }
        if first > last {
            return wrong("the first block is after the last block".into(), "swap the two values");
        }
        let (family, version) = record.chain();
        let (mut framing, mut head) = (Framing::Graphene, Vec::new());
        if family == Family::Antelope {
            head = head_of(options, log, first)?;
            let version = preamble::read(&head).map_or(version, |head| head.version);
            framing = Framing::Antelope { version };
        }
        Ok(Self { options, record, log, reader: options.reader()?, family, framing, head, first, last })
    }

    /// True if these are all blocks of the import.
    fn is_whole(&self) -> bool {
        (self.first, self.last) == (self.log.first.number, self.log.last.number)
    }

    pub fn write<W: Write + Send>(&self, pool: &WriterPool<'_>, out: &mut W) -> Result<ExportReport> {
        let progress = pool.progress;
        progress.begin(Phase::Export, self.is_whole().then_some(self.record.payload_bytes));
        progress.expect_blocks(u64::from(self.last - self.first) + 1);
        let (ends, sum, bytes) = pool.run(0, out, |loader| self.load(loader))?;
        let all_records = self.is_whole();
        let Content { records, digest } = sum.content;
        if all_records && (records, digest) != (self.record.blocks.written, self.record.digest) {
            return Err(self.failed("blocks other than those of the import".into()));
        }
        let differs = self.differences(sum.unpacked);
        Ok(ExportReport {
            selection: if all_records { "all" } else { "range" }.into(),
            blocks: records,
            payload_bytes: sum.payload,
            car_bytes: sum.unpacked,
            bytes,
            digest,
            all_records: Some(all_records),
            complete: true,
            log: ends.map(|(first, last)| ExportedLog {
                family: self.family.name().into(),
                version: self.framing.version(),
                first: BlockRef::of(&first),
                last: BlockRef::of(&last),
                identical: differs.is_empty(),
                differs,
            }),
            ..self.options.report(pool.format, pool.path)
        })
    }

    /// Loads the head and the blocks and checks their chain. Returns the first and the last header.
    fn load(&self, loader: &mut SectionLoader<'_>) -> Result<Option<(Header, Header)>> {
        loader.add_bytes(&[&self.head])?;
        let mut ends: Option<(Header, Header)> = None;
        let end = self.last.checked_add(1).map(u32::to_be_bytes);
        let end = end.as_ref().map(<[u8; 4]>::as_slice);
        let mut scan = self.reader.scan(&self.record.column_family, Some(&self.first.to_be_bytes()), end)?;
        for number in self.first..=self.last {
            self.options.resources.stop.check(interrupted)?;
            let Some((key, value)) = scan.item() else {
                scan.status()?;
                return Err(self.failed(format!("no block {number}")));
            };
            let header = self.check(number, key, value, ends.as_ref().map(|(_, last)| last))?;
            let position = loader.sum.unpacked.to_le_bytes();
            let size = (value.len() + V4_AROUND) as u32;
            let pieces: [&[u8]; 4] = [&size.to_le_bytes(), &[0], value, &position];
            let is_sized = self.framing == Framing::Antelope { version: 4 };
            loader.add_record(key, value, if is_sized { &pieces } else { &pieces[2..] })?;
            ends = Some((ends.map_or(header, |(first, _)| first), header));
            scan.next();
        }
        Ok(ends)
    }

    /// Checks that a record is block `number` and follows the previous one.
    fn check(&self, number: u32, key: &[u8], value: &[u8], before: Option<&Header>) -> Result<Header> {
        if key != number.to_be_bytes() {
            return Err(self.failed(format!("no block {number}")));
        }
        if value.len() > MAX_BLOCK {
            return Err(self.failed(format!("a block {number} of {} bytes", value.len())));
        }
        let header = chain::header(self.family, self.framing.version(), value);
        match header {
            Ok(header) if header.number != number => {
                Err(self.failed(format!("block {} under the number {number}", header.number)))
            }
            Ok(header) if before.is_some_and(|before| before.id != header.previous) => {
                Err(self.failed(format!("a block {number} that does not follow block {}", number - 1)))
            }
            Ok(header) => Ok(header),
            Err(problem) => Err(self.failed(format!("an invalid block {number} ({problem})"))),
        }
    }

    fn failed(&self, problems: String) -> Error {
        let hint = "run `bedload verify` for details, and import the log again";
        Error::verification_failed("export", self.options.db.clone(), problems, hint)
    }

    /// Reason why the result differs from the imported log.
    fn differences(&self, bytes: u64) -> Vec<String> {
        let mut differs = Vec::new();
        let packed = self.log.packings.zstd + self.log.packings.zstd_dictionary;
        if packed > 0 {
            differs.push(format!("{packed} blocks were compressed with zstd and are raw now"));
        }
        if self.log.parts > 1 {
            differs.push(format!("it was split into {} files", self.log.parts));
        }
        if self.log.trimmed_bytes > 0 {
            differs.push(format!("{} bytes followed its last complete block", self.log.trimmed_bytes));
        }
        match &self.log.layout {
            None => differs.push("the import did not record its layout".into()),
            Some(layout) if layout.pruned => differs.push("it was pruned".into()),
            Some(layout) if differs.is_empty() && (!self.is_whole() || layout.bytes != Some(bytes)) => {
                differs.push("only some of its blocks are exported".into());
            }
            Some(_) => {}
        }
        differs
    }
}

/// Returns the head of an Antelope log that begins with block `first`.
fn head_of(options: &ExportOptions, log: &LogReport, first: u32) -> Result<Vec<u8>> {
    let unknown = |reason: &str| Error::State {
        path: options.db.clone(),
        kind: StateKind::Other,
        reason: format!("the log cannot be exported: {reason}"),
        hint: "import the log again".into(),
    };
    let layout = log.layout.as_ref().ok_or_else(|| unknown("the import did not record its head"))?;
    let recorded = layout.head.as_deref().and_then(|head| HEXLOWER_PERMISSIVE.decode(head.as_bytes()).ok());
    let recorded = recorded.ok_or_else(|| unknown("BEDLOAD.json has no valid head"))?;
    let known = preamble::read(&recorded).map_err(|problem| unknown(&problem.to_string()))?;
    if known.bytes.len() != recorded.len() {
        return Err(unknown("the head in BEDLOAD.json has trailing bytes"));
    }
    if layout.bytes.is_some() && first == log.first.number {
        return Ok(recorded);
    }
    known.beginning_with(first).ok_or_else(|| unknown("its genesis state is not known"))
}
