//! Writing SST files: a file is finished at a limit, and the next one begins.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};
use crate::load::built::BuiltFile;
use crate::rocks::{SstOptions, SstWriter};

/// The directory of an import's files; threads share it, so that no two files have one number.
pub(in crate::load) struct SstFolder<'a> {
    dir: &'a Path,
    numbers: AtomicU32,
    /// Bytes of records at which a file is finished.
    limit: u64,
}

/// Writes records, whose keys must ascend, into files of a folder.
pub(in crate::load) struct RotatingSstWriter<'a> {
    folder: &'a SstFolder<'a>,
    options: &'a SstOptions,
    writer: Option<SstWriter<'a>>,
    /// Bytes of records in the open file.
    written: u64,
    files: Vec<BuiltFile>,
}

impl<'a> SstFolder<'a> {
    /// Files in `dir` of up to `limit` bytes of records, with numbers behind those of the files that are `known`.
    pub fn new(dir: &'a Path, limit: u64, known: &[BuiltFile]) -> Self {
        let taken = known.iter().filter_map(|file| file.name.strip_suffix(".sst")?.parse::<u32>().ok());
        Self { dir, numbers: AtomicU32::new(taken.max().map_or(0, |last| last + 1)), limit }
    }

    /// A writer for one ascending sequence of keys.
    pub fn writer(&'a self, options: &'a SstOptions) -> RotatingSstWriter<'a> {
        RotatingSstWriter { folder: self, options, writer: None, written: 0, files: Vec::new() }
    }
}

impl RotatingSstWriter<'_> {
    /// Appends a record whose value follows its key.
    ///
    /// # Errors
    /// [`Error::Rocks`]: keys out of order, a disk that is full.
    pub fn put(&mut self, record: &[u8], key_len: usize) -> Result<()> {
        if self.written > 0 && self.written + record.len() as u64 > self.folder.limit {
            self.close()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let number = self.folder.numbers.fetch_add(1, Ordering::Relaxed);
                let path = self.folder.dir.join(format!("{number:06}.sst"));
                self.writer.insert(SstWriter::create(self.options, path)?)
            }
        };
        let (key, value) = record.split_at(key_len);
        writer.put(key, value)?;
        self.written += record.len() as u64;
        Ok(())
    }

    /// Completes and syncs the open file; all files that were written.
    ///
    /// # Errors
    /// [`Error::Rocks`], [`Error::Io`]: the disk is full or fails.
    pub fn finish(mut self) -> Result<Vec<BuiltFile>> {
        self.close()?;
        Ok(self.files)
    }

    fn close(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let path = writer.finish()?;
            let bytes = path.metadata().map_err(Error::io("look at", &path))?.len();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.files.push(BuiltFile { name, bytes });
        }
        self.written = 0;
        Ok(())
    }
}
