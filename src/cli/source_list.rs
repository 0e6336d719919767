//! `@FILE` among the names of snapshots: one name per line.
//!
//! Relative names are relative to the working directory, as with `tar -T`. Blank lines and lines that begin with `#` are
//! ignored; a line that begins with `@` is a name. Blanks around a name belong to it, but not around a URL. A byte order mark
//! is ignored. `@-` is standard input.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::os::files::open_regular;
use crate::source::remote::{is_url, shown_path};

/// The longest list that is read, in bytes.
const MOST: u64 = 16 << 20;
/// The longest name of a file that the system takes, and the longest URL.
const MOST_OF_PATH: usize = 4095;
const MOST_OF_URL: usize = 8 << 10;

/// Names of snapshots, and the origin of names from lists.
pub struct SourceNames {
    /// All, in their order.
    pub all: Vec<PathBuf>,
    /// Names of lists as they are shown, each with its list and line.
    listed: Vec<(PathBuf, String)>,
}

impl SourceNames {
    /// Adds the list and line to an error about a name from a list.
    pub fn explain(&self, error: Error) -> anyhow::Error {
        let is_meant = |name: &Path| match &error {
            Error::BadInput { path, .. } => path.starts_with(name),
            Error::Io { path, .. } | Error::State { path, .. } => path == name,
            Error::Usage { reason, .. } => {
                let name = name.to_string_lossy();
                let is_end = |c: Option<char>| c.is_none_or(|c| c == ' ' || c == ',');
                reason.match_indices(&*name).any(|(at, _)| {
                    let (before, after) = (reason.get(..at), reason.get(at + name.len()..));
                    is_end(before.and_then(|it| it.chars().next_back()))
                        && is_end(after.and_then(|it| it.chars().next()))
                })
            }
            _ => false,
        };
        let places: Vec<&str> =
            self.listed.iter().filter(|(name, _)| is_meant(name)).map(|(_, place)| place.as_str()).take(2).collect();
        match places.is_empty() {
            true => error.into(),
            false => anyhow::Error::from(error).context(places.join(", ")),
        }
    }
}

pub fn expand(names: &[PathBuf]) -> Result<SourceNames> {
    let (mut all, mut listed) = (Vec::new(), Vec::new());
    let mut lists = 0;
    for name in names {
        let Some(list) = file(name) else {
            all.push(name.clone());
            continue;
        };
        lists += usize::from(list == Path::new("-"));
        let found = read(list)?;
        if found.is_empty() {
            let reason = format!("the list {} names nothing", shown_path(list).display());
            return Err(Error::usage(reason, "write one name a line"));
        }
        for (line, name) in found {
            listed.push((shown_path(&name), place(list, line)));
            all.push(name);
        }
    }
    let piped = all.iter().filter(|name| name.as_os_str() == "-").count();
    if lists > 1 || (lists > 0 && piped > 0) {
        let reason = "standard input is a list of names (@-) and something else as well";
        return Err(Error::usage(reason, "put the list into a file"));
    }
    Ok(SourceNames { all, listed })
}

/// Returns the file of a list, if `name` is a list.
pub fn file(name: &Path) -> Option<&Path> {
    let list = name.as_os_str().as_bytes().strip_prefix(b"@")?;
    Some(Path::new(OsStr::from_bytes(list)))
}

fn place(list: &Path, line: usize) -> String {
    let list = if list == Path::new("-") { "standard input".into() } else { list.display().to_string() };
    format!("{list}:{line}")
}

/// The names in a list, each with the number of its line.
fn read(list: &Path) -> Result<Vec<(usize, PathBuf)>> {
    let failed = |action: &'static str| Error::io(action, shown_path(list));
    let input: Box<dyn Read> = match list.as_os_str().as_bytes() {
        b"-" => Box::new(io::stdin()),
        // A shell passes `<(command)` as an open pipe. The open of any other named pipe could wait for ever.
        _ if list.starts_with("/dev/fd") => Box::new(File::open(list).map_err(failed("open"))?),
        _ => Box::new(open_regular(list).map_err(failed("open"))?),
    };
    let mut text = Vec::new();
    input.take(MOST + 1).read_to_end(&mut text).map_err(failed("read"))?;
    if text.len() as u64 > MOST {
        let hint = "give a list of names, one a line";
        return Err(Error::usage(format!("the list {} is longer than 16 MiB", list.display()), hint));
    }
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let names = (1..).zip(lines).filter(|(_, line)| !line.trim_ascii().is_empty() && !line.starts_with(b"#"));
    names.map(|(number, line)| Ok((number, name(line, || place(list, number))?))).collect()
}

fn name(line: &[u8], place: impl Fn() -> String) -> Result<PathBuf> {
    if line.contains(&0) {
        let hint = "write one name per line (find -print, not -print0); a snapshot is named without @";
        return Err(Error::usage(format!("{}: a name cannot contain NUL", place()), hint));
    }
    let name = |bytes| Path::new(OsStr::from_bytes(bytes));
    let (name, most) = match name(line.trim_ascii()) {
        url if is_url(url) => (url, MOST_OF_URL),
        _ => (name(line), MOST_OF_PATH),
    };
    if name.as_os_str().len() > most {
        let reason = format!("{}: the line is longer than any name, which has up to {most} bytes", place());
        return Err(Error::usage(reason, "write one name a line; a snapshot is named without @"));
    }
    Ok(name.to_owned())
}
