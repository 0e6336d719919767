//! The tables of `bedload presets`.

use crate::preset::{Difference, Loader, Resolved};
use crate::report::shown_in_line;
use crate::rocks::releases::Release;
use serde::Serialize;

use crate::cli::render::table::{table, text};

#[derive(Serialize)]
pub struct Listed {
    pub name: String,
    pub loader: Loader,
    /// The oldest RocksDB that is known to read the database.
    pub oldest_rocksdb: Release,
    pub summary: String,
    pub default: bool,
}

/// The presets, and how many there are beside them.
pub fn list(presets: Vec<Listed>, more: usize) -> String {
    let mut table = table(&["PRESET", "LOADER", "ROCKSDB", "SUMMARY"]);
    for Listed { name, loader, oldest_rocksdb, summary, default } in presets {
        let summary = if default { format!("{summary} (default)") } else { summary };
        table.add_row([name, loader.to_string(), format!("{oldest_rocksdb}+"), summary]);
    }
    let legend = "ROCKSDB: the node that opens the database has this version or a newer one";
    let more = match more {
        0 => String::new(),
        more => format!("{more} more, for comparison only: bedload presets --all\n"),
    };
    format!("{}\n{legend}\n{more}", text(&table))
}

pub fn diff(a: &Resolved, b: &Resolved, differences: Vec<Difference>) -> String {
    let mut table = table(&["OPTION", &shown_in_line(&a.preset), &shown_in_line(&b.preset)]);
    if a.loader != b.loader {
        table.add_row(["loader".to_owned(), a.loader.to_string(), b.loader.to_string()]);
    }
    for Difference { option, a, b, unnamed } in differences {
        let cell = |value: String, side| if unnamed == Some(side) { format!("({value})") } else { value };
        table.add_row([option.to_string(), cell(a, "a"), cell(b, "b")].map(|cell| shown_in_line(&cell).into_owned()));
    }
    if table.row_iter().next().is_none() {
        return "no difference\n".into();
    }
    format!("{}\n(value): the preset does not set it; this value applies without it\n", text(&table))
}
