//! `bedload inspect`: what is in a snapshot.

use std::io::BufWriter;
use std::path::PathBuf;

use bedload::Error;
use bedload::read::inspect::{InspectOptions, inspect, list};
use bedload::report::{BlockRef, CodeCount, InspectReport, LogInfo};
use bedload::size::human;
use bedload::source::car::NullPadding;

use super::shared::ResourceArgs;
use super::{Globals, bars, import, screen};

/// The width of the longest bar of the size histogram.
const BAR: u64 = 30;

/// Show what is in a snapshot without loading it
///
/// Reads head, index and tail only, unless --full is given. Ends with exit code 3 when the snapshot is damaged.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload inspect --full snapshot.forest.car.zst")]
pub struct Args {
    /// The snapshot, or `-` for standard input
    #[arg(value_name = "SNAPSHOT")]
    pub source: PathBuf,
    /// Read everything: count blocks, sizes and codecs, and check every block against its hash
    #[arg(long)]
    pub full: bool,
    /// Print CID (of a log: number and id), size and offset of every block instead, one JSON object a line
    #[arg(long, conflicts_with = "full")]
    pub list: bool,
    /// What null padding behind the blocks means: damage, or the end
    #[arg(long, value_name = "MEANING", default_value = "error", value_parser = import::null_padding())]
    pub null_padding: NullPadding,

    /// Where Hive's dictionaries are, for a block log that needs them
    #[arg(long, value_name = "DIR")]
    pub dictionaries: Option<PathBuf>,

    #[command(flatten)]
    pub resources: ResourceArgs,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = InspectOptions::new(&args.source);
    options.full = args.full;
    options.null_padding = args.null_padding;
    options.resources = args.resources.resources()?;
    options.dictionaries.clone_from(&args.dictionaries);
    if args.list {
        list(&options, &mut BufWriter::with_capacity(256 << 10, std::io::stdout().lock()))?;
        return Ok(());
    }
    let report = if args.full {
        let observer = bars::renderer(globals);
        let report = inspect(&options, observer.as_ref());
        observer.finish();
        report?
    } else {
        inspect(&options, &bedload::progress::Silent)?
    };
    if globals.json {
        super::print_json(&report)?;
    } else {
        screen::print(&summary(&report), 10)?;
    }
    if report.sound {
        return Ok(());
    }
    if let Some(log) = &report.log {
        let last = log.last.as_ref().map_or(0, |last| last.number);
        return Err(Error::Unsound {
            action: "inspect",
            path: args.source.clone(),
            problems: "a torn tail".into(),
            hint: format!("`bedload import --tail trim` imports up to block {last} and leaves the rest out"),
        }
        .into());
    }
    let bad = report.bad_blocks.unwrap_or(0);
    Err(Error::Unsound {
        action: "inspect",
        path: args.source.clone(),
        problems: if bad == 1 { "1 bad block".into() } else { format!("{bad} bad blocks") },
        hint: "the snapshot is damaged: download it again and compare its sha256 with the publisher's".into(),
    }
    .into())
}

/// The result for people.
fn summary(report: &InspectReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&screen::row(name, 9, &value));
    line("snapshot", report.source.clone());
    let size = report.bytes.map_or_else(String::new, |bytes| format!(", {}", human(bytes)));
    if let Some(log) = &report.log {
        let version = if report.version > 0 { format!(" version {}", report.version) } else { String::new() };
        let parts = if log.parts > 1 { format!(", {} parts", log.parts) } else { String::new() };
        line("format", format!("block log of {}{version}, {}{size}{parts}", log.family, wrapping(&report.wrapping)));
        describe_log(log, report, &mut line);
        describe_sizes(report, &mut line);
        return text;
    }
    line("format", format!("CARv{}, {}{size}", report.version, wrapping(&report.wrapping)));
    if let Some(v2) = &report.v2 {
        let index = if v2.index_offset == 0 { "no index".into() } else { format!("index at {}", v2.index_offset) };
        line("carv2", format!("{} of data at {}, {index}", human(v2.data_bytes), v2.data_offset));
    }
    if report.roots.is_empty() {
        line("roots", "none".into());
    }
    for (number, root) in report.roots.iter().enumerate() {
        let present = match root.present {
            Some(true) => "present",
            Some(false) => "its block is missing",
            None => "not among the first blocks; --full looks for it",
        };
        line(if number == 0 { "roots" } else { "" }, format!("{} ({present})", root.cid));
    }
    if let Some(metadata) = &report.metadata {
        let f3 = match (&metadata.f3, metadata.f3_bytes) {
            (None, _) => "no F3 data".into(),
            (Some(_), Some(bytes)) => format!("{} of F3 data", human(bytes)),
            (Some(_), None) => "F3 data".into(),
        };
        line("metadata", format!("FRC-0108 version {}, {f3}", metadata.version));
        line("head", metadata.head_tipset.join(", "));
    }
    if let Some(head) = &report.head {
        let headers = if head.headers == 1 { "1 header".into() } else { format!("{} headers", head.headers) };
        line("chain", format!("Filecoin, epoch {}, {}, {headers} at the head", head.epoch, date(head.timestamp)));
    }
    let Some(payload) = report.payload_bytes else {
        let blocks = report.blocks.map_or_else(
            || "unknown without reading everything: --full counts them".into(),
            |blocks| format!("{blocks} by the index"),
        );
        line("blocks", blocks);
        return text;
    };
    let count = |value: Option<u64>| value.unwrap_or(0);
    line(
        "blocks",
        format!(
            "{}, {} distinct, {} duplicate, {}",
            count(report.blocks),
            count(report.distinct),
            count(report.duplicates),
            human(payload)
        ),
    );
    if let Some(padding) = report.null_padding.filter(|&padding| padding > 0) {
        line("padding", human(padding));
    }
    if let Some(digest) = &report.digest {
        line("digest", digest.to_string());
    }
    line("codecs", codes(report.codecs.as_deref().unwrap_or_default()));
    line("hashes", codes(report.hashes.as_deref().unwrap_or_default()));
    if let Some(zstd) = &report.zstd {
        let window = human(zstd.window);
        line(
            "zstd",
            format!(
                "{} frames ({} with checksum), {} skippable ({}), window up to {window}",
                zstd.frames,
                zstd.checksums,
                zstd.skippable,
                human(zstd.skippable_bytes)
            ),
        );
    }
    let bad = report.bad_blocks.unwrap_or(0);
    line(
        "checked",
        if bad == 0 { "every block matches its CID".into() } else { format!("{bad} blocks do not match their CIDs") },
    );
    let rate = human((payload as f64 / report.seconds.max(0.001)) as u64);
    line("time", format!("{:.1} s, {rate}/s", report.seconds));
    describe_sizes(report, &mut line);
    for bad in &report.first_bad {
        text.push_str(&format!("  at byte {}: {}\n", bad.offset, bad.message));
    }
    text
}

fn describe_sizes(report: &InspectReport, line: &mut impl FnMut(&str, String)) {
    let sizes = report.sizes.as_deref().unwrap_or_default();
    let most = sizes.iter().map(|class| class.blocks).max().unwrap_or(1).max(1);
    for (number, class) in sizes.iter().enumerate() {
        let bar = "#".repeat((class.blocks * BAR).div_ceil(most) as usize);
        let up_to = human(class.up_to.saturating_add(1));
        line(if number == 0 { "sizes" } else { "" }, format!("under {up_to:>10} {:>12} {bar}", class.blocks));
    }
}

fn describe_log(log: &LogInfo, report: &InspectReport, line: &mut impl FnMut(&str, String)) {
    if let Some(chain_id) = &log.chain_id {
        line("chain", chain_id.clone());
    }
    let seconds = |block: &BlockRef| date(u64::try_from(block.timestamp_ms / 1000).unwrap_or(0));
    for (name, block) in [("first", &log.first), ("head", &log.last)] {
        if let Some(block) = block {
            line(name, format!("{} {}, {}", block.number, block.id, seconds(block)));
        }
    }
    if log.rest_bytes > 0 {
        line("torn", format!("{} behind the last whole block", human(log.rest_bytes)));
    }
    for index in &log.indexes {
        let state = index.reason.as_ref().map_or("agrees".to_owned(), |reason| format!("wrong: {reason}"));
        line("index", format!("{} ({}) {state}", index.path, index.kind));
    }
    let payload = report.payload_bytes.map_or_else(String::new, |bytes| format!(", {}", human(bytes)));
    line("blocks", format!("{}{payload}", report.blocks.unwrap_or(0)));
    let Some(packings) = &log.packings else {
        return line("packing", "unknown without reading everything: --full counts it".into());
    };
    line(
        "packing",
        format!(
            "{} raw, {} zstd, {} zstd with a dictionary; {} as stored",
            packings.raw,
            packings.zstd,
            packings.zstd_dictionary,
            human(packings.stored_bytes)
        ),
    );
    if let Some(digest) = &report.digest {
        line("digest", digest.to_string());
    }
    line("checked", "every block follows the one before it".into());
}

fn wrapping(name: &str) -> String {
    match name {
        "none" => "plain".into(),
        "forest-zstd" => "in zstd with Forest's index".into(),
        other => format!("in {other}"),
    }
}

fn codes(counts: &[CodeCount]) -> String {
    let shown = |count: &CodeCount| {
        let name = count.name.clone().unwrap_or_else(|| format!("0x{:x}", count.code));
        format!("{name} {}", count.blocks)
    };
    counts.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Seconds since 1970 as a date in UTC.
pub fn date(timestamp: u64) -> String {
    let (mut days, seconds) = (timestamp / 86_400, timestamp % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    // A timestamp is any number; no chain is older than its year 10,000.
    while year < 10_000 && days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", days + 1)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date -u -d @..`.
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_598_306_400), "2020-08-24 22:00:00 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59:59 UTC");
        assert!(date(u64::MAX).starts_with("10000-"));
    }
}
