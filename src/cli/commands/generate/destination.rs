//! Where a generated snapshot goes: a file that is new or may be replaced, or a stream.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use crate::Error;
use crate::os::files::Output;

use super::args::Args;
use crate::cli::output::refuse_terminal;

/// Where the snapshot goes.
pub enum Destination {
    /// Something that cannot seek, already open.
    Stream(Box<dyn Write + Send>),
    /// A file that is new, or may be replaced.
    File,
}

/// The destination that the user named.
pub fn destination(args: &Args) -> anyhow::Result<Destination> {
    if args.file == Path::new("-") {
        let out = io::stdout();
        if out.is_terminal() {
            return Err(refuse_terminal());
        }
        return Ok(Destination::Stream(Box::new(out)));
    }
    match std::fs::metadata(&args.file) {
        // A device or a named pipe: nothing to replace.
        Ok(found) if !found.is_file() && !found.is_dir() => {
            let out = File::options().write(true).open(&args.file).map_err(Error::io("open", &args.file))?;
            Ok(Destination::Stream(Box::new(out)))
        }
        _ => Ok(Destination::File),
    }
}

/// Writes a file that appears under its name only when it is complete.
pub fn write_file<T>(path: &Path, force: bool, write: impl FnOnce(&mut File) -> crate::Result<T>) -> crate::Result<T> {
    let mut output = Output::create(path, force)?;
    let written = write(output.file())?;
    output.commit()?;
    Ok(written)
}
