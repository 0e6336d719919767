//! The presets that are built in: `configs/*.toml`. A test compares this list with the directory.

macro_rules! presets {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../configs/", $name, ".toml")))),+]
    };
}

/// Name and text, the default first, then those for use, then those for comparison.
pub(super) const PRESETS: &[(&str, &str)] = presets!["ingest"];
