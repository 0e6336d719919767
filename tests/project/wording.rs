//! Beginnings of doc comments and lengths of function names.

use crate::project::{read, root, rust_files};

const LONGEST_NAME: usize = 45;

/// Words that begin a clause where a noun or a verb is needed.
const FORBIDDEN: [&str; 6] = ["What", "Where", "Whether", "Whoever", "The same as", "The same with"];

/// The doc comments of `text` that begin with forbidden words.
fn wrong_comments(text: &str) -> Vec<&str> {
    let begins = |comment: &str, words: &str| {
        comment.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let is_wrong = |line: &&str| {
        let comment = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! ")).unwrap_or_default();
        FORBIDDEN.iter().any(|words| begins(comment, words))
    };
    text.lines().map(str::trim).filter(is_wrong).collect()
}

/// The names of functions in `text` that are too long.
fn long_names(text: &str) -> Vec<&str> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(|letter| !is_of_name(letter)).next());
    names.filter(|name| name.len() > LONGEST_NAME).collect()
}

/// Runs a check on the Rust files below `folders`.
fn check(folders: &[&str], check: fn(&str) -> Vec<&str>) {
    let files: Vec<_> = folders.iter().flat_map(rust_files).collect();
    assert!(files.len() > 100);
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(root()).expect("below the root");
        found.extend(check(&read(&file)).into_iter().map(|it| format!("{}: {it}", name.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn doc_comments_begin_with_nouns_or_verbs() {
    let seen =
        "    /// What is found.\n//! The same as that.\n/// Whatever comes.\n// Where\n/// Returns what is found.";
    assert_eq!(wrong_comments(seen), ["/// What is found.", "//! The same as that."]);
    check(&["src"], wrong_comments);
}

#[test]
fn function_names_have_at_most_45_characters() {
    let (long, longest) = ("a".repeat(LONGEST_NAME + 1), "b".repeat(LONGEST_NAME));
    assert_eq!(long_names(&format!("pub fn {long}<T>() {{}} fn {longest}() {{}}")), [&*long]);
    check(&["src", "tests"], long_names);
}
