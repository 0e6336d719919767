//! The report of `bedload inspect`.

use crate::report::{BlockRef, CodeCount, DatabaseInfo, FamilyFacts, InspectReport, LogInfo, RootInfo, ZstdInfo};
use crate::text::size::human;

use crate::cli::render::numbers::{counted, date, grouped, levels, throughput, took};
use crate::cli::render::rows::{NAMES, Rows};

/// The width of the longest bar of the size histogram.
const BAR: u64 = 30;

pub fn text(report: &InspectReport) -> String {
    let mut rows = Rows::new(NAMES);
    if let Some(database) = &report.database {
        rows.add("database", &report.source);
        add_database(&mut rows, database, report);
        return rows.into_text();
    }
    rows.add("snapshot", &report.source);
    match &report.log {
        Some(log) => add_log(&mut rows, log, report),
        None => add_car(&mut rows, report),
    }
    add_sizes(&mut rows, report);
    if report.log.is_none() {
        for bad in &report.first_bad {
            rows.add_lines(&format!("  at byte {}: {}\n", bad.offset, bad.message));
        }
    }
    rows.into_text()
}

fn add_car(rows: &mut Rows, report: &InspectReport) {
    rows.add("format", format!("CARv{}, {}{}", report.version, compression(&report.compression), size(report)));
    if let Some(v2) = &report.v2 {
        let index = if v2.index_offset == 0 { "no index".into() } else { format!("index at {}", v2.index_offset) };
        rows.add("carv2", format!("{} of data at {}, {index}", human(v2.data_bytes), v2.data_offset));
    }
    if report.roots.is_empty() {
        rows.add("roots", "none");
    }
    rows.add_each("roots", report.roots.iter().map(root));
    if let Some(metadata) = &report.metadata {
        let f3 = match (&metadata.f3, metadata.f3_bytes) {
            (None, _) => "no F3 data".into(),
            (Some(_), Some(bytes)) => format!("{} of F3 data", human(bytes)),
            (Some(_), None) => "F3 data".into(),
        };
        rows.add("metadata", format!("FRC-0108 version {}, {f3}", metadata.version));
        rows.add("head", metadata.head_tipset.join(", "));
    }
    if let Some(head) = &report.head {
        let headers = counted(head.headers, "header", "headers");
        let time = date(head.timestamp);
        rows.add("chain", format!("Filecoin, epoch {}, {time}, {headers} at the head", grouped(head.epoch)));
    }
    match (report.payload_bytes, report.blocks) {
        (Some(payload), _) => add_blocks(rows, report, payload),
        (None, Some(blocks)) => rows.add("blocks", format!("{} by the index", grouped(blocks))),
        (None, None) => rows.add("blocks", "unknown; --full reads the whole snapshot and counts them"),
    }
}

/// Counts from reading every block of a CAR.
fn add_blocks(rows: &mut Rows, report: &InspectReport, payload: u64) {
    let count = |value: Option<u64>| value.unwrap_or(0);
    let (blocks, distinct) = (count(report.blocks), count(report.distinct));
    let (duplicates, bytes) = (grouped(count(report.duplicates)), human(payload));
    rows.add("blocks", format!("{}, {} distinct, {duplicates} duplicate, {bytes}", grouped(blocks), grouped(distinct)));
    rows.add_some("padding", report.null_padding.filter(|&padding| padding > 0).map(human));
    rows.add_some("digest", report.digest.as_ref().map(ToString::to_string));
    rows.add("codecs", codes(report.codecs.as_deref().unwrap_or_default()));
    rows.add("hashes", codes(report.hashes.as_deref().unwrap_or_default()));
    rows.add_some("zstd", report.zstd.as_ref().map(zstd));
    let checked = match count(report.bad_blocks) {
        0 => "every block matches its CID".into(),
        bad => counted(bad, "block does not match its CID", "blocks do not match their CIDs"),
    };
    rows.add("checked", checked);
    rows.add("time", format!("{}, {}", took(report.seconds), throughput(payload, report.seconds)));
}

fn add_sizes(rows: &mut Rows, report: &InspectReport) {
    let sizes = report.sizes.as_deref().unwrap_or_default();
    let most = sizes.iter().map(|class| class.blocks).max().unwrap_or(1).max(1);
    let bars = sizes.iter().map(|class| {
        let bar = "#".repeat((class.blocks * BAR).div_ceil(most) as usize);
        let up_to = human(class.up_to.saturating_add(1));
        format!("under {up_to:>10} {:>12} {bar}", grouped(class.blocks))
    });
    rows.add_each("sizes", bars);
}

fn add_log(rows: &mut Rows, log: &LogInfo, report: &InspectReport) {
    let version = if report.version > 0 { format!(" version {}", report.version) } else { String::new() };
    let parts = if log.parts > 1 { format!(", {} parts", log.parts) } else { String::new() };
    let (family, compression, size) = (&log.family, compression(&report.compression), size(report));
    rows.add("format", format!("block log of {family}{version}, {compression}{size}{parts}"));
    rows.add_some("chain", log.chain_id.as_ref());
    let time = |block: &BlockRef| date(u64::try_from(block.timestamp_ms / 1000).unwrap_or(0));
    let block = |it: &BlockRef| format!("{} {}, {}", grouped(it.number.into()), it.id, time(it));
    rows.add_some("first", log.first.as_ref().map(block));
    rows.add_some("head", log.last.as_ref().map(block));
    if log.rest_bytes > 0 {
        rows.add("torn", format!("{} after the last complete block", human(log.rest_bytes)));
    }
    for index in &log.indexes {
        let state = index.reason.as_ref().map_or("matches the log".to_owned(), |reason| format!("wrong: {reason}"));
        rows.add("index", format!("{} ({}) {state}", index.path, index.kind));
    }
    let payload = report.payload_bytes.map_or_else(String::new, |bytes| format!(", {}", human(bytes)));
    rows.add("blocks", format!("{}{payload}", grouped(report.blocks.unwrap_or(0))));
    let Some(packings) = &log.packings else {
        return rows.add("packing", "unknown; --full reads the whole snapshot and counts it");
    };
    let [raw, zstd, dictionary] = [packings.raw, packings.zstd, packings.zstd_dictionary].map(grouped);
    let stored = human(packings.stored_bytes);
    rows.add("packing", format!("{raw} raw, {zstd} zstd, {dictionary} zstd with a dictionary; {stored} as stored"));
    rows.add_some("digest", report.digest.as_ref().map(ToString::to_string));
    rows.add("checked", "every block links to the previous block");
}

fn add_database(rows: &mut Rows, database: &DatabaseInfo, report: &InspectReport) {
    let DatabaseInfo { rocksdb, files, wal_bytes, can_be_rebuilt, column_families } = database;
    let version = rocksdb.as_deref().unwrap_or("of an unknown version");
    let families = counted(column_families.len() as u64, "column family", "column families");
    let (files, wal) = (counted(*files, "file", "files"), human(*wal_bytes));
    rows.add("format", format!("RocksDB {version}, {families}, {files}{}, WAL of {wal}", size(report)));
    let refused = column_families.iter().filter(|family| family.refused.is_some()).count() as u64;
    let verdict = match can_be_rebuilt {
        true => "all records can be copied into a new database".into(),
        false => {
            format!("{} cannot be copied into a new database", counted(refused, "column family", "column families"))
        }
    };
    rows.add("verdict", verdict);
    column_families.iter().for_each(|each| rows.add_lines(&family(each)));
}

fn family(family: &FamilyFacts) -> String {
    let mut rows = Rows::below(&format!("column family {}", family.name));
    let counts = [
        (family.entries, "entry", "entries"),
        (family.deletions, "deletion", "deletions"),
        (family.merge_operands, "merge operand", "merge operands"),
        (family.unflushed, "entry only in the WAL", "entries only in the WAL"),
    ];
    let counts = counts.into_iter().enumerate().filter(|(at, (count, ..))| *at == 0 || *count > 0);
    let counts: Vec<String> = counts.map(|(_, (count, one, more))| counted(count, one, more)).collect();
    rows.add("entries", counts.join(", "));
    rows.add("levels", levels(&family.levels));
    if family.blob_files > 0 {
        let (bytes, garbage) = (human(family.blob_bytes), human(family.blob_garbage_bytes));
        rows.add(
            "blobs",
            format!("{}, {bytes}, {garbage} of them garbage", counted(family.blob_files, "file", "files")),
        );
    }
    rows.add("order", &family.comparator);
    rows.add_some("merge", family.merge_operator.as_ref());
    rows.add_some("prefix", family.prefix_extractor.as_ref());
    rows.add_some("filter", family.compaction_filter.as_ref());
    if !family.oldest_rocksdb.is_empty() {
        rows.add("readers", format!("RocksDB {} or newer", family.oldest_rocksdb));
    }
    rows.add_each("note", family.notes.iter().cloned());
    match &family.refused {
        None => rows.add("verdict", "can be copied"),
        Some(reason) => rows.add("verdict", format!("cannot be copied: {reason}")),
    }
    rows.add_some("hint", family.hint.as_ref());
    rows.into_text()
}

fn size(report: &InspectReport) -> String {
    report.bytes.map_or_else(String::new, |bytes| format!(", {}", human(bytes)))
}

fn compression(name: &str) -> String {
    match name {
        "none" => "plain".into(),
        "forest-zstd" => "in zstd with Forest's index".into(),
        other => format!("in {other}"),
    }
}

fn root(root: &RootInfo) -> String {
    let present = match root.present {
        Some(true) => "present",
        Some(false) => "its block is missing",
        None => "not among the first blocks; --full searches all blocks",
    };
    format!("{} ({present})", root.cid)
}

fn zstd(zstd: &ZstdInfo) -> String {
    let (skippable, window) = (human(zstd.skippable_bytes), human(zstd.window));
    let frames = counted(zstd.frames, "frame", "frames");
    let [checksums, count] = [zstd.checksums, zstd.skippable].map(grouped);
    format!("{frames} ({checksums} with checksum), {count} skippable ({skippable}), window up to {window}")
}

fn codes(counts: &[CodeCount]) -> String {
    let text = |count: &CodeCount| {
        let name = count.name.clone().unwrap_or_else(|| format!("0x{:x}", count.code));
        format!("{name} {}", grouped(count.blocks))
    };
    counts.iter().map(text).collect::<Vec<_>>().join(", ")
}
