//! The report of `bedload import`.

use crate::report::{
    BlockCounts, ChecksumInfo, FamilyFacts, FamilyReport, Head, ImportReport, LinkReport, LogReport, LogVerified,
    MemtableReport, NewestSnapshot, RemoteInfo, SourceInfo,
};
use crate::rocks::Level;
use crate::text::size::human;

use crate::cli::render::next_steps::{add_next_steps, time};
use crate::cli::render::numbers::{counted, date, grouped, levels, took};
use crate::cli::render::rows::{NAMES, Rows};

/// Bytes from which on the cost of a GiB is shown.
const LEAST_SHARE: u64 = 64 << 20;

/// The most sources that are listed.
const MOST_SOURCES: usize = 32;

pub fn text(report: &ImportReport) -> String {
    let mut rows = Rows::new(NAMES);
    rows.add_some("database", Some(&report.db).filter(|db| !db.is_empty()));
    if let Some(bundle) = &report.bundle {
        let name = bundle.part.map_or_else(String::new, |part| format!("part {part} of "));
        rows.add("bundle", format!("{name}{}", bundle.id));
        rows.add("place", &bundle.place);
        rows.add("files", format!("{}, {}", counted(bundle.files, "file", "files"), human(bundle.bytes)));
        rows.add("written", super::bundle::written(bundle));
    }
    rows.add("source", &report.source.path);
    let from = report.preset_from.as_ref().map_or_else(String::new, |from| format!(" ({from})"));
    rows.add("preset", format!("{}{from}", report.preset));
    let blocks = &report.blocks;
    let BlockCounts { read, written, duplicate, omitted, existing } = *blocks;
    let written = match existing {
        Some(existing) => format!("{} new, {} existing", grouped(written.saturating_sub(existing)), grouped(existing)),
        None => format!("{} written", grouped(written)),
    };
    let omitted = omitted.map_or_else(String::new, |omitted| format!(", {} omitted", grouped(omitted)));
    let are_records = !report.families.is_empty();
    if report.rebuilt.is_empty() {
        let name = if are_records { "records" } else { "blocks" };
        rows.add(name, format!("{} read, {written}, {} duplicate{omitted}", grouped(read), grouped(duplicate)));
    } else {
        add_copy(&mut rows, report);
    }
    let more = report.rebuilt.iter().map(Some).chain(std::iter::repeat(None));
    rows.add_each("families", report.families.iter().zip(more).take(MOST_SOURCES).map(family));
    if report.sources.len() > 1 {
        let more = report.sources.len().saturating_sub(MOST_SOURCES);
        let more = (more > 0).then(|| format!("{} more, see the JSON report", grouped(more as u64)));
        rows.add_each(
            "sources",
            report.sources.iter().take(MOST_SOURCES).map(|it| source(it, are_records)).chain(more),
        );
    }
    if let Some(shard) = &report.shard {
        let whole = shard.source().unwrap_or_default();
        let of = format!("{} (counted from 0), of {} blocks, {}", shard.of, grouped(whole.blocks), human(whole.bytes));
        rows.add("shard", format!("{} of {of}: the output contains only this shard", shard.number));
    }
    rows.add("payload", human(report.payload_bytes));
    rows.add("digest", report.digest.to_string());
    let checked = match &report.log {
        _ if !report.verified => "nothing (--verify none)",
        None if are_records => "every record that was read against the finished files",
        None => "every block against its hash",
        Some(log) => checked_in_log(log.verified),
    };
    rows.add("checked", checked);
    if let [source] = &*report.sources {
        rows.add_some("checksum", source.checksum.as_ref().map(checksum));
        rows.add_some("network", source.remote.as_ref().map(network));
    }
    if !report.f3.is_empty() {
        let bytes = report.f3.iter().map(|f3| f3.bytes).sum();
        rows.add("F3 data", format!("{}, left out (--f3 skip)", human(bytes)));
    }
    if report.missing_roots > 0 {
        let roots = report.source.roots.len() as u64;
        rows.add("missing", format!("{} of {} roots", grouped(report.missing_roots), grouped(roots)));
    }
    rows.add_some("links", report.links.as_ref().map(links));
    if let Some(sort) = report.plan.sort().filter(|sort| sort.spill) {
        let unforeseen = sort.may_spill.then(|| "the blocks did not fit into memory and were written to files".into());
        rows.add_some("spilled", unforeseen.or_else(|| sort.excess(report.plan.expected_bytes)));
    }
    rows.add("time", time(report, report.payload_bytes));
    rows.add_some("head", report.head.as_ref().filter(|_| report.log.is_none()).map(head));
    let newest = |newest: &NewestSnapshot| format!("{}; BEDLOAD.json records its head and roots", newest.path);
    rows.add_some("newest", report.newest.as_ref().map(newest));
    if let Some(log) = &report.log {
        add_log(&mut rows, log);
    }
    let uncompacted = if report.compacted { "" } else { "; not compacted (load.compaction.final=false)" };
    if !are_records {
        rows.add("levels", format!("{}{uncompacted}", levels(&report.levels)));
    }
    rows.add_some("RocksDB", report.memtable.as_ref().map(memtable));
    rows.add("cost", cost(report));
    if !report.db.is_empty() && report.sample.is_none() {
        add_next_steps(&mut rows, report);
    }
    rows.into_text()
}

/// The records of the copy of a database, and those that were left out.
fn add_copy(rows: &mut Rows, report: &ImportReport) {
    rows.add("records", format!("{} copied", grouped(report.blocks.written)));
    if let Some(sample) = &report.sample {
        rows.add("sample", sample.describe());
    } else {
        let sum = |count: fn(&FamilyFacts) -> u64| report.rebuilt.iter().map(count).sum::<u64>();
        let entries = sum(|old| old.entries + old.unflushed);
        let deletions = sum(|old| old.deletions);
        let versions = entries.saturating_sub(report.blocks.written + deletions);
        let garbage = human(sum(|old| old.blob_garbage_bytes));
        rows.add(
            "removed",
            format!(
                "{}, {}, {garbage} of garbage in blob files",
                counted(deletions, "deletion", "deletions"),
                counted(versions, "older version", "older versions")
            ),
        );
    }
}

/// A column family, with what it was before it was copied.
fn family((new, old): (&FamilyReport, Option<&FamilyFacts>)) -> String {
    let shown = |levels: &[Level]| {
        let (files, bytes) = levels.iter().fold((0, 0), |(files, bytes), it| (files + it.files, bytes + it.bytes));
        format!("{} in {}", human(bytes), counted(files, "file", "files"))
    };
    let row = format!("{}: {}, {}", new.name, counted(new.records, "record", "records"), shown(&new.levels));
    let Some(old) = old else { return row };
    let blobs = if old.blob_files > 0 { format!(" and {} of blobs", human(old.blob_bytes)) } else { String::new() };
    format!("{row}; before {}{blobs}", shown(&old.levels))
}

fn source(source: &SourceInfo, are_records: bool) -> String {
    let SourceInfo { path, blocks, roots, bytes, remote, checksum, .. } = source;
    let (read, duplicate) = blocks.as_ref().map_or((0, 0), |blocks| (blocks.read, blocks.duplicate));
    let (roots, duplicate) = (counted(roots.len() as u64, "root", "roots"), grouped(duplicate));
    let counts = match are_records {
        true => format!("{}, {duplicate} duplicate", counted(read, "record", "records")),
        false => format!("{}, {duplicate} duplicate, {roots}", counted(read, "block", "blocks")),
    };
    let mut row = format!("{path}: {counts}, {}", human(*bytes));
    if let Some(remote) = remote {
        row.push_str(&format!(", {} from the network", human(remote.received_bytes)));
    }
    if let Some(ChecksumInfo { function, from, .. }) = checksum {
        row.push_str(&format!(", {function} as {from} has it"));
    }
    row
}

fn checksum(checksum: &ChecksumInfo) -> String {
    let ChecksumInfo { function, sum, from, compared } = checksum;
    match compared {
        true => format!("{function} {sum}, as {from} has it"),
        false => {
            format!("not compared with the {function} of {from}: it was unknown when an earlier run read the source")
        }
    }
}

/// The address of the source, and the traffic of this run.
fn network(remote: &RemoteInfo) -> String {
    let received = human(remote.received_bytes);
    let ranges = if remote.ranges { "" } else { ", no range requests" };
    format!("{received} from {}{ranges}, {} wait", remote.url, took(remote.waited_seconds))
}

fn links(links: &LinkReport) -> String {
    let LinkReport { linked, missing, malformed, .. } = links;
    let broken = if *malformed > 0 { format!(", {} unreadable", grouped(*malformed)) } else { String::new() };
    format!("{} followed, {} to missing blocks{broken}", grouped(*linked), grouped(*missing))
}

pub fn head(head: &Head) -> String {
    let Head { chain, network, height, time, .. } = head;
    let what = if chain == "filecoin" { "epoch" } else { "block" };
    let network = network.as_ref().map(|network| format!(" {network}")).unwrap_or_default();
    let time = time.as_ref().map(|time| format!(", {time}")).unwrap_or_default();
    format!("{chain}{network}, {what} {}{time}", grouped(*height))
}

pub fn checked_in_log(verified: LogVerified) -> &'static str {
    match verified {
        LogVerified::Hash => "every block links to the previous one, and its transactions match its merkle root",
        LogVerified::Links => "every block links to the previous one; transactions were not checked (--verify links)",
        LogVerified::None => "nothing (--verify none)",
    }
}

fn memtable(memtable: &MemtableReport) -> String {
    let (batches, flushes) =
        (counted(memtable.batches, "batch", "batches"), counted(memtable.flushes, "flush", "flushes"));
    let (stalls, files) = (counted(memtable.stalls, "stall", "stalls"), memtable.level0_files_before_compaction);
    let (time, files) = (took(memtable.stall_seconds), counted(files, "file", "files"));
    let compacted = human(memtable.compaction_bytes_read);
    format!("{batches}, {flushes}, {stalls} ({time}), {files} at level 0 at the end of writing, {compacted} compacted")
}

fn cost(report: &ImportReport) -> String {
    let mut cost = Vec::new();
    if let Some(cpu) = report.cpu_seconds {
        let gib = report.payload_bytes as f64 / f64::from(1 << 30);
        // For a small source the start of the process dominates, and the cost of earlier runs is unknown.
        let shown = report.payload_bytes >= LEAST_SHARE && !report.resumed;
        let share = if shown { format!(" ({:.2} per GiB)", cpu / gib) } else { String::new() };
        cost.push(format!("{cpu:.1} CPU-seconds{share}"));
    }
    cost.extend(report.peak_rss_bytes.map(|peak| format!("{} of memory at most", human(peak))));
    cost.extend(report.bytes_written.map(|written| format!("{} written", human(written))));
    cost.join(", ")
}

fn add_log(rows: &mut Rows, log: &LogReport) {
    let (first, last) = (grouped(log.first.number.into()), grouped(log.last.number.into()));
    let time = u64::try_from(log.last.timestamp_ms / 1000).ok().map(|time| format!(", {}", date(time)));
    rows.add("chain", format!("{}, blocks {first} to {last}", log.family));
    rows.add("head", format!("{last} {}{}", log.last.id, time.unwrap_or_default()));
    if !log.not_covered.is_empty() {
        rows.add("uncovered", log.not_covered.join("; "));
    }
    let packings = &log.packings;
    if packings.zstd + packings.zstd_dictionary > 0 {
        let (raw, zstd) = (grouped(packings.raw), grouped(packings.zstd));
        let dictionary = grouped(packings.zstd_dictionary);
        rows.add("packed", format!("{raw} raw, {zstd} zstd, {dictionary} with a dictionary"));
    }
    for index in &log.indexes {
        let state = index.reason.as_ref().map_or("used".to_owned(), |reason| format!("ignored: {reason}"));
        rows.add("index", format!("{} ({}) {state}", index.path, index.kind));
    }
    if log.trimmed_bytes > 0 {
        rows.add("trimmed", format!("{} after the last complete block (--tail trim)", human(log.trimmed_bytes)));
    }
    if log.unknown_operations > 0 {
        rows.add("skipped", format!("{} of unknown kinds", counted(log.unknown_operations, "operation", "operations")));
    }
    for family in log.families.iter().skip(1) {
        let records = counted(family.records, "record", "records");
        rows.add("index", format!("{}: {records}, digest {}", family.name, family.digest));
    }
}
