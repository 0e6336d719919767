//! The source that is open: bytes that become chunks.

mod end;
mod head;
mod read;
mod resume;
mod skip;

use std::fs::File;
use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::Header;
use super::bytes::Bytes;
use super::framing::Limits;
use super::skipped_block::SkippedBlock;
use crate::error::{Error, Result};
use crate::source::input::{Expected, Input, Prefixed, Remote};

/// The modes of reading, the same for all sources.
#[derive(Clone, Copy)]
pub(super) struct Modes {
    pub limits: Limits,
    /// True if plain files are mapped.
    pub maps: bool,
    /// True if threads read plain files ahead.
    pub has_readers: bool,
    /// True if a file may hold several CARs.
    pub concatenated: bool,
    /// True if the index of a CARv2 ends the file: no blocks after it are lost.
    pub index_is_last: bool,
    /// `Some` if F3 data are skipped: true if they are hashed.
    pub skip_f3: Option<bool>,
}

pub(super) enum NextRead {
    Sections,
    /// The block that is in no chunk, at the front of `carry`.
    SkippedBlock,
    /// The header of one more CAR.
    Header,
    /// A fault. The blocks before it are returned first, so that the first fault of the file is reported, whatever the size
    /// of a chunk.
    Fault(Error),
    End,
}

/// Bounds of the data of a CARv2, as offsets in its file. Those of a CARv1 are open.
pub(super) struct DataBounds {
    /// The end of the blocks according to the header.
    pub end: Option<u64>,
    pub index_at: Option<u64>,
    /// Bytes that were read after the end.
    pub after: Vec<u8>,
    /// Offset of the first byte that the header does not declare.
    pub undeclared: Option<u64>,
}

pub(super) struct OpenCar {
    pub name: Arc<Path>,
    pub bytes: Bytes,
    pub modes: Modes,
    pub next: NextRead,
    /// Bytes of the file that were read but belong to no chunk yet.
    pub carry: Vec<u8>,
    /// Offset of `carry` in the decompressed file.
    pub position: u64,
    size: Option<u64>,
    pub data: DataBounds,
    /// Bytes of null padding after the blocks.
    pub padding: u64,
    /// The block of this source that is in no chunk.
    pub skipped_block: Option<SkippedBlock>,
    /// Of all bytes handed out or skipped, for streams; `None` if reading began in the middle.
    checksum: Option<XxHash3_64>,
    /// The file on the network, if reading can begin in its middle; and the expected sum of all bytes.
    remote: Option<Arc<Remote>>,
    pub sum: Option<Arc<Expected>>,
}

impl OpenCar {
    pub fn empty(modes: Modes) -> Self {
        let (carry, position, size, padding, skipped_block, checksum, remote, sum) = Default::default();
        let name = Path::new("").into();
        let bytes = Bytes::Stream(Box::new(Prefixed::default()));
        let data = DataBounds { end: None, index_at: None, after: Vec::new(), undeclared: None };
        let next = NextRead::Sections;
        Self { name, bytes, modes, next, carry, position, size, data, padding, skipped_block, checksum, remote, sum }
    }

    /// Replaces this source by `input` and reads its header.
    pub fn begin(&mut self, input: Input) -> Result<Header> {
        let Input { name, size, body, remote, expected, .. } = input;
        let bytes = Bytes::new(body);
        let size = size.filter(|_| matches!(bytes, Bytes::File(_)));
        let checksum = matches!(bytes, Bytes::Stream(_)).then(XxHash3_64::new);
        *self = Self { name: name.into(), bytes, size, checksum, remote, sum: expected, ..Self::empty(self.modes) };
        let header = self.read_head()?;
        if self.modes.skip_f3.is_some() {
            self.find_f3_data(&header.roots)?;
        }
        if self.modes.maps {
            self.map();
        }
        if self.modes.has_readers {
            self.start_readers()?;
        }
        Ok(header)
    }

    pub fn close(&mut self) {
        (self.bytes, self.remote) = (Bytes::Stream(Box::new(Prefixed::default())), None);
        self.carry = Vec::new();
    }

    pub fn file(&self) -> Option<&File> {
        match &self.bytes {
            Bytes::File(reader) => Some(&reader.file),
            Bytes::Stream(_) => None,
        }
    }

    /// Returns the XXH3-64 of all bytes handed out so far, for a stream that was read from its start.
    pub fn checksum(&self) -> Option<u64> {
        self.checksum.as_ref().map(Hasher::finish)
    }

    fn add_to_checksum(&mut self, bytes: &[u8]) {
        if let Some(checksum) = &mut self.checksum {
            checksum.write(bytes);
        }
    }

    /// Returns the bytes from `at` to the end of the data.
    fn window(&self, at: u64) -> usize {
        self.data.end.map_or(usize::MAX, |end| usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX))
    }
}
