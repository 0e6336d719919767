//! The reports of `bedload bundle` and `bedload seed`.

use crate::report::{BundleReport, ImportReport};
use crate::text::size::human;

use crate::cli::render::next_steps::{add_next_steps, time};
use crate::cli::render::numbers::{counted, grouped, throughput, took};
use crate::cli::render::rows::{NAMES, Rows};

/// One line about the published bundle.
pub fn done(report: &BundleReport) -> String {
    match report.part {
        Some(number) => format!("part {number} of the set {} is complete", report.id),
        None => format!("the bundle {} is complete", report.id),
    }
}

pub fn written(report: &BundleReport) -> String {
    match report.uploaded_files {
        0 if report.joined.is_some() => "none: a join copies no files".into(),
        0 => "none: all existed".into(),
        uploaded => format!("{}, {}", counted(uploaded, "file", "files"), human(report.uploaded_bytes)),
    }
}

pub fn text(report: &BundleReport) -> String {
    let mut rows = Rows::new(NAMES);
    if report.joined.is_none() {
        rows.add("database", &report.db);
    }
    rows.add("place", &report.place);
    match report.part {
        Some(number) => rows.add("part", format!("{number} of {}", report.id)),
        None => rows.add("bundle", &report.id),
    }
    rows.add_some("joined", report.joined.map(|parts| counted(u64::from(parts), "part", "parts")));
    rows.add("records", format!("{}, as recorded by the import", grouped(report.records)));
    let files = counted(report.files, "file", "files");
    rows.add("files", format!("{files}, {}", human(report.bytes)));
    rows.add("written", written(report));
    let rate = report.joined.is_none().then(|| format!(", {}", throughput(report.bytes, report.seconds)));
    rows.add("time", format!("{}{}", took(report.seconds), rate.unwrap_or_default()));
    rows.into_text()
}

pub fn seeded(report: &ImportReport) -> String {
    let mut rows = Rows::new(NAMES);
    rows.add("database", &report.db);
    rows.add("source", format!("bundle of {}", report.source.path));
    rows.add_some("part", report.part.as_ref().map(|part| part.describe()));
    rows.add("blocks", grouped(report.blocks.written));
    rows.add("digest", report.digest.to_string());
    let blocks = if report.verified { "checked all blocks" } else { "did not check the blocks" };
    rows.add("checked", format!("every file against its BLAKE3; the import {blocks}"));
    let families = report.log.iter().flat_map(|log| &log.families).flat_map(|family| &family.levels);
    let levels: Vec<_> = if report.log.is_some() { families.collect() } else { report.levels.iter().collect() };
    let (files, bytes) = levels.iter().fold((0, 0), |(files, bytes), level| (files + level.files, bytes + level.bytes));
    rows.add("files", format!("{}, {}", counted(files, "file", "files"), human(bytes)));
    rows.add("preset", &report.preset);
    rows.add("time", time(report, bytes));
    add_next_steps(&mut rows, report);
    rows.into_text()
}
