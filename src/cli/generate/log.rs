//! `bedload generate` for block logs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use bedload::chain::Family;
use bedload::error::Error;
use bedload::generate::log::files::{IndexKind, IndexWriter};
use bedload::generate::log::{self, LogSpec, LogSummary};
use bedload::size::human;

use super::{Args, Place, place, tell, write_file};
use crate::cli::Globals;

/// What only block logs have.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Block logs")]
pub struct LogArgs {
    /// Version of an antelope log, 1 to 4 [default: 3]
    ///
    /// In version 3 blocks from 10,001 on are Savanna blocks. In version 4 some transactions are pruned.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4))]
    pub log_version: Option<u32>,

    /// Number of the first block: a partial antelope log, or a later part of a split hive log [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub first_block: Option<u32>,

    /// Directory with dictionaries (000M.dict.zst ..) for half of the compressed blocks of a hive log
    #[arg(long, value_name = "DIR")]
    pub dictionaries: Option<PathBuf>,

    /// Write the index beside the log too
    ///
    /// FILE.index for steem, FILE.artifacts for hive; for antelope the name of the file with the ending .index.
    #[arg(long)]
    pub index: bool,
}

impl LogArgs {
    /// Refuses them where no log is made.
    pub(super) fn refuse(&self) -> bedload::Result<()> {
        let given = [
            (self.log_version.is_some(), "--log-version"),
            (self.first_block.is_some(), "--first-block"),
            (self.dictionaries.is_some(), "--dictionaries"),
            (self.index, "--index"),
        ];
        match given.into_iter().find(|(given, _)| *given) {
            None => Ok(()),
            Some((_, option)) => Err(Error::Usage {
                reason: format!("{option} is for block logs"),
                hint: format!("leave out {option}, or choose --profile steem, hive or antelope"),
            }),
        }
    }
}

pub(super) fn run(args: &Args, family: Family, globals: &Globals) -> anyhow::Result<()> {
    let started = Instant::now();
    let summary = generate(args, family)?;
    if args.file == Path::new("-") || globals.quiet {
        return Ok(());
    }
    let rate = summary.raw_bytes as f64 / started.elapsed().as_secs_f64().max(0.001);
    tell(args, globals, &summary, || {
        format!(
            "blocks {} to {}, {} transactions, {} ({}/s), head {}",
            summary.first,
            summary.last,
            summary.transactions,
            human(summary.bytes),
            human(rate as u64),
            summary.head
        )
    })
}

/// The log, and the index if it is asked for. The log appears last.
fn generate(args: &Args, family: Family) -> anyhow::Result<LogSummary> {
    let spec = spec(args, family)?;
    let write = |out: &mut (dyn Write + Send), index: Option<&mut Index<'_>>| {
        let mut out = out;
        let written = match index {
            None => log::write(&spec, &mut out, |_| Ok(())),
            Some(index) => log::write(&spec, &mut out, |entry| index.push(entry)),
        };
        written.map_err(Error::io("write", &args.file))
    };
    match (place(args)?, args.log.index) {
        (Place::Stream(_), true) => Err(Error::Usage {
            reason: "an index needs a log that is a file".into(),
            hint: "name a file, or leave out --index".into(),
        }
        .into()),
        (Place::Stream(mut out), false) => Ok(write(&mut out, None)?),
        (Place::File, false) => Ok(write_file(&args.file, args.force, |file| write(file, None))?),
        (Place::File, true) => {
            let path = index_of(&args.file, spec.index_kind(), family);
            Ok(write_file(&args.file, args.force, |file| {
                write_file(&path, args.force, |index| {
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

/// An index that is being written.
type Index<'a> = IndexWriter<BufWriter<&'a mut File>>;

fn spec(args: &Args, family: Family) -> bedload::Result<LogSpec> {
    if args.duplicates > 0 || args.format.is_some() {
        let option = if args.duplicates > 0 { "--duplicates" } else { "--format" };
        return Err(Error::Usage {
            reason: format!("{option} is for CARs"),
            hint: format!("leave out {option}, or choose --profile mainnet or calibnet"),
        });
    }
    let mut spec = LogSpec::new(family, args.size).seed(args.seed);
    if let Some(version) = args.log.log_version {
        spec = spec.version(version)?;
    }
    if let Some(number) = args.log.first_block {
        spec = spec.first_block(number)?;
    }
    if let Some(dir) = &args.log.dictionaries {
        // Empty ones tell whether the family has any.
        spec = spec.dictionaries(log::Dictionaries::new())?;
        spec = spec.dictionaries(log::read_dictionaries(dir)?)?;
    }
    Ok(spec)
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
        match args.profile {
            super::super::Kind::Log(family) => generate(&args, family),
            super::super::Kind::Car(profile) => super::super::generate(&args, profile).map(|_| unreachable!("a CAR")),
        }
    }

    fn refused(line: &str) -> (String, String) {
        let error = made(line).expect_err(line).downcast::<Error>().expect("an error of the library");
        assert_eq!(
            error.exit(),
            if matches!(error, Error::State { .. }) { bedload::Exit::State } else { bedload::Exit::Usage }
        );
        (error.to_string(), error.hint())
    }

    #[test]
    fn an_index_is_written_beside_the_log_where_nodes_look_for_it() {
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
                assert_eq!(index[..4], summary.last.to_le_bytes(), "the head stands first");
                assert_eq!(index[45..52], [1, 1, 0, 1, 0, 0, 0]);
            }

            std::fs::remove_file(&path).expect("remove the log");
            let (error, hint) = refused(&line);
            assert!(error.ends_with(": it exists"), "{error}");
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
    }
}
