//! The presets that are built in: `configs/*.toml`. A test compares this list with the directory.

macro_rules! presets {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../configs/", $name, ".toml")))),+]
    };
}

/// The number of presets that a list shows. The others are single experiments.
pub(super) const LISTED: usize = 5;

/// Name and text: the default, presets for use, presets for comparison.
pub(super) const PRESETS: &[(&str, &str)] = presets![
    "ingest",
    "ingest-zstd",
    "ingest-compat",
    "memtable",
    "rocksdb-defaults",
    "forest-last",
    "forest-baseline",
    "forest-bulk-load",
    "forest-bulk-load-lookup",
    "forest-filters-for-hits",
    "forest-final",
    "forest-final-64m",
    "forest-max-open-files",
    "forest-no-auto-compaction",
    "forest-no-compaction",
    "forest-no-compression",
    "forest-no-index-compression",
    "forest-point-lookup-256",
    "forest-point-lookup-4096",
    "forest-point-lookup-8",
    "forest-unordered-write",
    "forest-write-buffer-32m",
    "forest-write-buffer-64m",
];
