//! Problems of streams of records, and the limits of their lengths.

use std::borrow::Cow;

use crate::error::InputKind;
use crate::source::StatedProblem;

/// The longest key, in bytes.
pub const MAX_KEY: u32 = 65_535;

/// An offset, and the problem at it.
pub(super) type Fault = (usize, StatedProblem);

/// A text that another program has changed.
pub(super) fn text_fault(at: usize, reason: impl Into<Cow<'static, str>>) -> Fault {
    let hint = "dump the database again with `ldb --hex dump`, and check whether a program changed the text";
    (at, StatedProblem::new(InputKind::Damaged, reason, hint))
}

pub(super) fn fault(at: usize, reason: impl Into<Cow<'static, str>>) -> Fault {
    (at, wrong(reason))
}

/// A stream that its producer wrote in another format.
pub(super) fn wrong(reason: impl Into<Cow<'static, str>>) -> StatedProblem {
    let hint = "correct its producer (docs/kv.md has the format; numbers are little-endian), or check whether the file was changed";
    StatedProblem::new(InputKind::Damaged, reason, hint)
}

/// A stream that is cut or has changed.
pub(crate) fn damaged(reason: impl Into<Cow<'static, str>>) -> StatedProblem {
    StatedProblem::new(InputKind::Damaged, reason, "run its producer again, and check the exit code of the producer")
}

pub(super) fn long_key(len: usize) -> StatedProblem {
    wrong(format!("a key of {len} bytes; a key has at most {MAX_KEY}, whatever the options"))
}

#[derive(Debug, Clone, Copy, Default)]
pub struct RecordLimits {
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
    pub(crate) fn refuse(&self, len: u64) -> Option<StatedProblem> {
        let reason = if len > self.max_value {
            format!("a value of {len} bytes; --max-block-size allows {}", self.max_value)
        } else if len > self.fits {
            let needed = self.budget.saturating_mul(len).div_ceil(self.fits.max(1));
            format!("a value of {len} bytes needs --memory {}MiB or more", needed.div_ceil(1 << 20))
        } else {
            return None;
        };
        Some(StatedProblem::new(InputKind::Damaged, reason, "pass the option, or check the producer"))
    }
}
