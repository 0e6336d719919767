//! Streams of records, read in chunks of two sizes that must agree.

use std::io::Cursor;
use std::sync::Arc;

use bedload::testing::source::input::{Body, Input};
use bedload::testing::source::records::{self, RecordLimits, RecordReader};

/// The longest value, in bytes: longer than a chunk, and fast.
const MAX_VALUE: u64 = 1 << 20;

/// The records of a stream, each with its column family, its key and its value; `None` after an error.
type Records = Option<Vec<(u16, Vec<u8>, Vec<u8>)>>;

/// Reads `data` as a stream of records in chunks of at least `chunk` bytes. Panics unless a reader of one large chunk finds the same.
pub fn records(data: &[u8], chunk: usize) {
    let read = |chunk: usize| -> Records {
        let limits = RecordLimits {
            max_value: MAX_VALUE,
            fits: MAX_VALUE,
            budget: 4 * MAX_VALUE,
            chunk,
            allow_no_trailer: data.len().is_multiple_of(2),
        };
        let mut input = Input::plain("fuzz", 0, Body::Stream(Box::new(Cursor::new(Arc::from(data)))));
        input.size = None;
        let mut found = Vec::new();
        let read = || -> Option<()> {
            let mut reader = RecordReader::open(input, records::detect(data)?, limits).ok()?;
            while let Some(mut chunk) = reader.next(None).ok()? {
                chunk.decode(&limits).ok()?;
                for (at, family) in chunk.records() {
                    let (key, value) = chunk.record(at);
                    found.push((family, key.to_vec(), value.to_vec()));
                }
            }
            Some(())
        };
        read()?;
        Some(found)
    };
    assert_eq!(read(chunk), read(4 * MAX_VALUE as usize));
}
