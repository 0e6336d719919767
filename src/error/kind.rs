//! The kinds of errors that a program matches, and the exit codes of the command line.

/// The kinds of [`Error::State`](crate::Error::State).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StateKind {
    /// A database or file exists under the name of the result, and may not be replaced.
    Exists,
    /// Another call or process works on the path.
    Busy,
    /// The unfinished import at the path cannot be resumed: it belongs to another source or version, is damaged,
    /// or needs more memory.
    Unfinished,
    /// There is no database at the path.
    NoDatabase,
    /// A process, which may be this one, has the database open.
    Open,
    /// A limit of the process is too low: of open files, or of address space.
    Limit,
    /// The source has changed since it was first read, or has been removed.
    Changed,
    /// The database has been changed since its import, or may have been.
    Modified,
    /// The options do not match the database: its keys, column families or format.
    Mismatch,
    /// Any other state.
    Other,
}

/// The kinds of [`Error::BadInput`](crate::Error::BadInput).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum InputKind {
    /// Bytes do not match their hash, checksum or id.
    HashMismatch,
    /// The input ends too early.
    Truncated,
    /// Blocks or files are missing.
    Incomplete,
    /// The input is damaged, and no other kind describes the damage.
    Damaged,
    /// The input has an unknown format.
    NotASnapshot,
    /// The input may be valid, but needs a version, limit or option that this call does not support.
    Unsupported,
    /// The server does not have the file, the directory has no bundle, or symbolic links form a loop. A missing local
    /// file is an [`Error::Io`](crate::Error::Io).
    Missing,
    /// The server denies access, or is not trusted.
    Denied,
    /// The signature of a bundle is not valid.
    Signature,
}

/// The error of a text that is not a CID, an id or a digest.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);

/// The exit code of a run. Treat other codes as failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed: I/O, no space, RocksDB.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The input is bad: corrupt, truncated, unsupported.
    BadInput = 3,
    /// The database exists, is locked or belongs to another source.
    State = 4,
    /// Interrupted; the same command resumes.
    Interrupted = 130,
}
