//! Rules for sources and documents: boundaries between modules, documented errors and JSON, the public API.

use std::path::{Path, PathBuf};

#[path = "../common/mod.rs"]
mod common;

mod boundaries;
mod documented_errors;
mod documented_json;
mod fixtures;
mod links;
mod packaging;
mod public_api;
mod skipped_tests;
mod wording;

/// The folder of the project.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the project.
fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The paths of a folder of the project, sorted.
fn listed(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut paths = common::crash::list(&root().join(folder));
    paths.sort();
    paths
}

/// The Rust files below a folder of the project.
fn rust_files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let below = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => rust_files(path),
        Some(extension) if extension == "rs" => vec![path],
        _ => Vec::new(),
    };
    listed(folder).into_iter().flat_map(below).collect()
}

/// The sources: names below `src`, and texts. Unit tests are left out.
fn sources() -> Vec<(String, String)> {
    let src = root().join("src");
    let own = |path: PathBuf| {
        let name = path.strip_prefix(&src).expect("below src").to_str().expect("text").to_owned();
        let is_test = name.split('/').any(|part| part == "tests" || part == "tests.rs");
        let text = read(path).split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
        (!is_test).then_some((name, text))
    };
    let sources: Vec<_> = rust_files("src").into_iter().filter_map(own).collect();
    assert!(sources.len() > 100);
    sources
}
