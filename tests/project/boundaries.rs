//! Who may name which crate: RocksDB has one door, terminals another, and the library never prints.

use std::collections::{BTreeMap, BTreeSet};
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

/// The files of `src` with their names below it. Unit tests do not count.
fn own_sources() -> Vec<(PathBuf, PathBuf)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 100);
    // The clone itself may lie in a folder of that name.
    let is_test = |name: &Path| name.ends_with("tests.rs") || name.iter().any(|part| part == "tests");
    let named = files.into_iter().map(|path| (path.strip_prefix(&src).expect("below src").to_owned(), path));
    named.filter(|(name, _)| !is_test(name)).collect()
}

/// Files of `src` that name one of `wanted`, by whether they lie in `allowed`.
fn naming(wanted: &[&str], allowed: &str) -> (Vec<String>, Vec<String>) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (name, path) in own_sources() {
        let name = name.display().to_string();
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
    only(
        "cli/",
        &[
            "clap",
            "clap_complete",
            "clap_mangen",
            "anyhow",
            "comfy_table",
            "console",
            "humantime",
            "indicatif",
            "signal_hook",
            "textwrap",
        ],
    );
    only("cli/", &["stdout", "stderr", "IsTerminal"]);
}

#[test]
fn nobody_prints_by_macro() {
    // A broken pipe would be a panic, and the library has nothing to say to a terminal.
    let (_, printing) = naming(&["println!", "print!", "eprintln!", "eprint!", "dbg!"], "nowhere");
    assert_eq!(printing, NOBODY);
}

/// Format strings with Rust's debug form in them, in what is no unit test. What panics says is for those who repair it.
fn debug_texts(file: &syn::File) -> Vec<String> {
    use syn::visit::{self, Visit};
    #[derive(Default)]
    struct Texts(Vec<String>);
    impl Texts {
        fn look(&mut self, tokens: proc_macro2::TokenStream) {
            for token in tokens {
                match token {
                    proc_macro2::TokenTree::Literal(literal) => {
                        let text = literal.to_string();
                        let form = |part: &str| {
                            part.split('}')
                                .next()
                                .is_some_and(|form| form.split_once(':').is_some_and(|(_, form)| form.ends_with('?')))
                        };
                        if text.split('{').skip(1).any(form) {
                            self.0.push(text);
                        }
                    }
                    proc_macro2::TokenTree::Group(group) => self.look(group.stream()),
                    _ => {}
                }
            }
        }
    }
    impl<'ast> Visit<'ast> for Texts {
        fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
            if module.ident != "tests" {
                visit::visit_item_mod(self, module);
            }
        }
        fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
            let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
            if of.is_none_or(|name| name.ident != "Debug") {
                visit::visit_item_impl(self, item);
            }
        }
        fn visit_macro(&mut self, called: &'ast syn::Macro) {
            let name = called.path.segments.last().map(|name| name.ident.to_string()).unwrap_or_default();
            if !["assert", "assert_eq", "assert_ne", "debug_assert", "panic", "unreachable"].contains(&name.as_str()) {
                self.look(called.tokens.clone());
            }
        }
        fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
            if let syn::Meta::List(list) = &attribute.meta {
                self.look(list.tokens.clone());
            }
        }
    }
    let mut texts = Texts::default();
    texts.visit_file(file);
    texts.0
}

#[test]
fn nothing_that_is_said_has_the_debug_form_of_a_value() {
    let seen =
        "#[error(\"{text:?} is bad\")] struct A; fn f() { format!(\"{} {:#?}\", 1, 2); g(format!(\"{x:>5?}\")) }";
    assert_eq!(debug_texts(&syn::parse_file(seen).expect("it compiles")).len(), 3, "the scan sees them");
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut found = Vec::new();
    for path in files {
        let name = path.strip_prefix(&src).expect("below src").display().to_string();
        // What fuzzing finds is read by those who repair it.
        if name.contains("tests") || name.starts_with("fuzzing") || name == "bench_support.rs" {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        let texts = debug_texts(&syn::parse_file(&text).expect("it compiles"));
        found.extend(texts.into_iter().map(|text| format!("{name}: {text}")));
    }
    assert_eq!(found, NOBODY);
}

/// The modules at the top of `src` with their floors, as ARCHITECTURE.md has them.
fn floors() -> BTreeMap<String, u32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(path).expect("ARCHITECTURE.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?.parse::<u32>().ok()?, cells.next()?.to_owned()))
    });
    let modules = |(floor, names): (u32, String)| {
        names.split(", ").map(|name| (name.trim_matches('`').to_owned(), floor)).collect::<Vec<_>>()
    };
    rows.flat_map(modules).collect()
}

/// The modules at the top of `src` that a source names behind `crate::`, unit tests left out.
fn named_behind_crate(text: &str) -> BTreeSet<String> {
    fn collect(tokens: proc_macro2::TokenStream, named: &mut BTreeSet<String>) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let text = |offset: usize| tokens.get(at + offset).map(ToString::to_string).unwrap_or_default();
            if text(0) == "crate" && text(1) == ":" && text(2) == ":" {
                match tokens.get(at + 3) {
                    Some(proc_macro2::TokenTree::Group(group)) => {
                        let list = group.stream().to_string();
                        named.extend(
                            list.split(',').filter_map(|path| Some(path.split("::").next()?.trim().to_owned())),
                        );
                    }
                    Some(name) => drop(named.insert(name.to_string())),
                    None => {}
                }
            }
            if let proc_macro2::TokenTree::Group(group) = token {
                collect(group.stream(), named);
            }
        }
    }
    let own = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut named = BTreeSet::new();
    collect(own.parse().expect("it compiles"), &mut named);
    named
}

#[test]
fn every_module_uses_only_modules_of_lower_floors() {
    let floors = floors();
    let (mut arrows, mut wrong) = (BTreeSet::new(), Vec::new());
    for (name, path) in own_sources() {
        let module = name.iter().next().expect("a name").to_str().expect("text").trim_end_matches(".rs").to_owned();
        // The command line is a crate of its own, and lib.rs only lists the modules.
        if ["cli", "main", "lib"].contains(&&*module) {
            continue;
        }
        let floor = *floors.get(&module).unwrap_or_else(|| panic!("{module} is on no floor of ARCHITECTURE.md"));
        for used in named_behind_crate(&std::fs::read_to_string(&path).expect("a source file")) {
            let Some(&below) = floors.get(&used).filter(|_| used != module) else { continue };
            arrows.insert((module.clone(), used.clone()));
            if below >= floor {
                wrong.push(format!("{} (floor {floor}) uses {used} (floor {below})", name.display()));
            }
        }
    }
    assert!(arrows.len() > 60, "the scan finds only {} arrows", arrows.len());
    assert_eq!(wrong, NOBODY);
}

/// Every program that a test starts gets its environment from one function; what does not run is said by another.
#[test]
fn tests_start_the_program_and_skip_in_one_way() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files = Vec::new();
    sources(&tests, &mut files);
    for (mark, allowed) in
        [(concat!("CARGO_BIN", "_EXE_"), "common/run.rs"), (concat!("\"SKIP", "PED"), "common/mod.rs")]
    {
        let naming = files.iter().filter(|path| std::fs::read_to_string(path).expect("a file").contains(mark));
        let naming: Vec<_> = naming.map(|path| path.strip_prefix(&tests).expect("below tests")).collect();
        assert_eq!(naming, [Path::new(allowed)], "{mark}");
    }
}
