//! `bedload stat`: what a database looks like.

use std::path::PathBuf;

use bedload::read::stat::{StatOptions, stat};
use bedload::report::{FamilyStat, StatReport, shown_in_line};
use bedload::size::human;

use super::shared::advice;
use super::{Globals, bars, screen};

/// Show levels, sizes, options and the import's record of a database
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload stat --db /data/blocks --digest")]
pub struct Args {
    /// The database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Read all records: count them and compute the content digest
    #[arg(long)]
    pub digest: bool,
    /// Threads that read; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), requires = "digest")]
    pub threads: Option<u16>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = StatOptions::new(&args.db);
    options.digest = args.digest;
    options.resources.threads = args.threads.map(usize::from);
    super::stop::on_signals(&options.resources.stop, "run the same command again; it starts over")?;
    let report = if args.digest {
        let observer = bars::renderer(globals);
        let report = stat(&options, observer.as_ref());
        observer.finish();
        report?
    } else {
        stat(&options, &bedload::progress::Silent)?
    };
    if globals.json {
        return super::print_json(&report);
    }
    screen::print(&summary(&report), 10)?;
    Ok(())
}

/// The result for people.
fn summary(report: &StatReport) -> String {
    let mut text = screen::row("database", 9, &report.db);
    let version = report.rocksdb.as_deref().unwrap_or("unknown: there is no OPTIONS file");
    text.push_str(&screen::row("rocksdb", 9, version));
    let field = |name: &str| report.import.as_ref().and_then(|import| import.pointer(name));
    let import = match (field("/source/path"), field("/preset"), field("/digest"), field("/versions/bedload")) {
        (Some(source), preset, digest, version) => {
            let shown = |value: Option<&serde_json::Value>| {
                value.and_then(serde_json::Value::as_str).unwrap_or("unknown").to_owned()
            };
            format!(
                "{} by bedload {}, preset {}, digest {}",
                shown(Some(source)),
                shown(version),
                shown(preset),
                shown(digest)
            )
        }
        (None, ..) => "no record".to_owned(),
    };
    text.push_str(&screen::row("import", 9, &import));
    text.push_str(&screen::row("sequence", 9, &report.last_sequence.to_string()));
    text.push_str(&advice(&report.warnings));
    for family in &report.column_families {
        describe(family, &mut text);
    }
    text
}

fn describe(family: &FamilyStat, text: &mut String) {
    text.push_str(&format!("column family {}\n", shown_in_line(&family.name)));
    let mut line = |name: &str, value: String| text.push_str(&format!("  {}", screen::row(name, 9, &value)));
    let levels: Vec<String> = family
        .levels
        .iter()
        .map(|level| format!("L{}: {} files, {}", level.level, level.files, human(level.bytes)))
        .collect();
    line("entries", family.entries.to_string());
    line("files", format!("{}, {}", family.files, human(family.bytes)));
    line("levels", if levels.is_empty() { "empty".into() } else { levels.join("; ") });
    line("memory", format!("{} of filters, {} of indexes", human(family.filter_bytes), human(family.index_bytes)));
    if let (Some(records), Some(payload), Some(digest)) = (family.records, family.payload_bytes, &family.digest) {
        line("records", format!("{records}, {}", human(payload)));
        line("digest", digest.to_string());
    }
    for (number, option) in family.options.iter().enumerate() {
        let default = option.default.as_deref().unwrap_or("unknown to this RocksDB");
        line(
            if number == 0 { "options" } else { "" },
            format!("{} = {} (default {default})", option.option, option.value),
        );
    }
}
