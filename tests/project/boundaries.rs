//! Boundaries between modules: one module uses RocksDB, one uses terminals, and the library never prints.

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
                // A method is another type's word: a child process has a `stdout` too.
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

/// Those in `allowed` do, as a sign that the scan sees anything; no other file does.
fn only(allowed: &str, wanted: &[&str]) {
    let (inside, outside) = naming(wanted, allowed);
    assert!(!inside.is_empty());
    assert_eq!(outside, NONE);
}

const NONE: Vec<String> = Vec::new();

#[test]
fn only_rocks_uses_rocksdb_crates() {
    only("rocks/", &["rust_rocksdb", "rust_librocksdb_sys"]);
}

#[test]
fn only_cli_uses_terminal_crates() {
    only("cli/", &["clap_complete", "clap_mangen", "anyhow", "comfy_table", "console", "signal_hook", "textwrap"]);
    only("cli/", &["stdout", "stderr", "IsTerminal"]);
}

#[test]
fn sources_use_no_print_macros() {
    // A broken pipe would be a panic, and the library has nothing to say to a terminal.
    let (_, printing) = naming(&["println!", "print!", "eprintln!", "eprint!", "dbg!"], "nowhere");
    assert_eq!(printing, NONE);
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
fn messages_contain_no_debug_formatting() {
    let seen =
        "#[error(\"{text:?} is bad\")] struct A; fn f() { format!(\"{} {:#?}\", 1, 2); g(format!(\"{x:>5?}\")) }";
    assert_eq!(debug_texts(&syn::parse_file(seen).expect("it compiles")).len(), 3, "the scan sees them");
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut found = Vec::new();
    for path in files {
        let name = path.strip_prefix(&src).expect("below src").display().to_string();
        // Developers read the messages of fuzzing.
        if name.contains("tests") || name.starts_with("testing") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        let texts = debug_texts(&syn::parse_file(&text).expect("it compiles"));
        found.extend(texts.into_iter().map(|text| format!("{name}: {text}")));
    }
    assert_eq!(found, NONE);
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

/// The top-level modules that a source names after `crate::`, without its unit tests.
fn used_modules(text: &str) -> BTreeSet<String> {
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
fn modules_import_only_from_lower_floors() {
    let floors = floors();
    let (mut arrows, mut wrong) = (BTreeSet::new(), Vec::new());
    for (name, path) in own_sources() {
        let module = name.iter().next().expect("a name").to_str().expect("text").trim_end_matches(".rs").to_owned();
        // main.rs only calls the command line, and lib.rs only lists the modules.
        if ["main", "lib"].contains(&&*module) {
            continue;
        }
        let floor = *floors.get(&module).unwrap_or_else(|| panic!("{module} is on no floor of ARCHITECTURE.md"));
        for used in used_modules(&std::fs::read_to_string(&path).expect("a source file")) {
            let Some(&below) = floors.get(&used).filter(|_| used != module) else { continue };
            arrows.insert((module.clone(), used.clone()));
            if below >= floor {
                wrong.push(format!("{} (floor {floor}) uses {used} (floor {below})", name.display()));
            }
        }
    }
    assert!(arrows.len() > 60, "the scan finds only {} arrows", arrows.len());
    assert_eq!(wrong, NONE);
}

/// Every program that a test starts gets its environment from one function; what does not run is said by another.
#[test]
fn tests_share_one_start_and_skip_function() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests"), &mut files);
    for (mark, allowed) in
        [(concat!("CARGO_BIN", "_EXE_"), "tests/common/run.rs"), (concat!("\"SKIP", "PED"), "tests/common/skipped.rs")]
    {
        let naming = files.iter().filter(|path| std::fs::read_to_string(path).expect("a file").contains(mark));
        let naming: Vec<_> = naming.map(|path| path.strip_prefix(root).expect("of this project")).collect();
        assert_eq!(naming, [Path::new(allowed)], "{mark}");
    }
}

/// The modules of a crate by their paths, e.g. `load::car::read`, with what their sources name. Unit tests are left out.
struct Modules(BTreeMap<String, Names>);

/// Paths within the crate that a module names.
#[derive(Default)]
struct Names {
    paths: Vec<String>,
    /// Reexports, by their new names.
    handed_on: BTreeMap<String, String>,
}

impl Modules {
    /// Those of the files with these paths below `src` and these texts.
    fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let module = |file: &str| file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let files: Vec<_> = files.into_iter().map(|(file, text)| (module(file), text)).collect();
        let names = |(module, text): &(String, &str)| {
            let own = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let children = files.iter().filter_map(|(other, _)| other.strip_prefix(&format!("{module}::")));
            let mut scan = Scan {
                module,
                children: children.map(str::to_owned).collect(),
                names: Names::default(),
                hands_on: false,
            };
            scan.look(own.parse().expect("it compiles"));
            (module.clone(), scan.names)
        };
        Self(files.iter().map(names).collect())
    }

    /// The module that defines what is at `path`, through those that only hand it on.
    fn defining(&self, path: &str) -> Option<&str> {
        let ends = std::iter::successors(Some(path), |path| Some(path.rsplit_once("::")?.0));
        let mut ends = ends;
        let known = ends.find_map(|path| self.0.get_key_value(path));
        let (module, names) = known?;
        let rest = path.get(module.len()..).unwrap_or_default().trim_start_matches("::");
        let (name, behind) = rest.split_once("::").unwrap_or((rest, ""));
        match names.handed_on.get(name) {
            Some(from) if behind.is_empty() => self.defining(from),
            Some(from) => self.defining(&format!("{from}::{behind}")),
            None => Some(module),
        }
    }

    /// Pairs of a module and a module that it uses. `of` maps a module to its file or its top-level module.
    fn arrows<'a>(&'a self, of: impl Fn(&'a str) -> Option<&'a str>) -> BTreeSet<(&'a str, &'a str)> {
        let arrows = self.0.iter().flat_map(|(user, names)| names.paths.iter().map(move |path| (user.as_str(), path)));
        let arrows = arrows.filter_map(|(user, path)| Some((of(user)?, of(self.defining(path)?)?)));
        arrows.filter(|(user, used)| user != used).collect()
    }
}

/// A look through the tokens of one module.
struct Scan<'a> {
    module: &'a str,
    children: BTreeSet<String>,
    names: Names,
    /// True if the current `use` is `pub`.
    hands_on: bool,
}

impl Scan<'_> {
    fn look(&mut self, tokens: proc_macro2::TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let word = |at: usize| tokens.get(at).map(ToString::to_string).unwrap_or_default();
        for (at, token) in tokens.iter().enumerate() {
            let before = |back: usize| at.checked_sub(back).map(word).unwrap_or_default();
            let begins = before(1) != ":" && before(1) != "in" && word(at + 1) == ":" && word(at + 2) == ":";
            let prefix = match word(at).as_str() {
                "crate" => Some(""),
                "self" | "super" => Some(self.module),
                child if self.children.contains(child) => Some(self.module),
                _ => None,
            };
            if let Some(prefix) = prefix.filter(|_| begins) {
                self.hands_on = before(1) == "use" && (before(2) == "pub" || before(3) == "pub");
                self.path(&tokens, at, prefix.to_owned());
            }
            if let proc_macro2::TokenTree::Group(group) = token {
                self.look(group.stream());
            }
        }
    }

    /// Follows a path, or a tree of them, from the token `at` on; where it ends.
    fn path(&mut self, tokens: &[proc_macro2::TokenTree], at: usize, prefix: String) -> usize {
        let word = |at: usize| tokens.get(at).map(ToString::to_string).unwrap_or_default();
        let path = match tokens.get(at) {
            Some(proc_macro2::TokenTree::Group(group)) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                let mut next = 0;
                while next < inner.len() {
                    next = self.path(&inner, next, prefix.clone()) + 1;
                }
                return at + 1;
            }
            Some(proc_macro2::TokenTree::Ident(name)) => match name.to_string().as_str() {
                "crate" | "self" => prefix,
                "super" => prefix.rsplit_once("::").map(|(above, _)| above.to_owned()).unwrap_or_default(),
                name if prefix.is_empty() => name.to_owned(),
                name => format!("{prefix}::{name}"),
            },
            _ => {
                // All of it.
                self.names.paths.extend((word(at) == "*").then_some(prefix));
                return at + 1;
            }
        };
        if word(at + 1) == ":" && word(at + 2) == ":" {
            return self.path(tokens, at + 3, path);
        }
        let (end, name) = if word(at + 1) == "as" { (at + 3, word(at + 2)) } else { (at + 1, word(at)) };
        if self.hands_on {
            self.names.handed_on.insert(name, path);
        } else {
            self.names.paths.push(path);
        }
        end
    }
}

/// The arrows that lie on a circle.
fn on_circles<'a>(arrows: &BTreeSet<(&'a str, &'a str)>) -> Vec<String> {
    let reached = |from: &'a str| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            let used = arrows.iter().filter(|(user, _)| *user == module).map(|(_, used)| *used);
            next.extend(used.filter(|used| reached.insert(*used)));
        }
        reached
    };
    arrows.iter().filter(|(user, used)| reached(used).contains(user)).map(|(a, b)| format!("{a} -> {b}")).collect()
}

/// The top-level module of a path.
fn top(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

#[test]
fn planted_import_cycle_is_found() {
    let through_a_folder = [
        ("load/import.rs", "use crate::load::car::{self, Held as Kept}; fn f() { super::commit::g() }"),
        ("load/commit.rs", "pub(in crate::load) fn g() {}"),
        ("load/car/mod.rs", "mod read; pub(super) use read::Held;"),
        ("load/car/read.rs", "use super::super::import; #[cfg(test)]\nmod tests { use crate::load::commit; }"),
    ];
    let modules = Modules::of(through_a_folder);
    let arrows = modules.arrows(Some);
    assert!(arrows.contains(&("load::import", "load::commit")));
    assert_eq!(on_circles(&arrows), ["load::car::read -> load::import", "load::import -> load::car::read"]);
    let between_folders = [("a/x.rs", "use crate::b::Y;"), ("b.rs", "use crate::a;"), ("a/mod.rs", "mod x;")];
    let modules = Modules::of(between_folders);
    assert_eq!(on_circles(&modules.arrows(|module| Some(top(module)))), ["a -> b", "b -> a"]);
    assert_eq!(on_circles(&modules.arrows(Some)), NONE);
}

#[test]
fn modules_have_no_import_cycles() {
    let text = |(name, path): (PathBuf, PathBuf)| {
        (name.display().to_string(), std::fs::read_to_string(path).expect("a source file"))
    };
    let texts: Vec<_> = own_sources().into_iter().map(text).collect();
    let modules = Modules::of(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    // main.rs only calls the command line, and lib.rs only lists the modules.
    let of_library = |module| Some(top(module)).filter(|top| !["main", "lib"].contains(top));
    assert_eq!(on_circles(&modules.arrows(of_library)), NONE);
    let within = |folder: &str| modules.arrows(|module| Some(module).filter(|module| top(module) == folder));
    for (folder, least) in [("load", 80), ("source", 40), ("read", 40), ("cli", 40)] {
        let found = within(folder).len();
        assert!(found > least, "the scan finds only {found} arrows in {folder}");
    }
    let folders: BTreeSet<&str> = modules.0.keys().map(|module| top(module)).collect();
    for folder in folders {
        assert_eq!(on_circles(&within(folder)), NONE, "in {folder}");
    }
}

/// The rows of the files of `load` in ARCHITECTURE.md, from the top: which of them has `module`.
fn row(rows: &[BTreeSet<String>], module: &str) -> Option<usize> {
    let file = module.strip_prefix("load::")?.replace("::", "/");
    let is_it = |name: &String| *name == file || (name.ends_with('/') && file.starts_with(name.as_str()));
    Some(rows.iter().position(|row| row.iter().any(is_it)).unwrap_or_else(|| panic!("no row has {file}")))
}

#[test]
fn files_of_load_import_only_downwards() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(path).expect("ARCHITECTURE.md");
    let rows = text.split("| file of `load` |").nth(1).expect("the table").split("\n\n").next().unwrap_or_default();
    let names = |line: &str| {
        let cell = line.strip_prefix("| ").and_then(|line| line.split(" | ").next()).unwrap_or_default();
        cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<BTreeSet<_>>()
    };
    let rows: Vec<_> = rows.lines().filter(|line| line.starts_with("| `")).map(names).collect();
    assert!(rows.len() > 5, "{rows:?}");
    let text = |(name, path): (PathBuf, PathBuf)| {
        (name.display().to_string(), std::fs::read_to_string(path).expect("a source file"))
    };
    let texts: Vec<_> = own_sources().into_iter().map(text).collect();
    let modules = Modules::of(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    let is_file = |module: &&str| {
        module.starts_with("load::") && !["load::car", "load::block_log", "load::sink"].contains(module)
    };
    let arrows = modules.arrows(|module| Some(module).filter(is_file));
    let upwards = arrows.iter().filter(|(user, used)| row(&rows, user) > row(&rows, used));
    let upwards: Vec<_> = upwards.map(|(user, used)| format!("{user} -> {used}")).collect();
    assert_eq!(upwards, NONE);
}
