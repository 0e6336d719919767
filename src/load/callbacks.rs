//! The caller's code that an import calls: a reader of the source, and a filter of its blocks.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::os::caller_code::{Checked, call};
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
    pub fn keeps(&self, section: &Section, bytes: &[u8]) -> Result<bool> {
        let (cid, data) = section.body(bytes).split_at(section.cid.len as usize);
        call("the filter", || (self.0)(&RawCid::of_section(cid), data)).map_err(Error::io("call", "the filter"))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a filter")
    }
}
