//! Output of a command: results on standard output, a report in a file, errors on standard error, an exit code.

use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::os::files::Output;
use crate::report::{shown_in_line, shown_json};
use crate::source::remote::shown_path;
use crate::{Error, Exit};

use crate::cli::args::ReportArgs;
use crate::cli::command_line::command_line;
use crate::cli::globals::{Globals, ProgressStyle};
use crate::cli::log::{self, LogLevel};
use crate::cli::progress::{bar, monitor};
use crate::cli::render::screen;

const STDOUT: &str = "-";

/// The file that a report is written to.
pub enum ReportFile {
    None,
    Stdout,
    File(PathBuf, Output),
}

impl ReportFile {
    /// Creates the file of `--report`, if there is one, before the long work: an unwritable path fails now. The file must not be
    /// one of `others` (each with its name) or in one of them. An existing file remains until the report is complete.
    pub fn create(args: &ReportArgs, others: &[(&str, &Path)], globals: &Globals) -> anyhow::Result<Self> {
        let Some(path) = args.report.as_deref() else { return Ok(Self::None) };
        if path == Path::new(STDOUT) {
            // `--json` prints the same there.
            return Ok(if globals.json { Self::None } else { Self::Stdout });
        }
        for (what, other) in others {
            // A source from standard input may be a file, too.
            let file = if *other == Path::new("-") { Path::new("/dev/stdin") } else { other };
            if place(path).starts_with(place(file)) || inode(path).is_some_and(|found| inode(file) == Some(found)) {
                let other = shown_path(other);
                let reason = format!("the report would replace the {what} {}, or a file in it", other.display());
                return Err(Error::usage(reason, "choose another name for --report").into());
            }
        }
        // If this writer were closed, the reader would see the end of the report.
        let _reader = check_stream(path)?;
        Ok(Self::File(path.to_owned(), Output::create(path, true)?))
    }

    /// Returns the result of the work; the error of work that failed goes to the file first, as a document.
    pub fn or_error<T>(self, outcome: Result<T, impl Into<anyhow::Error>>) -> anyhow::Result<(T, Self)> {
        match outcome.map_err(Into::into) {
            Ok(result) => Ok((result, self)),
            Err(error) => {
                let (exit, hint) = exit_and_hint(&error);
                if let Err(failed) = self.write(&error_document(&format!("{error:#}"), &hint, exit), || Ok(())) {
                    // The error of the work is the one to end with.
                    bar::print_warning(&format!("{failed:#}"));
                }
                Err(error)
            }
        }
    }

    /// Writes the report to its file, if there is one, and then prints it with `print`. A report on standard output is
    /// alone there.
    pub fn write(
        self,
        report: &impl serde::Serialize,
        print: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Stdout => return print_json(report),
            Self::None => {}
            Self::File(path, mut output) => {
                let text = serde_json::to_vec_pretty(report)?;
                output.file().write_all(&text).map_err(Error::io("write", path))?;
                output.commit()?;
            }
        }
        print()
    }
}

/// Refuses a block device, whose content a report would overwrite, and a named pipe or socket without a reader, whose open
/// would block. Returns the open pipe.
fn check_stream(path: &Path) -> crate::Result<Option<std::fs::File>> {
    let refuse =
        |what: &str, hint: &str| Err(Error::usage(format!("the report cannot go to {}: {what}", path.display()), hint));
    match path.metadata().map(|found| found.file_type()) {
        Ok(kind) if kind.is_block_device() => refuse("it is a block device", "give --report a file"),
        Ok(kind) if kind.is_fifo() || kind.is_socket() => {
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            match std::fs::File::options().write(true).custom_flags(flags).open(path) {
                Ok(pipe) => Ok(Some(pipe)),
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                    refuse("no program reads from it", "start its reader first, or give --report a file, or `-`")
                }
                Err(error) => Err(Error::io("open", path)(error)),
            }
        }
        _ => Ok(None),
    }
}

/// The canonical path, also of a file that does not exist yet.
fn place(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let inside = || Some(parent.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(inside).unwrap_or_else(|| path.to_owned())
}

/// The identity of a regular file, whatever its names are.
fn inode(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| (found.dev(), found.ino()))
}

/// A command that did its work, but whose report could not be written or does not confirm a database.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    pub message: String,
    pub hint: String,
    pub source: Option<anyhow::Error>,
    pub has_report: bool,
}

/// An error of a report that was already printed: there is no other document.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Reported(pub Error);

/// Reports complete work with `report`. A closed pipe is not a failure; every other error says first that the work is
/// complete.
pub fn report_done(done: String, hint: &str, report: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    match report() {
        Err(error) if !is_broken_pipe(&error) => {
            let message = format!("{done}; only the report could not be written");
            Err(CommandError { message, hint: hint.to_owned(), source: Some(error), has_report: false }.into())
        }
        _ => Ok(()),
    }
}

pub fn refuse_terminal(what: &str) -> anyhow::Error {
    let reason = format!("{what} cannot go to a terminal");
    Error::usage(reason, "redirect the output to a file (> FILE), or pipe it into a command").into()
}

#[derive(serde::Serialize)]
pub struct WithSchema<'a, T> {
    pub schema: &'static str,
    #[serde(flatten)]
    pub content: &'a T,
}

/// Prints a report: as JSON, or as text whose values begin at the column `indent`.
pub fn print(report: &impl serde::Serialize, text: &str, indent: usize, globals: &Globals) -> anyhow::Result<()> {
    if globals.json { print_json(report) } else { Ok(screen::print(text, indent)?) }
}

pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    Ok(screen::write_out(&format!("{}\n", shown_json(&serde_json::to_string_pretty(value)?)))?)
}

/// Prints the error of the command `name`, if it failed, and returns its exit code. The monitor ends last.
pub fn exit_code(outcome: anyhow::Result<()>, name: &str, globals: &Globals) -> ExitCode {
    let exit = match outcome {
        // The reader of the output needs no more of it, unless the output is a snapshot.
        Err(error) if name == "export" || !is_broken_pipe(&error) => report_error(error, globals),
        _ => {
            let is_quiet = globals.quiet || globals.progress == ProgressStyle::Off;
            if log::is_json() && !is_quiet {
                log::write(LogLevel::Info, &format!("{name} is done"), serde_json::json!({ "exit": Exit::Done as u8 }));
            }
            Exit::Done
        }
    };
    monitor::end(exit as u8);
    ExitCode::from(exit as u8)
}

fn report_error(error: anyhow::Error, globals: &Globals) -> Exit {
    // The library names the path of a failure; an error without one is of the output stream.
    let error = if error.is::<io::Error>() { error.context("cannot write the output stream") } else { error };
    let (exit, hint) = exit_and_hint(&error);
    print_error(&format!("{error:#}"), &hint, exit, globals.has_color(&io::stderr()));
    // A report of what was found has been printed already.
    if globals.json
        && !error.is::<Reported>()
        && !error.downcast_ref().is_some_and(|error: &CommandError| error.has_report)
        && !matches!(error.downcast_ref(), Some(Error::VerificationFailed { .. } | Error::NotFound { .. }))
    {
        let _ = print_json(&error_document(&format!("{error:#}"), &hint, exit));
    }
    exit
}

fn exit_and_hint(error: &anyhow::Error) -> (Exit, String) {
    let reported = error.downcast_ref().map(|Reported(known)| known);
    match (error.downcast_ref::<Error>().or(reported), error.downcast_ref::<CommandError>()) {
        (Some(known), _) => (known.exit(), runnable(known)),
        (None, Some(failed)) => (Exit::Failed, failed.hint.clone()),
        (None, None) if error.is::<io::Error>() => {
            (Exit::Failed, "check the file or device of standard output (df -h); then run it again".into())
        }
        (None, None) => (Exit::Failed, "run it again; if it stays, check the disk (dmesg, smartctl)".into()),
    }
}

/// The piped command in hints of the library.
const PIPED: &str = "bedload import - --db DIR";

/// Returns the hint with [`PIPED`] replaced by the failed command, reading standard input instead of the file.
fn runnable(error: &Error) -> String {
    let hint = error.hint();
    let Error::BadInput { path, .. } = error else { return hint };
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let is_file = |arg: &std::ffi::OsString| shown_path(Path::new(arg)) == *path;
    if !hint.contains(PIPED) || args.iter().filter(|arg| is_file(arg)).count() != 1 {
        return hint;
    }
    let piped = args.into_iter().map(|arg| if is_file(&arg) { "-".into() } else { arg });
    hint.replace(PIPED, &command_line(piped))
}

/// Longest beginning and end of an error, in characters: names in it may have any length.
const BEGINNING: usize = 3000;
const END: usize = 1000;

/// Shortens a text, and removes secrets of URLs in arguments.
fn redact_and_truncate(text: &str) -> String {
    let mut text = without_error_numbers(text);
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        // clap joins words with single blanks.
        let joined = argument.split_whitespace().collect::<Vec<_>>().join(" ");
        // Messages contain the whole argument or the value of `--option=value`.
        let value = |text| str::split_once(text, '=').map(|(_, value)| value);
        let given = [Some(&*argument), value(&argument), Some(&*joined), value(&joined)];
        // A hint may name the directory above.
        for given in given.into_iter().flatten().flat_map(|given| Path::new(given).ancestors()) {
            let shown = shown_path(given);
            if shown != given {
                text = text.replace(&*given.to_string_lossy(), &shown.to_string_lossy());
            }
        }
    }
    let more = text.chars().count().saturating_sub(BEGINNING + END);
    if more == 0 {
        return text;
    }
    let (beginning, end) = (text.chars().take(BEGINNING), text.chars().skip(BEGINNING + more));
    beginning.chain([' ', '…', ' ']).chain(end).collect()
}

/// Removes ` (os error 2)`, which the standard library appends to the system's message.
fn without_error_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(part.trim_start_matches(|it: char| it.is_ascii_digit()).strip_prefix(')').unwrap_or(part));
    }
    shown
}

/// Prints one `error:` and one `hint:` line, or one object that has both.
pub fn print_error(error: &str, hint: &str, exit: Exit, color: bool) {
    if log::is_json() {
        return log::error(&redact_and_truncate(error), &redact_and_truncate(hint), exit);
    }
    let (red, bold, off) = if color { ("\x1b[1;31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let columns = screen::stderr_columns();
    let mut err = io::stderr().lock();
    for (style, name, text) in [(red, "error:", error), (bold, "hint:", hint)] {
        let lines =
            screen::fit(&format!("{name} {}", shown_in_line(&redact_and_truncate(text))), name.len() + 1, columns);
        let rest = lines.strip_prefix(name).unwrap_or(&lines);
        // A failure to print a failure cannot be reported.
        let _ = writeln!(err, "{style}{name}{off}{rest}");
    }
}

pub fn error_document(error: &str, hint: &str, exit: Exit) -> serde_json::Value {
    serde_json::json!({ "schema": "bedload-error-1", "error": redact_and_truncate(error), "hint": redact_and_truncate(hint), "exit": exit as u8 })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_json = || cause.downcast_ref().and_then(serde_json::Error::io_error_kind);
        cause.downcast_ref().map(io::Error::kind).or_else(of_json) == Some(io::ErrorKind::BrokenPipe)
    })
}
