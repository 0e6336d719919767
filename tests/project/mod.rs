//! Rules for sources and documents: boundaries between modules, documented errors and JSON, the public API.

use std::path::{Path, PathBuf};

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
    let mut paths = crate::common::crash::list(&root().join(folder));
    paths.sort();
    paths
}

/// All files below a folder of the project.
fn files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    listed(folder).into_iter().flat_map(|path| if path.is_dir() { files(path) } else { vec![path] }).collect()
}

fn rust_files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
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

/// The module of a file below `src`, e.g. `load::car`; the root has no name.
fn module_of(file: &str) -> String {
    match file.trim_end_matches(".rs").trim_end_matches("/mod") {
        "lib" => String::new(),
        module => module.replace('/', "::"),
    }
}

/// The path from the root that `module` names by `path`.
fn resolved(module: &str, path: &[String]) -> String {
    let mut at: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
    for name in path {
        match &**name {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            "self" | "*" => {}
            name => at.push(name),
        }
    }
    at.join("::")
}

/// The paths of a `use`, and the name of each in its module.
fn use_paths(tree: &syn::UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        syn::UseTree::Path(path) => {
            let below = use_paths(&path.tree).into_iter();
            below.map(|(rest, name)| ([vec![path.ident.to_string()], rest].concat(), name)).collect()
        }
        syn::UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        syn::UseTree::Rename(name) => vec![(vec![name.ident.to_string()], name.rename.to_string())],
        syn::UseTree::Glob(_) => vec![(vec!["*".into()], "*".into())],
        syn::UseTree::Group(group) => group.items.iter().flat_map(use_paths).collect(),
    }
}
