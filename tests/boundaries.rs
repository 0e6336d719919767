//! Who may name which crate: RocksDB has one door, terminals another, and the library never prints.

use std::path::{Path, PathBuf};

fn sources(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in dir.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Every path and macro that a source names, comments left out.
fn words(text: &str) -> Vec<String> {
    fn collect(tokens: proc_macro2::TokenStream, words: &mut Vec<String>) {
        let mut tokens = tokens.into_iter().peekable();
        let mut is_method = false;
        while let Some(token) = tokens.next() {
            let was_method = std::mem::take(&mut is_method);
            match token {
                proc_macro2::TokenTree::Punct(mark) => is_method = mark.as_char() == '.',
                // A method is somebody else's word: a child process has a `stdout` too.
                proc_macro2::TokenTree::Ident(_) if was_method => {}
                proc_macro2::TokenTree::Ident(name) => {
                    let is_macro =
                        matches!(tokens.peek(), Some(proc_macro2::TokenTree::Punct(mark)) if mark.as_char() == '!');
                    words.push(if is_macro { format!("{name}!") } else { name.to_string() });
                }
                proc_macro2::TokenTree::Group(group) => collect(group.stream(), words),
                _ => {}
            }
        }
    }
    let mut words = Vec::new();
    collect(text.parse().expect("it compiles"), &mut words);
    words
}

/// Files of `src` that name one of `wanted`, by whether they lie in `allowed`. Unit tests do not count.
fn naming(wanted: &[&str], allowed: &str) -> (Vec<String>, Vec<String>) {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 100);
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for path in files.into_iter().filter(|path| !path.ends_with("tests.rs") && !path.iter().any(|part| part == "tests"))
    {
        let name = path.strip_prefix(&src).expect("below src").display().to_string();
        let text = std::fs::read_to_string(&path).expect("a source file");
        let own = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let Some(word) = words(own).into_iter().find(|word| wanted.contains(&word.as_str())) else { continue };
        let place = if name.starts_with(allowed) { &mut inside } else { &mut outside };
        place.push(format!("{name} names {word}"));
    }
    (inside, outside)
}

/// Those in `allowed` do, as a sign that the scan sees anything; nobody else does.
fn only(allowed: &str, wanted: &[&str]) {
    let (inside, outside) = naming(wanted, allowed);
    assert!(!inside.is_empty());
    assert_eq!(outside, NOBODY);
}

const NOBODY: Vec<String> = Vec::new();

#[test]
fn only_rocks_names_rocksdb() {
    only("rocks/", &["rust_rocksdb", "rust_librocksdb_sys"]);
}

#[test]
fn only_the_command_line_names_terminals() {
    only("cli/", &["clap", "clap_complete", "clap_mangen", "anyhow", "comfy_table", "signal_hook"]);
    only("cli/", &["stdout", "stderr", "IsTerminal"]);
}

#[test]
fn nobody_prints_by_macro() {
    // A broken pipe would be a panic, and the library has nothing to say to a terminal.
    let (_, printing) = naming(&["println!", "print!", "eprintln!", "eprint!", "dbg!"], "nowhere");
    assert_eq!(printing, NOBODY);
}
