//! The report of `bedload stat`.

use crate::report::{FamilyStat, ImportReport, OptionStat, StatReport};
use crate::rocks::option_map::fields_of;
use crate::text::size::human;

use crate::cli::render::import::head;
use crate::cli::render::numbers::{grouped, levels};
use crate::cli::render::rows::{NAMES, Rows};

pub fn text(report: &StatReport) -> String {
    let mut rows = Rows::new(NAMES);
    rows.add("database", &report.db);
    rows.add("rocksdb", report.rocksdb.as_deref().unwrap_or("unknown: there is no OPTIONS file"));
    rows.add("import", import(report));
    rows.add_some("imported", report.import.as_ref().map(|import| &import.imported_at));
    rows.add_some("head", report.import.as_ref().and_then(|import| import.head.as_ref()).map(head));
    rows.add("sequence", grouped(report.last_sequence));
    rows.add_advice(&report.warnings);
    for each in &report.column_families {
        rows.add_lines(&family(each));
    }
    rows.into_text()
}

fn import(report: &StatReport) -> String {
    let Some(ImportReport { source, versions, preset, digest, .. }) = &report.import else {
        return "no record".to_owned();
    };
    format!("{} by bedload {}, preset {preset}, digest {digest}", source.path, versions.bedload)
}

fn family(family: &FamilyStat) -> String {
    let mut rows = Rows::below(&format!("column family {}", family.name));
    // A missing file has no readable counts.
    let is_unknown = family.files > 0 && family.entries == 0;
    rows.add("entries", if is_unknown { "unknown".into() } else { grouped(family.entries) });
    rows.add("files", format!("{}, {}", grouped(family.files), human(family.bytes)));
    rows.add("levels", levels(&family.levels));
    rows.add("memory", format!("{} of filters, {} of indexes", human(family.filter_bytes), human(family.index_bytes)));
    if let (Some(records), Some(payload), Some(digest)) = (family.records, family.payload_bytes, &family.digest) {
        rows.add("records", format!("{}, {}", grouped(records), human(payload)));
        rows.add("digest", digest.to_string());
    }
    rows.add_each("options", family.options.iter().flat_map(lines));
    rows.into_text()
}

/// An option and its default; of a structure, the fields that differ.
fn lines(OptionStat { option, value, default }: &OptionStat) -> Vec<String> {
    let line = |name: &str, value: &str, default: Option<&str>| {
        format!("{name} = {value} (default {})", default.unwrap_or("unknown to this RocksDB"))
    };
    let (Some(fields), Some(defaults)) = (fields_of(value), default.as_deref().and_then(fields_of)) else {
        return vec![line(option, value, default.as_deref())];
    };
    let differing = fields.iter().filter_map(|(field, value)| {
        let default = defaults.iter().find(|(known, _)| known == field).map(|(_, default)| *default);
        (default != Some(*value)).then(|| line(&format!("{option}.{field}"), value, default))
    });
    differing.collect()
}
