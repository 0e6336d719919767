//! Streams of records of any program: bedload's format `kv`, RocksDB's ROCKDUMP, and the text of `ldb --hex dump`.
//!
//! All numbers are little-endian. `docs/kv.md` specifies `kv`.
//!
//! ```text
//! kv        "BEDLOADK", u32 version, u32 flags, u32 families, { u32 length, name }*, records, trailer
//! ROCKDUMP  "ROCKDUMP", version of 8 bytes, u32 length, info, records
//! record    u32 length, key, u32 length, value
//! switch    0xFFFFFFFE, u32 family         the column family of the next records; before the first switch it is 0
//! trailer   0xFFFFFFFF, u64 records, u32 CRC-32 of all bytes before the trailer
//! ldb       "0xKEY ==> 0xVALUE\n"*, "Keys in range: N\n"
//! ```
//!
//! A [`RecordReader`] cuts its source into chunks of whole records. One thread at a time does this, so it reads lengths only. The
//! worker that takes a chunk of text decodes it to the framing of `kv`.

mod frame;
mod header;
mod problem;
mod reader;
mod text;

pub use frame::{put_record, put_switch, put_trailer};
pub use header::{RecordFormat, RecordHeader, detect, is_plain_dump, put_header};
pub(crate) use problem::damaged;
pub use problem::{MAX_KEY, RecordLimits};
pub use reader::{CRC, RecordChunk, RecordPosition, RecordReader};
