//! Problems of streams of records, and the limits of their lengths.

use crate::error::Problem;
use crate::text::size::human;

/// The longest key, in bytes.
pub(crate) const MAX_KEY: u32 = 65_535;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordProblem {
    #[error("it ends inside its header")]
    CutHeader,
    #[error("it ends inside a record")]
    CutRecord,
    #[error("it has no {0}: it is cut, or its producer did not end")]
    NoTrailer(&'static str),
    #[error("it counts {stated} records, and it has {found}")]
    Count { stated: u64, found: u64 },
    #[error("its CRC-32 is {found:#010x}, and its trailer says {stated:#010x}: bytes were changed")]
    Crc { stated: u32, found: u32 },
    #[error("more bytes follow the trailer")]
    Excess,
    #[error("it ends before the place where the import stopped")]
    Shorter,
    #[error("its header has changed")]
    ChangedHeader,
    #[error("the header says that the records are sorted, and this one is not after the record before it")]
    Unsorted,
    #[error("a key of {0} bytes; a key has at most 65535")]
    LongKey(u64),
    #[error("a value of {0} bytes; --max-block-size allows {1}")]
    LongValue(u64, u64),
    #[error("a value of {0} bytes needs --memory {1}")]
    NeedsMemory(u64, String),
    #[error("a line of more than {0} bytes")]
    LongLine(u64),
    #[error("the column family {0} is not one of the {1} of the header")]
    Family(u32, u32),
    #[error("the stream names {0} column families, and 1 to 256 are possible")]
    Families(u32),
    #[error("a name of a column family has {0} bytes")]
    NameLength(u32),
    #[error("a name of a column family occurs twice, has a NUL byte or is not UTF-8")]
    Name,
    #[error("the stream has version {0} of kv, and this program reads version 1")]
    Version(u32),
    #[error("the flags {0:#x} of the stream are unknown")]
    Flags(u32),
    #[error("the version {0} of ROCKDUMP is unknown")]
    DumpVersion(String),
    #[error("the info of ROCKDUMP has {0} bytes, and 65536 are possible")]
    Info(u32),
    #[error("a line is not `0xKEY ==> 0xVALUE`")]
    Line,
    #[error("a {0} is not hex with `0x`: dump with `ldb --hex dump`")]
    Hex(&'static str),
    #[error("a line ends with CR and LF, so another program has changed the text")]
    CarriageReturn,
    #[error("more text follows the line `Keys in range`: give each dump by its own name")]
    MoreText,
    #[error("a key has a user timestamp, which a copy cannot have")]
    Timestamp,
    #[error("a value has wide columns, which a copy cannot have")]
    WideColumns,
}

impl Problem for RecordProblem {
    fn hint(&self) -> String {
        match self {
            Self::LongValue(..) | Self::NeedsMemory(..) => "pass the option, or check the producer",
            Self::Unsorted => "sort the records, or write the header without the flag",
            _ => "run its producer again, and check the exit code of the producer",
        }
        .into()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordLimits {
    pub max_value: u64,
    /// The longest value that the memory budget can hold, in bytes.
    pub fits: u64,
    pub budget: u64,
    /// Bytes of a chunk; a longer record gets a chunk of its own.
    pub chunk: usize,
    /// True if a stream may lack the mark at its end.
    pub allow_no_trailer: bool,
}

impl RecordLimits {
    /// Returns the reason why a value of this length is refused.
    pub fn refuse(&self, len: u64) -> Option<RecordProblem> {
        if len > self.max_value {
            return Some(RecordProblem::LongValue(len, self.max_value));
        }
        (len > self.fits).then(|| {
            let needed = self.budget.saturating_mul(len).div_ceil(self.fits.max(1)).next_multiple_of(64 << 20);
            RecordProblem::NeedsMemory(len, human(needed).replace(' ', ""))
        })
    }
}
