//! The bytes of a CAR: a plain file or a stream.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};

use super::read_ahead::ReadAhead;
use crate::error::{Error, Result};
use crate::os::files::read_at_most;
use crate::os::mmap::Mapped;
use crate::source::input::{Body, ByteStream};

/// Distance ahead of the reading position that the system is advised to read, in bytes.
const READ_AHEAD: u64 = 16 << 20;

pub(in crate::source) enum Bytes {
    File(FileReader),
    Stream(Box<dyn ByteStream>),
}

/// A plain file that is read at a position, by threads ahead of it, or through a map.
pub(in crate::source) struct FileReader {
    pub file: File,
    pub at: u64,
    pub map: Option<Arc<Mapped>>,
    threads: Option<ReadAhead>,
    advised: u64,
}

impl Bytes {
    pub fn new(body: Body) -> Self {
        match body {
            Body::File(file) => Self::File(FileReader { file, at: 0, map: None, threads: None, advised: 0 }),
            Body::Stream(stream) => Self::Stream(stream),
        }
    }

    /// The last eight bytes of a file, or zeros.
    pub fn tail(&self) -> [u8; 8] {
        let mut tail = [0; 8];
        let Self::File(FileReader { file, .. }) = self else { return tail };
        let end = file.metadata().ok().and_then(|metadata| metadata.len().checked_sub(8));
        let read = end.and_then(|end| file.read_exact_at(&mut tail, end).ok());
        read.map_or([0; 8], |()| tail)
    }

    /// Sets the position in a file. A stream is already there.
    pub fn seek(&mut self, offset: u64) {
        if let Self::File(reader) = self {
            reader.at = offset;
        }
    }

    pub fn fill(&mut self, buf: &mut [u8], name: &Path) -> Result<usize> {
        match self {
            Self::Stream(stream) => stream.fill(buf),
            Self::File(reader) => reader.fill(buf, name),
        }
    }

    /// Maps a plain file, if it can be mapped. The position in it becomes `at`.
    pub fn start_map(&mut self, at: u64, name: &Path) {
        if let Self::File(reader) = self
            && let Ok(len) = reader.len(name)
            && at <= len
            && let Ok(len) = usize::try_from(len)
            && let Some(map) = Mapped::new(&reader.file, len, name)
        {
            map.advise(memmap2::Advice::Sequential);
            (reader.map, reader.at) = (Some(Arc::new(map)), at);
        }
    }

    pub fn map(&self) -> Option<&Arc<Mapped>> {
        match self {
            Self::File(reader) => reader.map.as_ref(),
            Self::Stream(_) => None,
        }
    }

    pub fn consumed(&self) -> u64 {
        match self {
            Self::File(reader) => reader.at,
            Self::Stream(stream) => stream.consumed(),
        }
    }
}

impl FileReader {
    fn fill(&mut self, buf: &mut [u8], name: &Path) -> Result<usize> {
        let filled = match (&self.map, &mut self.threads) {
            (Some(map), _) => {
                let from = usize::try_from(self.at).unwrap_or(usize::MAX).min(map.len());
                let rest = &map[from..];
                let len = rest.len().min(buf.len());
                buf[..len].copy_from_slice(&rest[..len]);
                map.check()?;
                len
            }
            (None, Some(threads)) => threads.fill(buf, self.at).map_err(Error::io("read", name))?,
            (None, None) => read_at_most(&self.file, buf, self.at).map_err(Error::io("read", name))?,
        };
        self.at += filled as u64;
        if self.map.is_none() && self.threads.is_none() {
            self.advise();
        }
        Ok(filled)
    }

    pub fn len(&self, name: &Path) -> Result<u64> {
        match &self.map {
            Some(map) => Ok(map.len() as u64),
            None => Ok(self.file.metadata().map_err(Error::io("read metadata of", name))?.len()),
        }
    }

    pub fn start_threads(&mut self, name: &Path) -> Result<()> {
        let file = self.file.try_clone().map_err(Error::io("open", name))?;
        self.threads = Some(ReadAhead::new(file)?);
        Ok(())
    }

    pub fn advise(&mut self) {
        if self.at + READ_AHEAD / 2 > self.advised {
            let from = self.advised.max(self.at);
            // Advice only: without it the next read waits for the disk.
            let _ = fadvise(&self.file, from, NonZeroU64::new(READ_AHEAD), Advice::WillNeed);
            self.advised = from + READ_AHEAD;
        }
    }
}
