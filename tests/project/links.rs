//! Links of the documents lead to files and headings that are there, and `docs/SUMMARY.md` has every page once.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::project::read;

/// The documents at the top and in `docs`.
fn documents() -> Vec<PathBuf> {
    let paths = [super::listed(""), super::listed("docs")].concat();
    paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

/// The targets of the links and pictures of a text, without those in blocks of code.
fn targets(text: &str) -> Vec<&str> {
    let links = text.split("```").step_by(2).flat_map(|part| part.split("](").skip(1));
    links.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// The anchors of the headings, as web pages of repositories name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.split("```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let named = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    named
        .map(|name| name.chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect())
        .collect()
}

#[test]
fn links_in_documents_resolve() {
    let mut lost = Vec::new();
    for document in documents() {
        let text = read(&document);
        for target in targets(&text).into_iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            let found = path.exists() && (anchor.is_empty() || anchors(&read(&path)).contains(anchor));
            if !found {
                lost.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(lost.is_empty(), "these links lead nowhere:\n{}", lost.join("\n"));
}

#[test]
fn summary_lists_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let listed = targets(&summary);
    let pages = super::listed("docs").into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let pages: BTreeSet<_> = pages.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    let once: BTreeSet<_> = listed.iter().map(|&page| page.to_owned()).collect();
    assert_eq!(once, pages, "docs/SUMMARY.md and docs/ differ");
    assert_eq!(once.len(), listed.len(), "docs/SUMMARY.md lists a page twice");
}
