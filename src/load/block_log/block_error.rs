//! Errors of a block, before its place in the log is added.

use crate::error::Error;
use crate::source::block_log::LogProblem;

/// The error of a block.
pub(super) enum BlockError {
    Problem(LogProblem),
    /// A problem of an earlier block, which begins at this byte.
    Earlier(u64, LogProblem),
    Other(Error),
}

impl BlockError {
    /// The error of a block that begins at `offset`; `bad` makes it of the place and the problem.
    pub fn at(self, offset: u64, bad: impl FnOnce(u64, LogProblem) -> Error) -> Error {
        match self {
            Self::Problem(problem) => bad(offset, problem),
            Self::Earlier(offset, problem) => bad(offset, problem),
            Self::Other(error) => error,
        }
    }
}

impl From<LogProblem> for BlockError {
    fn from(problem: LogProblem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Error> for BlockError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
