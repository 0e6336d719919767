//! The destination of a generated snapshot: a file that is new or may be replaced, or a stream.

use std::fs::File;
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::path::Path;

use crate::Error;
use crate::os::files::Output;
use crate::progress::CancellationToken;

use super::args::Args;
use crate::cli::output::refuse_terminal;

/// The stream that the user named; `None` for a file that is new, or may be replaced.
pub fn stream(args: &Args) -> anyhow::Result<Option<Box<dyn Write + Send>>> {
    let stop = args.stop.clone();
    if args.file == Path::new("-") {
        let out = io::stdout();
        if out.is_terminal() {
            return Err(refuse_terminal("a snapshot"));
        }
        return Ok(Some(Box::new(Stoppable { out, stop })));
    }
    // A device or a named pipe has nothing to replace.
    if !args.file.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(None);
    }
    let out = File::options().write(true).open(&args.file).map_err(Error::io("open", &args.file))?;
    Ok(Some(Box::new(Stoppable { out, stop })))
}

/// Writes a file that appears under its name only when it is complete.
pub fn write_file<T>(
    path: &Path,
    args: &Args,
    write: impl FnOnce(&mut Stoppable<&mut File>) -> crate::Result<T>,
) -> crate::Result<T> {
    let mut output = Output::create(path, args.force)?;
    let written = write(&mut Stoppable { out: output.file(), stop: args.stop.clone() })?;
    output.commit()?;
    Ok(written)
}

/// An output that fails once the user has stopped the program.
pub struct Stoppable<W> {
    out: W,
    stop: CancellationToken,
}

impl<W: Write> Write for Stoppable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            // Not `Interrupted`: that kind means to try again.
            return Err(io::Error::other("interrupted"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Seek> Seek for Stoppable<W> {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.out.seek(place)
    }
}
