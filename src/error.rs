//! The one error type of the library.
//!
//! The text of an error says what failed, on which object, and why. It does not repeat the cause, its `source()`.

mod hint;
mod kind;

use std::path::{Path, PathBuf};

use hint::{STREAM, input_hint, io_hint, is_output};
pub(crate) use kind::Exit;
pub use kind::{InputKind, ParseError, StateKind};

use crate::text::escape::shell_word;
use crate::text::size::human;

/// The result of every fallible function of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call. `Display` names the object that it is about; `source()` is the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is corrupt, truncated or of a kind that is not supported.
    #[error("cannot read {}{}", path.display(), offset.map_or_else(String::new, |offset| format!(" at byte {offset}")))]
    BadInput {
        /// The input as the user named it; `-` for a pipe.
        path: PathBuf,
        /// Offset in the input, in bytes; in the decompressed data if the problem is there.
        offset: Option<u64>,
        /// The kind of `problem`.
        kind: InputKind,
        /// The problem.
        #[source]
        problem: Cause,
    },
    /// A system call failed, or an input is missing (`NotFound`) or not readable (`PermissionDenied`).
    #[error("cannot {action} {}", named(action, path))]
    Io {
        /// A verb, e.g. `open`.
        action: &'static str,
        /// The object; `-` for a stream.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A disk is full, or will be.
    #[error("not enough space in {}: {}{} free", path.display(), needed.map_or_else(String::new, |it| format!("{} more needed, ", human(it))), human(*free))]
    NoSpace {
        /// A directory on the file system that is full.
        path: PathBuf,
        /// Additional bytes needed, if known.
        needed: Option<u64>,
        /// Free bytes on that file system.
        free: u64,
        /// The error of the disk; `None` if a check found too little space.
        source: Option<Box<Error>>,
    },
    /// A call of RocksDB failed.
    #[error("cannot {action} {}: {message}", path.display())]
    Rocks {
        /// A verb, e.g. `ingest into`.
        action: &'static str,
        /// The database or file.
        path: PathBuf,
        /// RocksDB's message.
        message: String,
    },
    /// The state of a path, or of this process, forbids the call.
    #[error("{}: {reason}", path.display())]
    State {
        /// The database, its `.partial` folder, or another file or directory.
        path: PathBuf,
        /// The kind of `reason`.
        kind: StateKind,
        /// The reason.
        reason: String,
        #[doc(hidden)]
        hint: Hint,
    },
    /// A wrong value, or two options that exclude each other.
    #[error("{reason}")]
    Usage {
        /// The reason.
        reason: String,
        #[doc(hidden)]
        hint: Hint,
    },
    /// A preset, or an override of it, is invalid.
    #[error(transparent)]
    Preset(Cause),
    /// A database or snapshot is damaged or incomplete. The report has the details.
    #[error("{action} {}: {problems} found", path.display())]
    VerificationFailed {
        /// A verb, e.g. `export`.
        action: &'static str,
        /// The database or snapshot.
        path: PathBuf,
        /// A count, e.g. `3 problems`.
        problems: String,
        #[doc(hidden)]
        hint: Hint,
    },
    /// The key or block that was looked up is not in the database.
    #[error("cannot get from {}: {reason}", path.display())]
    NotFound {
        /// The database.
        path: PathBuf,
        /// The missing object.
        reason: String,
        #[doc(hidden)]
        hint: Hint,
    },
    /// The directory of a database was replaced or moved while it was read. No results are reported.
    #[error("{}: the database was replaced or moved while it was read", path.display())]
    Replaced {
        /// The database.
        path: PathBuf,
    },
    /// An invariant of bedload is broken. It stops instead of losing data.
    #[error("internal error: {reason}")]
    Internal {
        /// The broken invariant.
        reason: String,
    },
    /// The caller cancelled the work. The same call resumes an import.
    #[error("interrupted")]
    Interrupted {
        #[doc(hidden)]
        hint: Hint,
    },
}

/// Advice for the user of the command line, which prints it. Programs match the kind of an error instead.
#[derive(Debug)]
pub struct Hint(String);

impl<T: Into<String>> From<T> for Hint {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// A problem that a module found.
pub(crate) trait Problem: std::error::Error + Send + Sync + 'static {
    /// The kind of [`Error::BadInput`].
    fn kind(&self) -> InputKind {
        InputKind::Damaged
    }

    /// The next step in one line. `{file}` is the file with the problem and `{dir}` its directory, quoted for a shell.
    fn hint(&self) -> String;
}

/// The problem of an input or a preset, as text.
#[derive(Debug)]
pub struct Cause(Box<dyn Problem>);

impl Cause {
    pub(crate) fn new(problem: impl Problem) -> Self {
        Self(Box::new(problem))
    }

    /// The problem, if it is a `P`.
    pub(crate) fn downcast_ref<P: Problem>(&self) -> Option<&P> {
        let problem: &(dyn std::error::Error + 'static) = &*self.0;
        problem.downcast_ref()
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Error {
    /// Wraps an [`std::io::Error`] with the action that failed and its object.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        // A `Read` may have wrapped an error of this crate.
        move |source| source.downcast().unwrap_or_else(|source| Self::Io { action, path, source })
    }

    /// An error of RocksDB; [`Error::Io`] if its message contains an error of the system.
    pub(crate) fn of_rocks(action: &'static str, path: &Path, message: String) -> Self {
        if message.contains(LOCKED) {
            return Self::open_elsewhere(path, None);
        }
        if message.contains(LOCKED_HERE) {
            return Self::open_here(path);
        }
        match errno_of(&message) {
            Some(errno) => Self::io(action, path)(errno.into()),
            None => Self::Rocks { action, path: path.to_owned(), message },
        }
    }

    /// Another process, whose number may be unknown, has the database open.
    pub(crate) fn open_elsewhere(db: &Path, process: Option<i32>) -> Self {
        // The number is 0 for a process in another container.
        let process = process.filter(|&pid| pid > 0).map(|pid| format!(" (process {pid})")).unwrap_or_default();
        let hint = format!("stop the node{process}, then run the same command again");
        Error::state(db, StateKind::Open, "another process has the database open", hint)
    }

    pub(crate) fn open_here(db: &Path) -> Self {
        let hint = "close the database before the import, and open it again after it";
        Error::state(db, StateKind::Open, "this process has the database open", hint)
    }

    /// A wrong option, with the next step.
    pub(crate) fn usage(reason: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::Usage { reason: reason.into(), hint: hint.into() }
    }

    /// A state of `path` that forbids the command, with the next step.
    pub(crate) fn state(
        path: impl Into<PathBuf>,
        kind: StateKind,
        reason: impl Into<String>,
        hint: impl Into<Hint>,
    ) -> Self {
        Self::State { path: path.into(), kind, reason: reason.into(), hint: hint.into() }
    }

    /// The command needs `memory` bytes.
    pub(crate) fn limit(path: &Path, reason: String, memory: u64) -> Self {
        let hint = format!("run the same command with --memory {}MiB or more", memory.div_ceil(1 << 20));
        Self::state(path, StateKind::Limit, reason, hint)
    }

    /// A verification that found problems.
    pub(crate) fn verification_failed(
        action: &'static str,
        path: impl Into<PathBuf>,
        problems: impl Into<String>,
        hint: impl Into<Hint>,
    ) -> Self {
        Self::VerificationFailed { action, path: path.into(), problems: problems.into(), hint: hint.into() }
    }

    /// A key or block that is not in the database.
    pub(crate) fn not_found(path: impl Into<PathBuf>, reason: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::NotFound { path: path.into(), reason: reason.into(), hint: hint.into() }
    }

    pub(crate) fn memory_too_small(memory: u64, least: u64) -> Self {
        let hint = format!("pass --memory {} or more", human(least).replace(".0 ", ""));
        let shown = if human(memory) == human(least) { format!("{memory} bytes") } else { human(memory) };
        Error::usage(format!("the memory budget of {shown} is too small"), hint)
    }

    /// A bad input, at a place in it.
    pub(crate) fn bad_input(path: &Path, offset: impl Into<Option<u64>>, problem: impl Problem) -> Self {
        let (kind, problem) = (problem.kind(), Cause::new(problem));
        Self::BadInput { path: path.to_owned(), offset: offset.into(), kind, problem }
    }

    /// An input that cannot be opened: an error of the system with `problem` as its text.
    pub(crate) fn unreadable_input(path: &Path, kind: std::io::ErrorKind, problem: impl Problem) -> Self {
        Self::io("read", path)(std::io::Error::new(kind, Cause::new(problem)))
    }

    /// An unfinished import is damaged: it `lacks a file`.
    pub(crate) fn damaged_work(path: impl Into<PathBuf>, what: impl std::fmt::Display) -> Self {
        let hint = "pass --restart to delete it and start over";
        Error::state(path, StateKind::Unfinished, format!("the unfinished import {what}"), hint)
    }

    /// An unfinished import that lacks `what`.
    pub(crate) fn incomplete_work(path: impl Into<PathBuf>, what: impl std::fmt::Display) -> Self {
        Self::damaged_work(path, format_args!("lacks {what}"))
    }

    /// True if the unfinished work cannot be resumed, and may be deleted.
    pub(crate) fn needs_restart(&self) -> bool {
        matches!(self, Self::State { kind: StateKind::Unfinished | StateKind::Changed, .. })
    }

    /// True if RocksDB found damage.
    pub(crate) fn is_corruption(&self) -> bool {
        matches!(self, Self::Rocks { message, .. } if message.contains("Corruption: "))
    }

    pub(crate) fn broken_invariant(reason: impl std::fmt::Display) -> Self {
        Self::Internal { reason: reason.to_string() }
    }

    pub(crate) fn interrupted() -> Self {
        Self::Interrupted { hint: "run the same command again to resume".into() }
    }

    pub(crate) fn interrupted_reading() -> Self {
        Self::Interrupted { hint: "nothing was changed; run it again".into() }
    }

    /// The exit code of this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::BadInput { .. } | Self::VerificationFailed { .. } => Exit::BadInput,
            Self::Io { source, .. } if input_problem(source).is_some() => Exit::BadInput,
            Self::Io { action: "open" | "read", source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Exit::BadInput
            }
            error if error.is_corruption() => Exit::BadInput,
            Self::State { .. } => Exit::State,
            Self::Usage { .. } | Self::Preset(_) => Exit::Usage,
            Self::Interrupted { .. } => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }

    /// The next step in one line.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::BadInput { problem, path, .. } => input_hint(path, &problem.0.hint()),
            Self::Preset(problem) => problem.0.hint(),
            Self::Io { action, source, path } => input_problem(source).map_or_else(
                || io_hint(source, path, is_output(action, path)),
                |problem| input_hint(path, &problem.0.hint()),
            ),
            Self::NoSpace { path, .. } => format!(
                "free some space (df -h {}), then run the same command again to resume; or start over with another --db",
                shell_word(path)
            ),
            Self::Rocks { message, path, .. } => errno_of(message).map_or_else(
                || "this is RocksDB's message; run `bedload verify` to check the database".into(),
                |errno| io_hint(&errno.into(), path, false),
            ),
            Self::Replaced { .. } => "run the same command again to read the new database".into(),
            Self::Internal { .. } => "this is a bug in bedload: report it with the command and this message".into(),
            Self::State { hint, .. }
            | Self::Usage { hint, .. }
            | Self::VerificationFailed { hint, .. }
            | Self::NotFound { hint, .. }
            | Self::Interrupted { hint } => hint.0.clone(),
        }
    }
}

/// RocksDB's message for a database that another process has open.
const LOCKED: &str = "While lock file";

/// RocksDB's message for a database that this process has open.
const LOCKED_HERE: &str = "lock hold by current process";

/// Finds the system's error in a message of RocksDB, which reports errors as text only.
pub(crate) fn errno_of(message: &str) -> Option<rustix::io::Errno> {
    use rustix::io::Errno;
    let known = [
        ("No space left on device", Errno::NOSPC),
        ("Too many open files", Errno::MFILE),
        ("Input/output error", Errno::IO),
        ("Read-only file system", Errno::ROFS),
        ("Permission denied", Errno::ACCESS),
        ("File too large", Errno::FBIG),
        ("Cannot allocate memory", Errno::NOMEM),
        ("Resource temporarily unavailable", Errno::AGAIN),
    ];
    known.into_iter().find(|(text, _)| message.contains(text)).map(|(_, errno)| errno)
}

/// The problem in the error of an input that is missing or not readable.
fn input_problem(source: &std::io::Error) -> Option<&Cause> {
    source.get_ref()?.downcast_ref()
}

/// The object of an action.
fn named(action: &str, path: &Path) -> String {
    match path {
        path if is_output(action, path) => "the output stream".into(),
        path if path == Path::new(STREAM) => "the input stream".into(),
        path => path.display().to_string(),
    }
}
