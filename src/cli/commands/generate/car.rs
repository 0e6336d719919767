//! Generated CARs.

use std::path::Path;

use crate::Error;
use crate::generate::{self, Format, Profile, Spec, Summary};
use crate::progress::Progress;

use super::args::Args;
use super::destination::{stream, write_file};

pub fn generate(args: &Args, profile: Profile, progress: &Progress<'_>) -> anyhow::Result<Summary> {
    args.log.refuse()?;
    let format = args.format.map_or_else(|| format_of_name(&args.file), Ok)?;
    let spec = Spec::new(profile, args.size).seed(args.seed).format(format).duplicates(args.duplicates)?;
    Ok(match stream(args)? {
        Some(mut out) => {
            generate::write_stream_with(&spec, &mut out, progress).map_err(Error::io("write", &args.file))?
        }
        None => write_file(&args.file, args, |file| {
            generate::write_with(&spec, file, progress).map_err(Error::io("write", &args.file))
        })?,
    })
}

fn format_of_name(path: &Path) -> crate::Result<Format> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let compressed = [Format::ForestCarZst, Format::CarZst];
    if let Some(format) = compressed.into_iter().find(|format| name.ends_with(&format!(".{}", format.name()))) {
        return Ok(format);
    }
    match Path::new(&name).extension().and_then(|ending| ending.to_str()) {
        None | Some("car") => Ok(Format::default()),
        Some(ending) => Err(Error::Usage {
            reason: format!("{} ends in .{ending}, which is not a format of a generated CAR", path.display()),
            hint: "let the name end in .car, .car.zst or .forest.car.zst, or name the format with --format".into(),
        }),
    }
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
    fn file_name_chooses_format_without_option() {
        for (name, format) in [
            ("a.car", Format::Car),
            ("a.forest.car.zst", Format::ForestCarZst),
            ("dir/A.CAR.ZST", Format::CarZst),
            ("-", Format::Car),
            ("a", Format::Car),
            (".hidden", Format::Car),
        ] {
            assert_eq!(format_of_name(Path::new(name)).expect(name), format, "{name}");
        }
        for name in ["a.car.gz", "a.TAR", "a.zst", "zz.foo", "a.txt"] {
            let error = format_of_name(Path::new(name)).expect_err(name);
            assert_eq!((error.exit(), error.hint().contains(".forest.car.zst")), (crate::Exit::Usage, true), "{name}");
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
            ("x - --size 1K --profile testnet", "[possible values: mainnet, small, steem, hive, antelope]"),
            ("x -", "--size <SIZE>"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn force_is_required_to_replace_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.car");
        let line = |rest: &str| parse(&format!("x {} --profile small --size 30K{rest}", path.display())).expect(rest);
        let generate = |args: Args| super::generate(&args, Profile::Small, &Progress::new(&crate::progress::Silent));
        let summary = generate(line("")).expect("generate");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), summary.bytes);
        let first = std::fs::read(&path).expect("the file");

        let error =
            generate(line(" --seed 2")).expect_err("it exists").downcast::<Error>().expect("an error of the library");
        assert_eq!(error.to_string(), format!("{}: the output already exists", path.display()));
        assert_eq!(error.hint(), "choose another name, or replace it with --force");
        assert!(std::fs::read(&path).expect("the file") == first);

        generate(line(" --seed 2 --force")).expect("generate");
        assert!(std::fs::read(&path).expect("the file") != first);
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing else is left behind");
    }
}
