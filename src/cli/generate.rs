//! `bedload generate`: makes up a snapshot for benchmarks and tests.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use bedload::error::Error;
use bedload::generate::{self, DUPLICATES_MAX, Format, Profile, Spec, Summary};
use bedload::output::Output;
use bedload::size::human;

use super::Globals;

/// Make up a snapshot of any size
///
/// The blocks have a real network's sizes, right hashes and links that lead from the roots to every block. The same
/// profile, size, seed and options give the same bytes on any machine (for compressed formats: with the same version
/// of bedload).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write, or `-` for standard output
    ///
    /// A pipe takes twice the work: the roots stand first but are known last.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Network whose block sizes are imitated
    ///
    /// mainnet: mean 1,015 B, most blocks between 1 and 2 KiB. calibnet: mean about 835 B, a quarter up to 256 B.
    #[arg(long, value_name = "NAME", default_value = Profile::Mainnet.name(), value_parser = profile_parser())]
    pub profile: Profile,

    /// Size of the CAR before any compression, as 500MiB or 4GiB; K, M, G and T are powers of 1024 too
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
}

/// Generates the snapshot and tells what is in it.
///
/// # Errors
/// A [`bedload::Error`]: the file exists, or the system refused to write it.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let started = Instant::now();
    let summary = generate(args)?;
    if args.file == Path::new("-") || globals.quiet {
        return Ok(());
    }
    if globals.json {
        return super::print_json(&summary);
    }
    let rate = summary.car_bytes as f64 / started.elapsed().as_secs_f64().max(0.001);
    writeln!(
        io::stdout(),
        "{}: {} blocks, {} ({}/s)",
        args.file.display(),
        summary.blocks,
        human(summary.bytes),
        human(rate as u64)
    )?;
    Ok(())
}

/// A file appears under its name only when it is complete.
fn generate(args: &Args) -> anyhow::Result<Summary> {
    let format = args.format.unwrap_or_else(|| format_of_name(&args.file));
    let spec = Spec::new(args.profile, args.size).seed(args.seed).format(format).duplicates(args.duplicates)?;
    if args.file == Path::new("-") {
        let mut out = io::stdout();
        if out.is_terminal() {
            return Err(super::no_terminal());
        }
        return Ok(generate::write_stream(&spec, &mut out).map_err(Error::io("write", "-"))?);
    }
    let failed = || Error::io("write", &args.file);
    let mut output = Output::create(&args.file, args.force)?;
    let summary = match &mut output {
        Output::Stream(stream) => generate::write_stream(&spec, stream).map_err(failed())?,
        new @ Output::File(_) => generate::write(&spec, new.file()).map_err(failed())?,
    };
    output.publish()?;
    Ok(summary)
}

fn profile_parser() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(Profile::name))
        .map(|name| Profile::ALL.into_iter().find(|profile| profile.name() == name).unwrap_or(Profile::Mainnet))
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
            ("GiB", "\"GiB\" is not a size: write a number and a unit, as in 64M, 1.5GiB or 4096"),
            ("20000000TiB", "\"20000000TiB\" is too large"),
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
            ("x - --size 1K --profile testnet", "[possible values: mainnet, calibnet]"),
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
        let summary = generate(&line("")).expect("generate");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), summary.bytes);
        let first = std::fs::read(&path).expect("the file");

        let error =
            generate(&line(" --seed 2")).expect_err("it exists").downcast::<Error>().expect("an error of the library");
        assert_eq!(error.to_string(), format!("{}: it exists", path.display()));
        assert_eq!(error.hint(), "choose another name, or replace it with --force");
        assert!(std::fs::read(&path).expect("the file") == first);

        generate(&line(" --seed 2 --force")).expect("generate");
        assert!(std::fs::read(&path).expect("the file") != first);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing else is left behind");
    }
}
