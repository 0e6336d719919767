//! The caller's code that an import calls: a reader of the source, and a filter of its blocks.

use std::fmt;
use std::io::{self, Read};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::source::car::{RawCid, Section};

/// The reader of a source. It is read once.
#[derive(Clone)]
pub(crate) struct SourceReader(Arc<Mutex<Option<Box<dyn Read + Send>>>>);

impl SourceReader {
    pub fn new(reader: impl Read + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(reader)))))
    }

    pub fn take(&self) -> Result<Box<dyn Read + Send>> {
        let hint = "plan or import once with a reader, then make new options";
        let used = || Error::usage("the reader of the source has been read already", hint);
        Ok(Box::new(Checked(self.0.lock().take().ok_or_else(used)?)))
    }
}

/// The caller's reader. Its faults are errors: the import reads it on threads whose panics have no message for the caller.
struct Checked(Box<dyn Read + Send>);

impl Read for Checked {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = panic::catch_unwind(AssertUnwindSafe(|| self.0.read(buf)));
        match read.unwrap_or_else(|_| Err(io::Error::other("the reader panicked")))? {
            count if count > buf.len() => Err(io::Error::other("the reader returned more bytes than it was asked for")),
            count => Ok(count),
        }
    }
}

impl fmt::Debug for SourceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reader")
    }
}

/// True for a block that is stored.
type Keeps = dyn Fn(&RawCid, &[u8]) -> bool + Send + Sync;

/// A filter of blocks.
#[derive(Clone)]
pub(crate) struct Filter(Arc<Keeps>);

impl Filter {
    pub fn new(keeps: impl Fn(&RawCid, &[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(keeps))
    }

    /// True if the block of a section in `bytes` is stored.
    pub fn keeps(&self, section: &Section, bytes: &[u8]) -> bool {
        let (cid, data) = section.body(bytes).split_at(section.cid.len as usize);
        (self.0)(&RawCid::of_section(cid), data)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a filter")
    }
}
