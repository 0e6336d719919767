//! `bedload generate`: makes up a snapshot for benchmarks and tests.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use bedload::chain::Family;
use bedload::error::Error;
use bedload::generate::{self, DUPLICATES_MAX, Format, Profile, Spec, Summary};
use bedload::os::files::Output;
use bedload::report::shown_in_line;
use bedload::size::human;

use super::Globals;

mod log;

/// Make up a snapshot of any size
///
/// The blocks have a real network's sizes, right hashes and links that lead from the roots to every block. The same
/// profile, size, seed and options give the same bytes on any machine (for compressed formats: with the same version
/// of bedload).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload generate test.forest.car.zst --size 4GiB --duplicates 3")]
pub struct Args {
    /// File to write, or `-` for standard output
    ///
    /// A pipe takes twice the work: the roots stand first but are known last.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// What is imitated: a CAR of a Filecoin network, or the block log of another chain
    ///
    /// mainnet: CAR, mean block 1,015 B, most between 1 and 2 KiB. calibnet: CAR, mean about 835 B, a quarter up to 256 B.
    /// steem, hive, antelope: block log, mean block about 5.5 KiB; hive's are compressed one by one, antelope's is of
    /// version 3.
    #[arg(long, value_name = "NAME", default_value = Profile::Mainnet.name(), value_parser = kind_parser())]
    pub profile: Kind,

    /// Size of the CAR or log before any compression, as 500MiB or 4GiB; K, M, G and T are powers of 1024 too
    #[arg(long, value_name = "SIZE", value_parser = super::values::bytes)]
    pub size: u64,

    /// Another number gives other blocks
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// How many percent of the sections repeat an earlier one, up to 90
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=i64::from(DUPLICATES_MAX)))]
    pub duplicates: u8,

    /// How the CAR is wrapped; by default what the file's name ends in, and a plain CAR otherwise
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    pub format: Option<Format>,

    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub log: log::LogArgs,
}

/// What `--profile` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A CAR.
    Car(Profile),
    /// A block log.
    Log(Family),
}

/// What is printed as JSON.
#[derive(serde::Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    summary: &'a T,
}

impl<'a, T> Document<'a, T> {
    fn new(summary: &'a T) -> Self {
        Self { schema: "bedload-generate-1", summary }
    }
}

/// Generates the snapshot and tells what is in it.
///
/// # Errors
/// A [`bedload::Error`]: the file exists, or the system refused to write it.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let started = Instant::now();
    let summary = match args.profile {
        Kind::Log(family) => return log::run(args, family, globals),
        Kind::Car(profile) => generate(args, profile)?,
    };
    if args.file == Path::new("-") || globals.quiet {
        return Ok(());
    }
    let rate = summary.car_bytes as f64 / started.elapsed().as_secs_f64().max(0.001);
    tell(args, globals, &summary, || {
        format!("{} blocks, {} ({}/s)", summary.blocks, human(summary.bytes), human(rate as u64))
    })
}

/// Tells what is in the file that is done.
fn tell(
    args: &Args,
    globals: &Globals,
    summary: &impl serde::Serialize,
    words: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let file = args.file.display().to_string();
    let file = shown_in_line(&file);
    super::after(format!("{file} is complete"), "use the file as it is; `bedload inspect` tells what is in it", || {
        if globals.json {
            return super::print_json(&Document::new(summary));
        }
        writeln!(io::stdout(), "{file}: {}", words())?;
        Ok(())
    })
}

fn generate(args: &Args, profile: Profile) -> anyhow::Result<Summary> {
    args.log.refuse()?;
    let format = args.format.unwrap_or_else(|| format_of_name(&args.file));
    let spec = Spec::new(profile, args.size).seed(args.seed).format(format).duplicates(args.duplicates)?;
    Ok(match place(args)? {
        Place::Stream(mut out) => generate::write_stream(&spec, &mut out).map_err(Error::io("write", &args.file))?,
        Place::File => write_file(&args.file, args.force, |file| {
            generate::write(&spec, file).map_err(Error::io("write", &args.file))
        })?,
    })
}

/// Where the snapshot goes.
enum Place {
    /// Something that cannot seek, already open.
    Stream(Box<dyn Write + Send>),
    /// A file that is new, or may be replaced.
    File,
}

fn place(args: &Args) -> anyhow::Result<Place> {
    if args.file == Path::new("-") {
        let out = io::stdout();
        if out.is_terminal() {
            return Err(super::no_terminal());
        }
        return Ok(Place::Stream(Box::new(out)));
    }
    match std::fs::metadata(&args.file) {
        // A device or a named pipe: nothing to replace.
        Ok(there) if !there.is_file() && !there.is_dir() => {
            let out = File::options().write(true).open(&args.file).map_err(Error::io("open", &args.file))?;
            Ok(Place::Stream(Box::new(out)))
        }
        _ => Ok(Place::File),
    }
}

/// A file appears under its name only when it is complete.
fn write_file<T>(path: &Path, force: bool, write: impl FnOnce(&mut File) -> bedload::Result<T>) -> bedload::Result<T> {
    let mut output = Output::create(path, force)?;
    let written = write(output.file())?;
    output.publish()?;
    Ok(written)
}

fn kind_parser() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(kinds().map(|(name, _)| name)).map(|name| {
        kinds().into_iter().find(|(known, _)| *known == name).map_or(Kind::Car(Profile::Mainnet), |it| it.1)
    })
}

fn kinds() -> [(&'static str, Kind); 5] {
    let [mainnet, calibnet] = Profile::ALL.map(|profile| (profile.name(), Kind::Car(profile)));
    let [steem, hive, antelope] =
        [Family::Steem, Family::Hive, Family::Antelope].map(|family| (family.name(), Kind::Log(family)));
    [mainnet, calibnet, steem, hive, antelope]
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::ALL.into_iter().find(|format| format.name() == name).unwrap_or_default())
}

fn format_of_name(path: &Path) -> Format {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let compressed = [Format::ForestCarZst, Format::CarZst];
    compressed.into_iter().find(|format| name.ends_with(&format!(".{}", format.name()))).unwrap_or_default()
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

    fn parse(line: &str) -> Result<Args, String> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.args).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_read_as_everywhere() {
        assert_eq!(parse("x - --size 1.5GiB").expect("a size").size, 3 << 29);
        for (size, message) in [
            ("64MB", "64MB may mean powers of 1000 or of 1024: write 64M or 64MiB for powers of 1024"),
            ("GiB", "`GiB` is not a size: write a number and a unit, as in 64M, 1.5GiB or 4096"),
            ("20000000TiB", "`20000000TiB` is too large"),
        ] {
            let error = parse(&format!("x - --size {size}")).expect_err(size);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn the_names_name_the_format_unless_the_option_does() {
        for (name, format) in [
            ("a.car", Format::Car),
            ("a.forest.car.zst", Format::ForestCarZst),
            ("dir/A.CAR.ZST", Format::CarZst),
            ("-", Format::Car),
        ] {
            assert_eq!(format_of_name(Path::new(name)), format, "{name}");
        }
        for format in Format::ALL {
            let args = parse(&format!("x - --size 1K --format {}", format.name())).expect("a known format");
            assert_eq!(args.format, Some(format));
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (line, message) in [
            ("x - --size 1K --duplicates 91", "91 is not in 0..=90"),
            ("x - --size 1K --profile testnet", "[possible values: mainnet, calibnet, steem, hive, antelope]"),
            ("x -", "--size <SIZE>"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_file_is_written_once_and_replaced_only_by_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.car");
        let line =
            |rest: &str| parse(&format!("x {} --profile calibnet --size 30K{rest}", path.display())).expect(rest);
        let generate = |args: Args| super::generate(&args, Profile::Calibnet);
        let summary = generate(line("")).expect("generate");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), summary.bytes);
        let first = std::fs::read(&path).expect("the file");

        let error =
            generate(line(" --seed 2")).expect_err("it exists").downcast::<Error>().expect("an error of the library");
        assert_eq!(error.to_string(), format!("{}: it exists", path.display()));
        assert_eq!(error.hint(), "choose another name, or replace it with --force");
        assert!(std::fs::read(&path).expect("the file") == first);

        generate(line(" --seed 2 --force")).expect("generate");
        assert!(std::fs::read(&path).expect("the file") != first);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing else is left behind");
    }
}
