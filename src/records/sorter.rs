//! Databases of records that a program produces.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::load::{self, ImportOptions};
use crate::progress::Observer;
use crate::report::ImportReport;
use crate::source::records::{CRC, MAX_KEY, put_header, put_record, put_switch, put_trailer};

/// Bytes of a buffer that is passed to the import, and the number of buffers that wait for it.
const BUFFER: usize = 1 << 20;
const WAITING: usize = 4;

/// Buffers that threads fill at the same time.
const SHARDS: usize = 16;

/// Makes a RocksDB database of records in any order, which many threads may add.
///
/// The records go through the same import as a stream of records: they are sorted once, in memory or in files if they exceed the
/// memory budget, and the finished SST files are ingested at the last level. The database appears under its name when
/// [`Sorter::finish`] has returned its report. If the sorter is dropped before, nothing of it remains.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use bedload::{ImportOptions, Sorter};
///
/// let options = ImportOptions::of_records(dir.path().join("db")).memory(64 << 20);
/// let sorter = Sorter::new(options, ["default", "names"], bedload::progress::Silent)?;
/// std::thread::scope(|threads| {
///     for thread in 0..4_u32 {
///         let sorter = &sorter;
///         threads.spawn(move || sorter.add("names", &thread.to_be_bytes(), b"a name"));
///     }
/// });
/// assert_eq!(sorter.finish()?.blocks.written, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sorter {
    stream: RecordPipe,
    shards: Vec<Mutex<RecordBuffer>>,
}

/// Makes a RocksDB database of records in the order of column families and keys. Nothing is sorted: the records go into finished
/// SST files as they come.
#[derive(Debug)]
pub struct SortedWriter {
    stream: RecordPipe,
    buffer: RecordBuffer,
    last: Option<(u32, Vec<u8>)>,
}

/// Records that are not passed to the import yet.
#[derive(Debug, Default)]
struct RecordBuffer {
    bytes: Vec<u8>,
    records: u64,
    family: Option<u32>,
}

/// An import in a thread, and the stream that it reads.
#[derive(Debug)]
struct RecordPipe {
    families: Vec<String>,
    state: Mutex<PipeState>,
}

#[derive(Debug)]
struct PipeState {
    sender: Option<SyncSender<Vec<u8>>>,
    import: Option<JoinHandle<Result<ImportReport>>>,
    records: u64,
    crc: u64,
}

/// The end of the stream that the import reads.
struct PipeReader {
    receiver: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    at: usize,
}

impl Sorter {
    /// Starts an import of records into the database of the options, with these column families. The observer receives the progress.
    ///
    /// # Errors
    /// [`Error::Io`]: the system starts no thread. An error of the options or of the names is returned when records are added, or at the
    /// end.
    pub fn new<F: Into<String>>(
        options: ImportOptions,
        families: impl IntoIterator<Item = F>,
        observer: impl Observer + Send + 'static,
    ) -> Result<Self> {
        let stream = RecordPipe::new(options, families, false, observer)?;
        Ok(Self { stream, shards: (0..SHARDS).map(|_| Mutex::default()).collect() })
    }

    /// Adds a record. Waits while the import has enough to do.
    ///
    /// # Errors
    /// [`Error::Usage`]: there is no such column family, or the key is longer than 65,535 bytes. Any other error is that of the
    /// import, which has ended.
    pub fn add(&self, family: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let family = self.stream.number(family)?;
        let mut shard = self.shards[shard()].lock();
        shard.put(family, key, value)?;
        if shard.bytes.len() >= BUFFER { self.stream.send(&mut shard) } else { Ok(()) }
    }

    /// Completes the database, and returns the report of its import.
    ///
    /// # Errors
    /// Those of [`import`](crate::import).
    pub fn finish(self) -> Result<ImportReport> {
        for shard in &self.shards {
            self.stream.send(&mut shard.lock())?;
        }
        self.stream.finish()
    }
}

impl SortedWriter {
    /// Starts an import of sorted records. `families` are in the order in which their records come.
    ///
    /// # Errors
    /// Those of [`Sorter::new`].
    pub fn new<F: Into<String>>(
        options: ImportOptions,
        families: impl IntoIterator<Item = F>,
        observer: impl Observer + Send + 'static,
    ) -> Result<Self> {
        let stream = RecordPipe::new(options, families, true, observer)?;
        Ok(Self { stream, buffer: RecordBuffer::default(), last: None })
    }

    /// Adds the next record. Waits while the import has enough to do.
    ///
    /// # Errors
    /// Those of [`Sorter::add`]. [`Error::Usage`]: the record is not after the last one.
    pub fn put(&mut self, family: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let number = self.stream.number(family)?;
        if self.last.as_ref().is_some_and(|(last, last_key)| (*last, last_key.as_slice()) >= (number, key)) {
            let reason = "a record is not after the record before it in the order of column families and keys";
            return Err(Error::usage(reason, "add records of any order to a Sorter"));
        }
        self.buffer.put(number, key, value)?;
        let (last, last_key) = self.last.get_or_insert_default();
        *last = number;
        last_key.clear();
        last_key.extend_from_slice(key);
        if self.buffer.bytes.len() >= BUFFER { self.stream.send(&mut self.buffer) } else { Ok(()) }
    }

    /// Completes the database, and returns the report of its import.
    ///
    /// # Errors
    /// Those of [`import`](crate::import).
    pub fn finish(mut self) -> Result<ImportReport> {
        self.stream.send(&mut self.buffer)?;
        self.stream.finish()
    }
}

/// The shard of this thread.
fn shard() -> usize {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(std::thread::current().id()) as usize % SHARDS
}

impl RecordBuffer {
    fn put(&mut self, family: u32, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY as usize || value.len() > i32::MAX as usize {
            let reason = format!("a record has a key of {} bytes and a value of {}", key.len(), value.len());
            return Err(Error::usage(reason, "a key has at most 65,535 bytes, and a value less than 2 GiB"));
        }
        if self.family != Some(family) {
            put_switch(&mut self.bytes, family);
            self.family = Some(family);
        }
        put_record(&mut self.bytes, key, value);
        self.records += 1;
        Ok(())
    }
}

impl RecordPipe {
    fn new<F: Into<String>>(
        options: ImportOptions,
        families: impl IntoIterator<Item = F>,
        is_sorted: bool,
        observer: impl Observer + Send + 'static,
    ) -> Result<Self> {
        let families: Vec<String> = families.into_iter().map(Into::into).collect();
        let (sender, receiver) = sync_channel(WAITING);
        let options = options.read_from(PipeReader { receiver, bytes: Vec::new(), at: 0 });
        let import = std::thread::Builder::new().name("bedload-sorter".into());
        let import = import.spawn(move || load::import(&options, &observer));
        let import = import.map_err(Error::io("start a thread for", std::path::Path::new("an import")))?;
        let mut header = RecordBuffer::default();
        put_header(&mut header.bytes, &families, is_sorted);
        let state = PipeState { sender: Some(sender), import: Some(import), records: 0, crc: 0 };
        let pipe = Self { families, state: Mutex::new(state) };
        pipe.send(&mut header)?;
        Ok(pipe)
    }

    fn number(&self, family: &str) -> Result<u32> {
        let number = self.families.iter().position(|name| name == family);
        number.map(|number| number as u32).ok_or_else(|| {
            let reason = format!("the sorter has no column family `{family}`");
            Error::usage(reason, format!("it has {}", self.families.join(", ")))
        })
    }

    /// Passes the bytes of a buffer to the import.
    fn send(&self, buffer: &mut RecordBuffer) -> Result<()> {
        let RecordBuffer { bytes, records, .. } = std::mem::take(buffer);
        let crc = crc_fast::checksum(CRC, &bytes);
        let mut state = self.state.lock();
        state.crc = crc_fast::checksum_combine(CRC, state.crc, crc, bytes.len() as u64);
        state.records += records;
        match state.sender.as_ref().map(|sender| sender.send(bytes)) {
            Some(Ok(())) => Ok(()),
            _ => Err(state.join().err().unwrap_or_else(Error::interrupted)),
        }
    }

    fn finish(self) -> Result<ImportReport> {
        let mut state = self.state.lock();
        let mut trailer = Vec::new();
        put_trailer(&mut trailer, state.records, state.crc as u32);
        // After a failure of the import the error is that of the import.
        let _ = state.sender.as_ref().map(|sender| sender.send(trailer));
        state.join()
    }
}

impl PipeState {
    /// Ends the stream, and waits for the import.
    fn join(&mut self) -> Result<ImportReport> {
        self.sender = None;
        let import = self.import.take().ok_or_else(Error::interrupted)?;
        import.join().unwrap_or_else(|_| Err(Error::broken_invariant("the import panicked")))
    }
}

impl Drop for PipeState {
    /// Without a trailer the import fails, and removes what it has written.
    fn drop(&mut self) {
        let _ = self.join();
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.bytes.len() {
            let Ok(bytes) = self.receiver.recv() else { return Ok(0) };
            (self.bytes, self.at) = (bytes, 0);
        }
        let read = buffer.len().min(self.bytes.len() - self.at);
        buffer[..read].copy_from_slice(&self.bytes[self.at..self.at + read]);
        self.at += read;
        Ok(read)
    }
}
