//! Commands in hints.

use std::ffi::OsStr;
use std::path::Path;

use crate::report::shell_word;
use crate::source::remote::shown_path;

/// A command of this program that a shell can run. Secrets of URLs are left out.
pub fn command_line(words: impl Iterator<Item = impl AsRef<OsStr>>) -> String {
    let word = |word: &OsStr| shell_word(shown_path(Path::new(word)));
    let words: Vec<String> = words.map(|it| word(it.as_ref())).collect();
    format!("bedload {}", words.join(" "))
}
