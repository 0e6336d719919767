//! Errors of a block, before its place in the log is added.

use std::path::Path;

use crate::error::Error;
use crate::source::block_log::{LogProblem, Part};

/// The error of a block.
pub(super) enum BlockError {
    Problem(LogProblem),
    /// Of a block before it, which begins at this byte.
    Earlier(u64, LogProblem),
    Other(Error),
}

impl BlockError {
    pub fn at(self, part: &Part, offset: u64) -> Error {
        match self {
            Self::Problem(problem) => part.bad(offset, problem),
            Self::Earlier(offset, problem) => part.bad(offset, problem),
            Self::Other(error) => error,
        }
    }

    pub fn of(self, path: &Path, offset: u64) -> Error {
        match self {
            Self::Problem(problem) => Error::bad_input(path, offset, problem),
            Self::Earlier(offset, problem) => Error::bad_input(path, offset, problem),
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
