//! Writing SST files up to a limit.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use data_encoding::HEXLOWER;

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::{Content, ContentDigest};
use crate::load::built::SstFile;
use crate::report::Plan;
use crate::rocks::{SstOptions, SstWriter};
use crate::sort::Borders;
use crate::sort::prefixes::shared;
use crate::sort::record_set::RecordParts;

/// Copies of a large value that RocksDB makes while it builds an SST: two that were measured without compression (RocksDB
/// 11.12), and the compressed one.
pub(in crate::load) const SST_COPIES: u64 = 3;

/// The index of a file has the bytes that a key shares with the key before it. Bytes beyond `LONG_BEGINNING` are counted, up to a
/// thread's share of the budget divided by `INDEX_SHARE`, or `LEAST_INDEX`, at which the file is finished: RocksDB has several
/// copies of the index of a file that is written, and the indexes of some others.
const LONG_BEGINNING: usize = 256;
const INDEX_SHARE: u64 = 32;
const LEAST_INDEX: u64 = 1 << 20;

/// The directory of an import's files. Threads share it, so that no two files have one number.
pub(in crate::load) struct SstFolder<'a> {
    dir: &'a Path,
    numbers: AtomicU32,
    /// Bytes of records, and of shared beginnings of keys, at which a file is finished.
    limit: u64,
    beginnings: u64,
}

/// Writes records into files of a folder. Their keys must ascend.
pub(in crate::load) struct RotatingSstWriter<'a> {
    folder: &'a SstFolder<'a>,
    options: &'a SstOptions,
    /// The least key of the next file, and those of later files.
    border: Option<Vec<u8>>,
    borders: Borders,
    open: Option<OpenFile<'a>>,
    files: Vec<SstFile>,
}

struct OpenFile<'a> {
    writer: SstWriter<'a>,
    written: u64,
    /// Bytes that keys share with those before them, beyond [`LONG_BEGINNING`].
    beginnings: u64,
    first: Vec<u8>,
    last: Vec<u8>,
    content: Content,
}

impl<'a> SstFolder<'a> {
    /// Files of a plan in `dir`, numbered after those in it and the `known` files.
    pub fn new<'k>(dir: &'a Path, plan: &Plan, known: impl IntoIterator<Item = &'k SstFile>) -> Self {
        let there =
            dir.read_dir().into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let names = there.chain(known.into_iter().map(|file| file.name.clone()));
        let taken = names.filter_map(|name| name.strip_suffix(".sst")?.parse::<u32>().ok());
        let beginnings = (plan.memory / (plan.threads.max(2) as u64 * INDEX_SHARE)).max(LEAST_INDEX);
        Self { dir, numbers: AtomicU32::new(taken.max().map_or(0, |last| last + 1)), limit: plan.sst_bytes, beginnings }
    }

    /// A writer for one ascending sequence of keys, with a new file at each of the `borders`.
    pub fn writer(&'a self, options: &'a SstOptions, mut borders: Borders) -> RotatingSstWriter<'a> {
        RotatingSstWriter { folder: self, options, border: borders.next(), borders, open: None, files: Vec::new() }
    }
}

impl RotatingSstWriter<'_> {
    /// Appends a record. Returns its digest, which is computed from the record after RocksDB has copied it: the record may be in a file
    /// that another process changes meanwhile.
    pub fn put(
        &mut self,
        (key, value): RecordParts<'_>,
        digest: impl FnOnce() -> ContentDigest,
    ) -> Result<ContentDigest> {
        let len = (key.len() + value.len()) as u64;
        while self.border.as_deref().is_some_and(|border| key >= border) {
            self.close()?;
            self.border = self.borders.next();
        }
        let mut beginning = match &self.open {
            Some(file) if key.len() > LONG_BEGINNING => shared(&file.last, key).saturating_sub(LONG_BEGINNING) as u64,
            _ => 0,
        };
        let is_full = |file: &OpenFile<'_>| {
            file.written + len > self.folder.limit || file.beginnings + beginning > self.folder.beginnings
        };
        if self.open.as_ref().is_some_and(is_full) {
            self.close()?;
            beginning = 0;
        }
        let file = match &mut self.open {
            Some(file) => file,
            None => {
                let number = self.folder.numbers.fetch_add(1, Ordering::Relaxed);
                let writer = SstWriter::create(self.options, self.folder.dir.join(format!("{number:06}.sst")))?;
                failpoint::reach("file-created");
                let (last, content) = (Vec::with_capacity(key.len()), Content::default());
                let first = key.to_vec();
                self.open.insert(OpenFile { writer, written: 0, beginnings: 0, first, last, content })
            }
        };
        file.writer.put(key, value)?;
        let digest = digest();
        file.written += len;
        file.beginnings += beginning;
        file.content.add(digest);
        file.last.clear();
        file.last.extend_from_slice(key);
        Ok(digest)
    }

    /// Completes and syncs the open file. Returns all files that were written.
    pub fn finish(mut self) -> Result<Vec<SstFile>> {
        self.close()?;
        Ok(self.files)
    }

    fn close(&mut self) -> Result<()> {
        let Some(OpenFile { writer, first, last, content, .. }) = self.open.take() else { return Ok(()) };
        let path = writer.finish()?;
        let bytes = path.metadata().map_err(Error::io("read metadata of", &path))?.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (first, last) = (HEXLOWER.encode(&first), HEXLOWER.encode(&last));
        let Content { records, digest } = content;
        self.files.push(SstFile { name, bytes, first, last, records, digest, ..SstFile::default() });
        Ok(())
    }
}
