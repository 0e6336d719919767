//! Tables that fit the width of the terminal: long cells are wrapped.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::cli::render::screen;

pub fn table(header: &[&str]) -> Table {
    table_within(header, Some(screen::table_columns()))
}

/// Returns the table for a terminal of this width; elsewhere lines remain whole.
pub fn table_within(header: &[&str], columns: Option<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header.iter().copied());
    if let Some(columns) = columns.and_then(|columns| u16::try_from(columns).ok()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    }
    table
}

/// Puts every column but the first to the right, as numbers are.
pub fn align_numbers(table: &mut Table) {
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
}

/// The table without the blanks around it.
pub fn text(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(&line).trim_end())).collect()
}
