//! `@FILE` among the names of snapshots: one name a line.
//!
//! Names are taken as they would be on the command line, so that relative ones are relative to the working directory, as
//! with `tar -T`. Blank lines and lines that begin with `#` are passed over; a line that begins with `@` is a name.
//! `@-` is standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The longest list that is read, in bytes.
const MOST: u64 = 16 << 20;

/// The names with those of lists in their places.
///
/// # Errors
/// [`Error::Usage`]: a list has no name or is too long, or standard input is both a list and a snapshot; [`Error::Io`]: it
/// cannot be read.
pub fn expand(names: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let mut lists = 0;
    for name in names {
        let Some(list) = file(name) else {
            all.push(name.clone());
            continue;
        };
        lists += usize::from(list == Path::new("-"));
        let found = read(list)?;
        if found.is_empty() {
            return Err(Error::Usage {
                reason: format!("the list {} names nothing", list.display()),
                hint: "write one name a line".into(),
            });
        }
        all.extend(found);
    }
    let piped = all.iter().filter(|name| name.as_os_str() == "-").count();
    if lists > 1 || (lists > 0 && piped > 0) {
        return Err(Error::Usage {
            reason: "standard input is a list of names (@-) and something else as well".into(),
            hint: "put the list into a file".into(),
        });
    }
    Ok(all)
}

/// The file of a list, if a name is one.
pub fn file(name: &Path) -> Option<&Path> {
    let list = name.as_os_str().as_bytes().strip_prefix(b"@")?;
    Some(Path::new(OsStr::from_bytes(list)))
}

fn read(list: &Path) -> Result<Vec<PathBuf>> {
    let input: Box<dyn Read> = match list.as_os_str().as_bytes() {
        b"-" => Box::new(io::stdin()),
        _ => Box::new(File::open(list).map_err(Error::io("open", list))?),
    };
    let mut text = Vec::new();
    input.take(MOST + 1).read_to_end(&mut text).map_err(Error::io("read", list))?;
    if text.len() as u64 > MOST {
        return Err(Error::Usage {
            reason: format!("the list {} is longer than 16 MiB", list.display()),
            hint: "give a list of names, one a line".into(),
        });
    }
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let names = lines.filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"));
    Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
}
