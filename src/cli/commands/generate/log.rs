//! Generated block logs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::blocks::chain::Family;
use crate::generate::log::files::{IndexKind, IndexWriter};
use crate::generate::log::{self, LogSpec, LogSummary};
use crate::progress::Progress;

use super::args::Args;
use super::destination::{Stoppable, stream, write_file};

/// The log, and its index with `--index`. The log appears last.
pub fn generate(args: &Args, family: Family, progress: &Progress<'_>) -> anyhow::Result<LogSummary> {
    let spec = spec(args, family)?;
    let write = |out: &mut (dyn Write + Send), index: Option<&mut Index<'_, '_>>| {
        let mut out = out;
        let written = match index {
            None => log::write_with(&spec, &mut out, |_| Ok(()), progress),
            Some(index) => log::write_with(&spec, &mut out, |entry| index.push(entry), progress),
        };
        written.map_err(Error::io("write", &args.file))
    };
    match (stream(args)?, args.log.index) {
        (Some(_), true) => {
            Err(Error::usage("an index needs a log that is a file", "name a file, or leave out --index").into())
        }
        (Some(mut out), false) => Ok(write(&mut out, None)?),
        (None, false) => Ok(write_file(&args.file, args, |file| write(file, None))?),
        (None, true) => {
            let path = index_of(&args.file, spec.index_kind(), family);
            Ok(write_file(&args.file, args, |file| {
                write_file(&path, args, |index| {
                    let io = |error| Error::io("write", &path)(error);
                    let mut index = IndexWriter::new(spec.index_kind(), BufWriter::new(index)).map_err(io)?;
                    let summary = write(file, Some(&mut index))?;
                    index.finish().map_err(io)?;
                    Ok(summary)
                })
            })?)
        }
    }
}

type Index<'a, 'f> = IndexWriter<BufWriter<&'a mut Stoppable<&'f mut File>>>;

fn spec(args: &Args, family: Family) -> crate::Result<LogSpec> {
    if args.duplicates > 0 || args.format.is_some() {
        let option = if args.duplicates > 0 { "--duplicates" } else { "--format" };
        let reason = format!("{option} is for CARs");
        return Err(Error::usage(reason, format!("leave out {option}, or choose --profile mainnet or small")));
    }
    check_name(&args.file)?;
    let mut spec = LogSpec::new(family, args.size).seed(args.seed);
    if let Some(version) = args.log.log_version {
        spec = spec.version(version)?;
    }
    if let Some(number) = args.log.first_block {
        spec = spec.first_block(number)?;
    }
    if let Some(dir) = &args.log.dictionaries {
        // Empty ones are an error where the family has none.
        spec = spec.dictionaries(log::Dictionaries::new())?;
        spec = spec.dictionaries(log::read_dictionaries(dir)?)?;
    }
    Ok(spec)
}

/// Refuses a suffix of another format. The parts of a split hive log have numbers as suffixes.
fn check_name(file: &Path) -> crate::Result<()> {
    match file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()) {
        Some(ending) if ending != "log" && !ending.bytes().all(|byte| byte.is_ascii_digit()) => Err(Error::Usage {
            reason: format!("{} ends in .{ending}, which is not a format of a generated block log", file.display()),
            hint: "let the name end in .log, or in no suffix".into(),
        }),
        _ => Ok(()),
    }
}

fn index_of(file: &Path, kind: IndexKind, family: Family) -> PathBuf {
    let mut name = if family == Family::Antelope { file.with_extension("") } else { file.to_owned() }.into_os_string();
    name.push(if kind == IndexKind::Words { ".index" } else { ".artifacts" });
    name.into()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn made(line: &str) -> anyhow::Result<LogSummary> {
        let args = Cli::try_parse_from(line.split(' '))?.args;
        let progress = Progress::new(&crate::progress::Silent);
        match args.profile {
            super::super::args::ProfileArg::Log(family) => generate(&args, family, &progress),
            super::super::args::ProfileArg::Car(profile) => {
                super::super::car::generate(&args, profile, &progress).map(|_| unreachable!("a CAR"))
            }
        }
    }

    fn refused(line: &str) -> (String, String) {
        let error = made(line).expect_err(line).downcast::<Error>().expect("an error of the library");
        assert_eq!(
            error.exit(),
            if matches!(error, Error::State { .. }) { crate::Exit::State } else { crate::Exit::Usage }
        );
        (error.to_string(), error.hint())
    }

    #[test]
    fn index_is_written_beside_log() {
        let folder = tempfile::tempdir().expect("a folder");
        for (family, file, index, entry, head) in [
            ("steem", "block_log", "block_log.index", 8, 0),
            ("hive", "log", "log.artifacts", 24, 56),
            ("antelope", "blocks.log", "blocks.index", 8, 0),
        ] {
            let path = folder.path().join(file);
            let line = format!("x {} --profile {family} --size 200K --index", path.display());
            let summary = made(&line).expect("generate");
            assert_eq!(std::fs::metadata(&path).expect("the log").len(), summary.bytes);
            let index = std::fs::read(folder.path().join(index)).expect("the index");
            assert_eq!(index.len() as u64, head + entry * summary.blocks, "{family}");
            if head > 0 {
                assert_eq!(index[..4], summary.last.to_le_bytes(), "the head comes first");
                assert_eq!(index[45..52], [1, 1, 0, 1, 0, 0, 0]);
            }

            std::fs::remove_file(&path).expect("remove the log");
            let (error, hint) = refused(&line);
            assert!(error.ends_with(": the output already exists"), "{error}");
            assert_eq!(hint, "choose another name, or replace it with --force");
            made(&format!("{line} --force")).expect("generate once more");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 6, "nothing else is left behind");
    }

    #[test]
    fn options_of_the_other_kind_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        for (line, reason) in [
            ("--profile steem --duplicates 3", "--duplicates is for CARs"),
            ("--profile hive --format car", "--format is for CARs"),
            ("--first-block 7", "--first-block is for block logs"),
            ("--index", "--index is for block logs"),
            ("--profile steem --first-block 7", "the block log of steem starts with block 1"),
            ("--profile hive --log-version 2", "the block log of hive has no version"),
            ("--profile antelope --log-version 1 --first-block 7", "a block log of version 1 starts with block 1"),
            ("--profile antelope --dictionaries /", "blocks of antelope are not compressed"),
            ("--profile hive --dictionaries /", "there is no dictionary in /"),
        ] {
            let (error, hint) = refused(&format!("x {} --size 20K {line}", file.display()));
            assert_eq!(error, reason);
            assert!(!hint.is_empty());
            assert!(!file.exists());
        }
        for name in ["b.car.zst", "b.txt"] {
            let file = folder.path().join(name);
            let (error, _) = refused(&format!("x {} --size 20K --profile steem", file.display()));
            assert!(error.ends_with(", which is not a format of a generated block log"), "{error}");
            assert!(!file.exists());
        }
    }
}
