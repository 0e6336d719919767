//! Exports a block log: the blocks in order, each followed by its position, and the head of an Antelope log before them.
//!
//! ```text
//! Steem, Hive     block | u64 position                                      every block raw
//! Antelope v1-v3  head | block | u64 position ..
//! Antelope v4     head | u32 size | u8 compression, 0 | block | u64 position ..
//! ```
//!
//! A log that was one file of raw blocks is reproduced byte for byte. Packed blocks are written raw, parts as one log, and a
//! pruned log begins at its first block; the report says so. Every block must follow the previous one.

use std::io::Write;
use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::options::{ExportOptions, Format, MIN_MEMORY, Selection, interrupted};
use super::writer_pool::WriterPool;
use crate::blocks::chain::{self, Family, Header};
use crate::error::{Error, Result};
use crate::hash::content_digest::ContentDigest;
use crate::progress::{Phase, Progress};
use crate::report::{BlockRef, EXPORT_SCHEMA, ExportReport, ExportedLog, ImportReport, LogReport};
use crate::rocks::{Reader, ReaderOptions};
use crate::source::block_log::{Framing, MAX_BLOCK, preamble};

/// Blocks between updates of the progress and checks for cancellation.
const BATCH: u64 = 1024;

/// A validated export of a block log.
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

/// Result of the export.
#[derive(Default)]
struct Sum {
    blocks: u64,
    payload: u64,
    log_bytes: u64,
    digest: ContentDigest,
    first: Option<Header>,
    last: Option<Header>,
}

impl<'a> LogExport<'a> {
    /// Validates the options and opens the database, before anything is written.
    pub fn open(options: &'a ExportOptions, record: &'a ImportReport, log: &'a LogReport) -> Result<Self> {
        refuse_what_cars_have(options)?;
        let (from, to) = (options.from.unwrap_or(log.first.number), options.to.unwrap_or(log.last.number));
        for wanted in [from, to] {
            if !(log.first.number..=log.last.number).contains(&wanted) {
                return Err(Error::Usage {
                    reason: format!(
                        "block {wanted} is not in the database: it has blocks {} to {}",
                        log.first.number, log.last.number
                    ),
                    hint: "name blocks between these, or leave --from and --to out".into(),
                });
            }
        }
        if from > to {
            return Err(Error::Usage {
                reason: "--from is behind --to".into(),
                hint: "give them the other way round".into(),
            });
        }
        let (family, version) = record.chain();
        let mut framing = Framing::Graphene;
        let mut head = Vec::new();
        if family == Family::Antelope {
            head = head_of(options, log, from)?;
            let version = preamble::read(&head).map_or(version, |head| head.version);
            framing = Framing::Antelope { version };
        }
        let cache = usize::try_from(options.resources.memory_budget()?.max(MIN_MEMORY) / 8).unwrap_or(usize::MAX);
        let reader =
            Reader::open(&options.db, &ReaderOptions { cache, open_files: -1, lenient: false, in_order: false })?;
        Ok(Self { options, record, log, reader, family, framing, head, first: from, last: to })
    }

    /// True if these are all blocks of the import.
    fn is_whole(&self) -> bool {
        (self.first, self.last) == (self.log.first.number, self.log.last.number)
    }

    pub fn write<W: Write + Send>(
        &self,
        format: Format,
        file: &Path,
        out: &mut W,
        progress: &Progress<'_>,
    ) -> Result<ExportReport> {
        let options = self.options;
        progress.begin(Phase::Export, self.is_whole().then_some(self.record.payload_bytes));
        progress.expect_blocks(u64::from(self.last - self.first) + 1);
        let pool = WriterPool {
            format,
            threads: options.resources.thread_count(),
            index_memory: 0,
            dir: options.resources.scratch_parent(),
            path: file,
        };
        let (sum, bytes) = pool.run(0, out, |loader| {
            loader.add_bytes(&[&self.head])?;
            self.each_block(progress, |pieces| loader.add_bytes(pieces))
        })?;
        let all_records = self.is_whole();
        if all_records && (sum.blocks, sum.digest) != (self.record.blocks.written, self.record.digest) {
            return Err(self.failed("other blocks than the import wrote".into()));
        }
        Ok(ExportReport {
            schema: EXPORT_SCHEMA.into(),
            db: options.db.display().to_string(),
            file: file.display().to_string(),
            format: format.name().into(),
            selection: if all_records { "all" } else { "range" }.into(),
            roots: Vec::new(),
            blocks: sum.blocks,
            payload_bytes: sum.payload,
            car_bytes: sum.log_bytes,
            bytes,
            digest: sum.digest,
            all_records: Some(all_records),
            left_out: None,
            missing: 0,
            missing_allowed: 0,
            first_missing: Vec::new(),
            malformed: 0,
            complete: true,
            committed: false,
            log: sum.first.zip(sum.last).map(|(first, last)| {
                let differs = self.differences(sum.log_bytes);
                ExportedLog {
                    family: self.family.name().into(),
                    version: self.framing.version(),
                    first: BlockRef::of(&first),
                    last: BlockRef::of(&last),
                    identical: differs.is_empty(),
                    differs,
                }
            }),
            seconds: 0.0,
        })
    }

    /// Reads the blocks, checks their chain, and passes each entry's bytes to `put`.
    fn each_block(&self, progress: &Progress<'_>, mut put: impl FnMut(&[&[u8]]) -> Result<()>) -> Result<Sum> {
        let mut sum = Sum { log_bytes: self.head.len() as u64, ..Sum::default() };
        let mut pending = (0, 0);
        let behind = self.last.checked_add(1).map(u32::to_be_bytes);
        let mut scan = self.reader.scan(
            &self.record.column_family,
            Some(&self.first.to_be_bytes()),
            behind.as_ref().map(<[u8; 4]>::as_slice),
        )?;
        for number in self.first..=self.last {
            let Some((key, value)) = scan.item() else {
                scan.status()?;
                return Err(self.failed(format!("no block {number}")));
            };
            let header = self.check(number, key, value, sum.last.as_ref())?;
            let position = sum.log_bytes.to_le_bytes();
            let size = (value.len() + V4_AROUND) as u32;
            match self.framing {
                Framing::Antelope { version: 4 } => {
                    put(&[&size.to_le_bytes(), &[0], value, &position])?;
                    sum.log_bytes += u64::from(size);
                }
                _ => {
                    put(&[value, &position])?;
                    sum.log_bytes += (value.len() + position.len()) as u64;
                }
            }
            sum.blocks += 1;
            sum.payload += value.len() as u64;
            sum.digest.add_record(key, value);
            sum.first.get_or_insert(header);
            sum.last = Some(header);
            pending = (pending.0 + value.len() as u64, pending.1 + 1);
            if pending.1 == BATCH {
                progress.add(pending.0, pending.1);
                pending = (0, 0);
                if self.options.resources.stop.is_cancelled() {
                    return Err(interrupted());
                }
            }
            scan.next();
        }
        progress.add(pending.0, pending.1);
        Ok(sum)
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
            Err(problem) => Err(self.failed(format!("a block {number} that is none ({problem})"))),
        }
    }

    fn failed(&self, problems: String) -> Error {
        Error::VerificationFailed {
            action: "export",
            path: self.options.db.clone(),
            problems,
            hint: "bedload verify tells all that is wrong; import the log again".into(),
        }
    }

    /// Reason why the result differs from the imported log.
    fn differences(&self, bytes: u64) -> Vec<String> {
        let mut differs = Vec::new();
        let packed = self.log.packings.zstd + self.log.packings.zstd_dictionary;
        if packed > 0 {
            differs.push(format!("{packed} blocks were packed with zstd, and are raw now"));
        }
        if self.log.parts > 1 {
            differs.push(format!("it was split into {} files", self.log.parts));
        }
        if self.log.trimmed_bytes > 0 {
            differs.push(format!("it went on for {} bytes behind its last whole block", self.log.trimmed_bytes));
        }
        let layout = self.log.layout.as_ref();
        match layout {
            None => differs.push("the import did not record how it lay".into()),
            Some(layout) if layout.pruned => differs.push("it was pruned".into()),
            Some(layout) => {
                let is_other = !self.is_whole() || layout.bytes != Some(bytes);
                if is_other && differs.is_empty() {
                    differs.push("only a part of its blocks is here".into());
                }
            }
        }
        differs
    }
}

/// Length of a version 4 entry without its block.
const V4_AROUND: usize = 4 + 1 + 8;

/// Returns the head of an Antelope log that begins with block `first`.
fn head_of(options: &ExportOptions, log: &LogReport, first: u32) -> Result<Vec<u8>> {
    let unknown = |reason: &str| Error::State {
        path: options.db.clone(),
        reason: format!("its log cannot be written again: {reason}"),
        hint: "import the log again".into(),
    };
    let layout = log.layout.as_ref().ok_or_else(|| unknown("the import did not record its head"))?;
    let recorded = layout.head.as_deref().and_then(|head| HEXLOWER_PERMISSIVE.decode(head.as_bytes()).ok());
    let recorded = recorded.ok_or_else(|| unknown("BEDLOAD.json has no head of it"))?;
    let known = preamble::read(&recorded).map_err(|problem| unknown(&problem.to_string()))?;
    if known.bytes.len() != recorded.len() {
        return Err(unknown("the head in BEDLOAD.json goes on behind its end"));
    }
    if layout.bytes.is_some() && first == log.first.number {
        return Ok(recorded);
    }
    known.beginning_with(first).ok_or_else(|| unknown("its genesis state is not known"))
}

/// Refuses options that apply only to CARs.
fn refuse_what_cars_have(options: &ExportOptions) -> Result<()> {
    let is_of_cars = matches!(options.format, Some(Format::Car | Format::CarZst | Format::ForestCarZst));
    let given = [
        (!options.roots.is_empty(), "--root"),
        (options.selection == Selection::All, "--all"),
        (matches!(options.selection, Selection::Listed(_)), "--cids"),
        (options.allow_missing, "--allow-missing"),
        (options.allow_missing_below.is_some(), "--allow-missing-below"),
        (is_of_cars, "--format of a CAR"),
        (options.location.key.is_some(), "--key"),
        (options.location.column_family.is_some(), "--column-family"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, option)) => Err(Error::Usage {
            reason: format!("{option} has no effect on the export of a block log"),
            hint: "leave it out; all blocks are exported, or those between --from and --to".into(),
        }),
    }
}
