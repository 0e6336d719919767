//! The next step after errors of files and streams.

use std::path::Path;

use crate::text::escape::shell_word;

/// True for errors of the output stream.
pub(super) fn is_output(action: &str, path: &Path) -> bool {
    action == "write" && path == Path::new(STREAM)
}

/// The name of an input or output stream: of standard input and output, or of the caller's reader and writer.
pub(super) const STREAM: &str = "-";

/// A part of hints that is not for pipes.
const OF_FILES: &str = "check the download, or the program that wrote it";

/// The path, or its nearest existing ancestor.
fn existing(path: &Path) -> &Path {
    let mut above = path.ancestors().filter(|above| !above.as_os_str().is_empty());
    above.find(|above| above.symlink_metadata().is_ok()).unwrap_or(Path::new("."))
}

/// `hint` with the names of a file and its directory.
pub(super) fn input_hint(path: &Path, hint: &str) -> String {
    let is_stream = path == Path::new(STREAM);
    let file = if is_stream { "FILE".into() } else { shell_word(path) };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = if is_stream { "DIR".into() } else { shell_word(dir) };
    // `head` cannot read a URL.
    let is_url = path.to_string_lossy().contains("://");
    let hint =
        if is_url { hint.replace("head -c 200 {file}", "curl -fsL {file} | head -c 200") } else { hint.to_owned() };
    let hint = if is_stream { hint.replace(OF_FILES, "check the command before the pipe") } else { hint };
    hint.replace("{file}", &file).replace("{dir}", &dir)
}

pub(super) fn io_hint(source: &std::io::Error, path: &Path, output: bool) -> String {
    use std::io::ErrorKind as Kind;
    match source.kind() {
        _ if output => "check the file or device of standard output (df -h), then run the same command again".into(),
        Kind::NotFound => match path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            Some(folder) => {
                let (folder, word) = (folder.display(), shell_word(folder));
                format!("there is no directory {folder}: check the path, or make it: mkdir -p {word}")
            }
            None => "check the path".into(),
        },
        Kind::NotADirectory => match path.ancestors().skip(1).find(|above| above.is_file()) {
            Some(file) => format!("{} is a file, not a directory: check the path", file.display()),
            None => "check the path: a part of it is not a directory".into(),
        },
        Kind::PermissionDenied => match existing(path) {
            there if there != path => {
                let (there, word) = (there.display(), shell_word(there));
                format!("this user may not write to {there} (ls -ld {word}): choose another place, or run the command as its owner")
            }
            _ => format!("check the permissions with ls -ld {}", shell_word(path)),
        },
        Kind::StorageFull | Kind::QuotaExceeded => {
            format!(
                "free some space (df -h {}) or choose another place (TMPDIR for temporary files), then run the same command again",
                shell_word(existing(path))
            )
        }
        Kind::ReadOnlyFilesystem => "the file system is mounted read-only; choose another place".into(),
        Kind::FileTooLarge => {
            "raise the limit of file sizes (ulimit -f), or use a file system that supports larger files; then run the same \
             command again to resume"
                .into()
        }
        Kind::InvalidData => format!("check the file: ls -lL {}", shell_word(path)),
        Kind::IsADirectory => "name a file, not a directory".into(),
        Kind::NetworkUnreachable => {
            "check the network and the server, then run the same command again: an import or a seed resumes where it stopped".into()
        }
        _ if [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
            .iter()
            .any(|errno| source.raw_os_error() == Some(errno.raw_os_error())) =>
        {
            "too many open files: raise the limit (ulimit -n) or lower --threads".into()
        }
        Kind::OutOfMemory | Kind::WouldBlock => {
            "the system has no more memory or threads: raise the limit (ulimit -v, ulimit -u) or lower --memory and --threads; \
             then run the same command again"
                .into()
        }
        _ => "run the same command again; if the error persists, check the disk (dmesg, smartctl)".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::PathBuf;

    use super::*;
    use crate::error::Error;
    use crate::source::car::CarProblem;

    #[test]
    fn hint_for_a_url_reads_the_url() {
        let problem = || CarProblem::Foreign { what: "a web page", hint: "check the file: head -c 200 {file}" };
        let hint = |name: &str| Error::bad_input(Path::new(name), 0, problem()).hint();
        assert_eq!(hint("https://host/x"), "check the file: curl -fsL https://host/x | head -c 200");
        assert_eq!(hint("x"), "check the file: head -c 200 x");
    }

    #[test]
    fn hint_names_the_blocking_folder() {
        let dir = tempfile::tempdir().expect("a directory");
        let here = dir.path().display();
        let hint = |kind: ErrorKind, path: PathBuf| Error::io("create", path)(kind.into()).hint();
        assert_eq!(
            hint(ErrorKind::PermissionDenied, dir.path().join("a.car")),
            format!(
                "this user may not write to {here} (ls -ld {here}): choose another place, or run the command as its owner"
            )
        );
        assert_eq!(
            hint(ErrorKind::PermissionDenied, dir.path().to_owned()),
            format!("check the permissions with ls -ld {here}")
        );
        assert_eq!(
            hint(ErrorKind::NotFound, dir.path().join("gone/a.car")),
            format!("there is no directory {here}/gone: check the path, or make it: mkdir -p {here}/gone")
        );
        assert_eq!(hint(ErrorKind::NotFound, dir.path().join("a.car")), "check the path");
        let quoted = dir.path().join("my db/x");
        assert!(hint(ErrorKind::NotFound, quoted).ends_with(&format!("mkdir -p '{here}/my db'")));
        let removed = hint(ErrorKind::StorageFull, dir.path().join("gone"));
        assert!(removed.starts_with(&format!("free some space (df -h {here}) or ")), "{removed}");
        let relative = hint(ErrorKind::PermissionDenied, PathBuf::from("gone.partial"));
        assert!(relative.starts_with("this user may not write to . (ls -ld .): "), "{relative}");
    }
}
