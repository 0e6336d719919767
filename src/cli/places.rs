//! The snapshots and the database of an import, from its command line.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::load::{has_snapshot_name, holds_snapshots, no_snapshot_in};
use crate::report::shell_word;
use crate::source::remote::{is_remote, is_url};

use crate::cli::command_line::command_line;
use crate::cli::source_list;

/// Separates the snapshots and lists of snapshots from the database. Without `--db` and `--bundle` the last of several names is the database,
/// unless it can only be a snapshot.
pub fn places<'a>(
    names: &'a [PathBuf],
    db: Option<&'a Path>,
    needs_db: bool,
) -> Result<(&'a [PathBuf], Option<&'a Path>)> {
    match names.split_last() {
        _ if db.is_some() || !needs_db => Ok((names, db)),
        Some((last, sources)) if !sources.is_empty() && !is_snapshot(last) => Ok((sources, Some(last))),
        Some((dir, [])) if dir.is_dir() && !holds_snapshots(dir) => Err(no_snapshot_in(dir)),
        _ => {
            let first = names.first().map_or(Path::new(""), PathBuf::as_path);
            Err(Error::usage("no database is given", corrected(std::env::args_os().skip(1), first)))
        }
    }
}

/// True if a name on the command line can only be a snapshot.
fn is_snapshot(name: &Path) -> bool {
    if name.as_os_str() == "-" || source_list::file(name).is_some() || is_url(name) || is_remote(name) {
        return true;
    }
    match name.metadata() {
        Ok(found) if found.is_dir() => holds_snapshots(name),
        Ok(_) => true,
        Err(_) => has_snapshot_name(name),
    }
}

/// The given arguments with a database beside them, named after the first snapshot.
fn corrected(args: impl Iterator<Item = impl AsRef<OsStr>>, first: &Path) -> String {
    let name = first.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.trim_start_matches(['@', '-', '.']).split(['.', '?', '#']).next().unwrap_or_default();
    let stem = if stem.is_empty() || first == Path::new("/dev/stdin") { "blocks" } else { stem };
    format!("{} --db {}", command_line(args), shell_word(format!("{stem}.db")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrected_command_is_quoted_and_complete() {
        for (args, first, expected) in [
            (&["import", "a.car"][..], "a.car", "bedload import a.car --db a.db"),
            (
                &["import", "/x/my file.forest.car.zst", "--verify=none"],
                "/x/my file.forest.car.zst",
                "bedload import '/x/my file.forest.car.zst' --verify=none --db 'my file.db'",
            ),
            (&["import", "-"], "-", "bedload import - --db blocks.db"),
            (&["import", "it's.car"], "it's.car", r"bedload import 'it'\''s.car' --db 'it'\''s.db'"),
            (&["import", "@list.txt"], "@list.txt", "bedload import @list.txt --db list.db"),
            (
                &["import", "https://h/a.car?sig=secret"],
                "https://h/a.car?sig=secret",
                "bedload import 'https://h/a.car?…' --db a.db",
            ),
            (
                &["import", "a.car", "--checksum=sha256:https://u:p@h/a.sum"],
                "a.car",
                "bedload import a.car --checksum=sha256:https://h/a.sum --db a.db",
            ),
        ] {
            assert_eq!(corrected(args.iter(), Path::new(first)), expected);
        }
    }

    #[test]
    fn last_name_is_database_unless_snapshot() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        for made in ["cars", "empty"] {
            std::fs::create_dir(path(made)).expect("created");
        }
        for made in ["cars/a.car", "file"] {
            std::fs::write(path(made), b"").expect("written");
        }
        for (last, is_db) in [("cars", false), ("file", false), ("typo.car", false), ("empty", true), ("new", true)] {
            let names = [PathBuf::from("a.car"), path(last)];
            let found = places(&names, None, true);
            assert_eq!(found.is_ok_and(|(sources, db)| db == Some(&*names[1]) && sources.len() == 1), is_db, "{last}");
            assert_eq!(places(&names, None, false).expect("a bundle").0.len(), 2);
            assert_eq!(places(&names, Some(Path::new("d")), true).expect("a database").0.len(), 2);
        }
        for last in ["-", "@list", "https://host/new", "s3://bucket/new"] {
            assert!(places(&["a.car".into(), last.into()], None, true).is_err(), "{last}");
        }
        assert!(places(&["a.car".into()], None, true).is_err());
    }
}
