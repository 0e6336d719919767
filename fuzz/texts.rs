//! Presets, OPTIONS files, sizes and names, each read in two ways that must agree.

use std::fmt::{Debug, Display};
use std::path::Path;
use std::str::FromStr;

use bedload::testing::blocks::chain::Id;
use bedload::testing::hash::content_digest::ContentDigest;
use bedload::testing::hint;
use bedload::testing::preset::machine::whole;
use bedload::testing::preset::parse::{Role, assignment, document};
use bedload::testing::preset::{Assignment, Origin, Preset};
use bedload::testing::rocks::options_file::{Line, OptionsFile};
use bedload::testing::source::car::RawCid;
use bedload::testing::text::size;
use bedload::{Error, Result};

/// Reads `text` as a preset and as a user's configuration. Panics unless every setting is in a line of the text and means
/// the same on the command line, and every error names a line of the text.
pub fn preset(text: &str) {
    let lines = text.lines().count().max(1) + usize::from(text.ends_with('\n'));
    for role in [Role::Preset, Role::UserConfig] {
        let read = document(text, Path::new("fuzz.toml"), role);
        assert_eq!(read.as_ref().map(|found| &found.assignments).ok(), settings(text, role).as_ref().ok());
        match read {
            Ok(found) => {
                let at: Vec<usize> = found.assignments.iter().map(line_of).collect();
                assert!(at.is_sorted() && at.iter().all(|line| (1..=lines).contains(line)), "{at:?} of {lines}");
                found.assignments.iter().for_each(means_the_same_on_the_command_line);
            }
            Err(error) => check_error(&error, lines),
        }
    }
}

fn line_of(assignment: &Assignment) -> usize {
    match assignment.origin {
        Origin::Preset(_, line) | Origin::UserConfig(_, line) => line,
        _ => panic!("{} is in no file", assignment.key),
    }
}

fn settings(text: &str, role: Role) -> Result<Vec<Assignment>> {
    document(text, Path::new("fuzz.toml"), role).map(|found| found.assignments)
}

fn means_the_same_on_the_command_line(given: &Assignment) {
    let Assignment { key, value, .. } = given;
    // TOML can quote names that an argument cannot have.
    if key.name.contains('=') || key.name.trim() != key.name {
        return;
    }
    let argument = format!("{key}={value}");
    let origin = Origin::Override(argument.clone());
    let read = assignment(&argument, origin.clone()).expect("an option that a file could name");
    let expected = Assignment { key: key.clone(), value: value.trim().to_owned(), reason: None, origin };
    assert_eq!(read, expected);
}

fn check_error(error: &Error, lines: usize) {
    assert!(matches!(error, Error::Preset(_)) && !hint(error).is_empty());
    let text = error.to_string();
    let line = text.strip_prefix("fuzz.toml:").and_then(|rest| rest.split_once(": ")?.0.parse().ok());
    assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "{text} is at no line of {lines}");
}

/// Reads `text` as an OPTIONS file. Panics unless every entry matches its line, and a file with these entries has the same
/// entries.
pub fn options_file(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let file = match OptionsFile::parse(text) {
        Ok(file) => file,
        Err((line, why)) => {
            assert!((1..=lines.len().max(1)).contains(&line) && !why.is_empty(), "line {line}: {why}");
            return;
        }
    };
    assert!(!file.families.is_empty());
    let families = || file.families.iter();
    let all = file.db.iter().chain(families().flat_map(|family| family.cf.iter().chain(&family.table)));
    for Line { name, value, line } in all {
        let (left, right) = lines.get(line - 1).and_then(|line| line.split_once('=')).expect("its line");
        assert_eq!((left.trim(), right.trim()), (name.as_str(), value.as_str()));
    }
    for family in families() {
        assert!(file.family(&family.name).is_some());
        let _ = file.options(family).to_parser_string();
    }
    let again = OptionsFile::parse(&written(&file)).expect("a file of what was read");
    assert_eq!(unnumbered(again), unnumbered(file));
}

fn written(file: &OptionsFile) -> String {
    let entries = |lines: &[Line]| -> String {
        lines.iter().map(|Line { name, value, .. }| format!("  {name}={value}\n")).collect()
    };
    let version = file.rocksdb_version.clone().unwrap_or_default();
    let mut text = format!("[Version]\n  rocksdb_version={version}\n[DBOptions]\n{}", entries(&file.db));
    for family in &file.families {
        text += &format!("[CFOptions \"{}\"]\n{}", family.name, entries(&family.cf));
        if let Some(format) = &family.table_format {
            text += &format!("[TableOptions/{format} \"{}\"]\n{}", family.name, entries(&family.table));
        }
    }
    text
}

/// The file without the numbers of its lines.
fn unnumbered(mut file: OptionsFile) -> OptionsFile {
    let families = file.families.iter_mut().flat_map(|family| family.cf.iter_mut().chain(&mut family.table));
    file.db.iter_mut().chain(families).for_each(|line| line.line = 0);
    file
}

/// Reads `text` as a size, a number with a sign, a block's id, a CID, a digest and an assignment. Panics unless values
/// survive writing and reading, and every error has a message.
pub fn words(text: &str) {
    match size::parse(text) {
        Ok(bytes) => {
            assert_eq!(size::parse(&bytes.to_string()), Ok(bytes));
            assert_eq!(size::parse(&format!(" {} ", text.to_ascii_lowercase())), Ok(bytes));
            assert_eq!(whole(&format!("-{text}")), Ok(-i128::from(bytes)));
            assert!(is_near(text, bytes), "{text:?} is not {bytes}");
            let shown = size::parse(&size::human(bytes));
            let rounded = shown.unwrap_or(u64::MAX);
            assert!(rounded.abs_diff(bytes) <= bytes / 16, "{bytes} is shown as {}", size::human(bytes));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Err(why) = whole(text) {
        assert!(!why.is_empty());
    }
    same_again(text.parse::<Id>());
    same_again(text.parse::<RawCid>());
    same_again(text.parse::<ContentDigest>());
    let argument = Origin::Override(text.to_owned());
    match assignment(text, argument) {
        Ok(Assignment { key, value, .. }) => {
            let name_at = text.find(&key.name).expect("its name");
            assert!(text.get(name_at..).is_some_and(|rest| rest.contains(&value)));
        }
        Err(error) => assert!(!hint(&error).is_empty() && !error.to_string().is_empty()),
    }
}

/// True if a size is close to a second calculation.
fn is_near(text: &str, bytes: u64) -> bool {
    let digits: String = text.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let unit = text.trim().get(digits.len()..).and_then(|rest| rest.trim_start().chars().next());
    let power = unit.and_then(|unit| "KMGT".find(unit.to_ascii_uppercase())).map_or(0, |at| at as i32 + 1);
    let expected = digits.parse::<f64>().expect("a number") * 1024f64.powi(power);
    (expected - bytes as f64).abs() <= 1.0 + expected * 1e-9
}

fn same_again<T: FromStr + Display + PartialEq + Debug>(read: std::result::Result<T, impl Display>) {
    match read {
        Ok(value) => assert_eq!(value.to_string().parse().ok(), Some(value)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Valid texts: the built-in presets, OPTIONS files with their options, and words.
pub fn seeds() -> Texts {
    let builtin = Preset::builtin_names().filter_map(|name| Preset::builtin(name).ok());
    let presets: Vec<String> = builtin.map(|preset| preset.text.into_owned()).collect();
    let mut options_files = vec![
        "[Version]\n  rocksdb_version=9.1.1\n  options_file_version=1.1\n[DBOptions]\n  max_open_files=-1\n\
         [CFOptions \"default\"]\n  compression=kLZ4Compression\n  compression_opts={level=32767;enabled=false;}\n\
         [TableOptions/BlockBasedTable \"default\"]\n  block_size=4096\n[CFOptions \"ids\"]\n  num_levels=7\n"
            .to_owned(),
    ];
    for text in &presets {
        let assignment = settings(text, Role::Preset).unwrap_or_default();
        let of = |stage: &str| -> String {
            let lines = assignment.iter().filter(|assignment| assignment.key.stage.to_string() == stage);
            lines.map(|assignment| format!("  {}={}\n", assignment.key.name, assignment.value)).collect()
        };
        let (load, node) = (of("load"), of("node"));
        options_files
            .push(format!("[Version]\n  rocksdb_version=11.12.0\n[DBOptions]\n{load}[CFOptions \"default\"]\n{node}"));
    }
    let words = [
        "64M",
        "1.5GiB",
        "18446744073709551615",
        "64MB",
        "-1",
        "0.000000000001T",
        "load.cf.write_buffer_size=64M",
        "node.table.filter_policy=bloomfilter:10:false",
        "0000000109833ce528d5bbfb3f6225b39ee10086",
        "bafy2bzacecnamqgqmifpluoeldx7zzglxcljo6oja4vrmtj7432rphldpdmm2",
        "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG",
        "0123456789abcdef0123456789abcdef",
    ];
    Texts { presets, options_files, words: words.map(str::to_owned).to_vec() }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    pub presets: Vec<String>,
    pub options_files: Vec<String>,
    pub words: Vec<String>,
}
