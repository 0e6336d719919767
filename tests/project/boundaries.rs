//! Boundaries between modules: one module uses RocksDB, one uses terminals, and the library never prints.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

use crate::project::{module_of, read, resolved, root, rust_files, sources, use_paths};

const NONE: [String; 0] = [];

/// The tokens of a source in order, without literals and comments.
fn words(tokens: TokenStream) -> Vec<String> {
    let of_token = |token| match token {
        TokenTree::Group(group) => words(group.stream()),
        TokenTree::Literal(_) => Vec::new(),
        token => vec![token.to_string()],
    };
    tokens.into_iter().flat_map(of_token).collect()
}

/// Files in `allowed` name one of `wanted`, as a sign that the scan sees anything; no other file does.
fn only(allowed: &str, wanted: &[&str]) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (name, text) in sources() {
        let words = words(text.parse().expect("it compiles")).join(" ");
        // A method is another type's word: a child process has a `stdout` too.
        // The library re-exports the crate.
        let words = format!(" {words} ").replace(" . ", " .").replace(" pub use rust_rocksdb ;", "");
        let Some(word) = wanted.iter().find(|word| words.contains(&format!(" {word} "))) else { continue };
        let place = if name.starts_with(allowed) { &mut inside } else { &mut outside };
        place.push(format!("{name} names {word}"));
    }
    assert_eq!((inside.is_empty(), &outside[..]), (allowed == "nowhere", &NONE[..]));
}

#[test]
fn crates_and_macros_stay_in_their_folders() {
    only("rocks/", &["rust_rocksdb", "rust_librocksdb_sys"]);
    let crates = "clap_complete clap_mangen anyhow comfy_table console signal_hook textwrap";
    only("cli/", &crates.split(' ').collect::<Vec<_>>());
    only("cli/", &["stdout", "stderr", "IsTerminal"]);
    // A broken pipe would be a panic, and the library has nothing to say to a terminal.
    only("nowhere", &["println !", "print !", "eprintln !", "eprint !", "dbg !"]);
}

/// Collects the format strings with Rust's debug form in them. What panics says is for those who repair it.
fn debug_texts(tokens: TokenStream, found: &mut Vec<String>) {
    const PANICS: [&str; 6] = ["assert", "assert_eq", "assert_ne", "debug_assert", "panic", "unreachable"];
    let tokens: Vec<_> = tokens.into_iter().collect();
    let word = |at: usize| tokens.get(at).map(ToString::to_string).unwrap_or_default();
    let is_debug = |form: &str| form.split('}').next().is_some_and(|form| form.contains(':') && form.ends_with('?'));
    let mut in_debug_impl = false;
    for (at, token) in tokens.iter().enumerate() {
        let before = |back: usize| at.checked_sub(back).map(word).unwrap_or_default();
        match token {
            TokenTree::Literal(text) if text.to_string().split('{').skip(1).any(is_debug) => {
                found.push(text.to_string())
            }
            TokenTree::Ident(name) if name == "Debug" && word(at + 1) == "for" => in_debug_impl = true,
            TokenTree::Group(group) => {
                let is_panic = before(1) == "!" && PANICS.contains(&before(2).as_str());
                let is_comment = before(1) == "#" && group.stream().to_string().starts_with("doc");
                if !is_panic && !is_comment && !std::mem::take(&mut in_debug_impl) {
                    debug_texts(group.stream(), found);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn messages_contain_no_debug_formatting() {
    let seen =
        "#[error(\"{text:?} is bad\")] struct A; fn f() { format!(\"{} {:#?}\", 1, 2); g(format!(\"{x:>5?}\")) }";
    let mut found = Vec::new();
    debug_texts(seen.parse().expect("it compiles"), &mut found);
    assert_eq!(found.len(), 3, "the scan sees them");
    found.clear();
    // Developers read the messages of fuzzing.
    for (_, text) in sources().into_iter().filter(|(name, _)| !name.starts_with("testing")) {
        debug_texts(text.parse().expect("it compiles"), &mut found);
    }
    assert_eq!(found, NONE);
}

/// The modules at the top of `src` with their floors, as ARCHITECTURE.md has them.
fn floors() -> BTreeMap<String, u32> {
    let text = read("ARCHITECTURE.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?.parse::<u32>().ok()?, cells.next()?))
    });
    let modules = |(floor, names): (u32, &str)| {
        names.split(", ").map(|name| (name.trim_matches('`').to_owned(), floor)).collect::<Vec<_>>()
    };
    rows.flat_map(modules).collect()
}

#[test]
fn modules_import_only_from_lower_floors() {
    let (floors, modules) = (floors(), Modules::of_library());
    let (mut arrows, mut wrong) = (BTreeSet::new(), Vec::new());
    for (user, names) in &modules.0 {
        let floor = *floors.get(top(user)).unwrap_or_else(|| panic!("{user} is on no floor of ARCHITECTURE.md"));
        for path in names.paths.iter().chain(names.handed_on.values()) {
            let Some(&below) = floors.get(top(path)).filter(|_| top(path) != top(user)) else { continue };
            arrows.insert((top(user), top(path)));
            if below >= floor {
                wrong.push(format!("{user} (floor {floor}) uses {path} (floor {below})"));
            }
        }
    }
    assert!(arrows.len() > 60, "the scan finds only {} arrows", arrows.len());
    assert_eq!(wrong, NONE);
}

/// Every program that a test starts gets its environment from one function; what does not run is said by another.
#[test]
fn tests_share_one_start_and_skip_function() {
    let files = [rust_files("src"), rust_files("tests")].concat();
    for (mark, allowed) in
        [(concat!("CARGO_BIN", "_EXE_"), "tests/common/run.rs"), (concat!("\"SKIP", "PED"), "tests/common/skipped.rs")]
    {
        let naming: Vec<_> = files.iter().filter(|path| read(path).contains(mark)).collect();
        assert_eq!(naming, [&root().join(allowed)], "{mark}");
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
    /// Those of the library: main.rs only calls the command line, and lib.rs only lists the modules.
    fn of_library() -> Self {
        Self::of(sources().into_iter().filter(|(name, _)| name != "main.rs" && name != "lib.rs"))
    }

    /// Those of the files with these paths below `src` and these texts.
    fn of(files: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        let parse = |text: &str| syn::parse_file(text).expect("it compiles");
        let files: Vec<_> =
            files.into_iter().map(|(file, text)| (module_of(file.as_ref()), parse(text.as_ref()))).collect();
        let names = |(module, file): &(String, syn::File)| {
            let mut scan =
                Scan { module, all: files.iter().map(|(module, _)| &**module).collect(), names: Names::default() };
            scan.visit_file(file);
            (module.clone(), scan.names)
        };
        Self(files.iter().map(names).collect())
    }

    /// The module that defines what is at `path`, through those that only hand it on.
    fn defining(&self, path: &str) -> Option<&str> {
        let mut ends = std::iter::successors(Some(path), |path| Some(path.rsplit_once("::")?.0));
        let (module, names) = ends.find_map(|path| self.0.get_key_value(path))?;
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

/// Collects the names of one module.
struct Scan<'a> {
    module: &'a str,
    all: BTreeSet<&'a str>,
    names: Names,
}

impl Scan<'_> {
    /// The path from the root, if it begins within the crate.
    fn resolved(&self, path: &[String]) -> Option<String> {
        let is_child = self.all.contains(&*format!("{}::{}", self.module, path[0]));
        let is_own = is_child || ["crate", "self", "super"].contains(&&*path[0]);
        is_own.then(|| resolved(self.module, path))
    }

    fn visit_arguments(&mut self, tokens: TokenStream) {
        let arguments = Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated.parse2(tokens);
        arguments.into_iter().flatten().for_each(|argument| self.visit_expr(&argument));
    }
}

impl<'ast> Visit<'ast> for Scan<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for (path, name) in use_paths(&item.tree) {
            match (self.resolved(&path), &item.vis) {
                (Some(path), syn::Visibility::Inherited) => self.names.paths.push(path),
                (Some(path), _) => drop(self.names.handed_on.insert(name, path)),
                (None, _) => {}
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.names.paths.extend(self.resolved(&segments));
        }
        visit::visit_path(self, path);
    }

    /// The modules of `pub(in path)` are not used.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.visit_arguments(called.tokens.clone());
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.visit_arguments(list.tokens.clone());
    }
}

/// The arrows of a cycle.
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
        ("load/car/read.rs", "use super::super::import;"),
    ];
    let modules = Modules::of(through_a_folder);
    let arrows = modules.arrows(Some);
    assert!(arrows.contains(&("load::import", "load::commit")));
    assert_eq!(on_circles(&arrows), ["load::car::read -> load::import", "load::import -> load::car::read"]);
}

#[test]
fn modules_have_no_import_cycles() {
    // Between folders there is none, because each uses only folders of lower floors.
    let modules = Modules::of_library();
    let within = |folder: &str| modules.arrows(|module| Some(module).filter(|module| top(module) == folder));
    for (folder, least) in [("load", 80), ("source", 40), ("read", 40), ("cli", 40)] {
        let found = within(folder).len();
        assert!(found > least, "the scan finds only {found} arrows in {folder}");
    }
    let folders: BTreeSet<&str> = modules.0.keys().map(|module| top(module)).collect();
    let circles: Vec<String> = folders.iter().flat_map(|folder| on_circles(&within(folder))).collect();
    assert_eq!(circles, NONE);
}

/// The rows of the files of `load` in ARCHITECTURE.md, from the top: which of them has `module`.
fn row(rows: &[BTreeSet<String>], module: &str) -> Option<usize> {
    let file = module.strip_prefix("load::")?.replace("::", "/");
    let is_it = |name: &String| *name == file || (name.ends_with('/') && format!("{file}/").starts_with(name.as_str()));
    Some(rows.iter().position(|row| row.iter().any(is_it)).unwrap_or_else(|| panic!("no row has {file}")))
}

#[test]
fn files_of_load_import_only_downwards() {
    let text = read("ARCHITECTURE.md");
    let rows = text.split("| file of `load` |").nth(1).expect("the table").split("\n\n").next().unwrap_or_default();
    let names = |line: &str| {
        let cell = line.strip_prefix("| ").and_then(|line| line.split(" | ").next()).unwrap_or_default();
        cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<BTreeSet<_>>()
    };
    let rows: Vec<_> = rows.lines().filter(|line| line.starts_with("| `")).map(names).collect();
    assert!(rows.len() > 5, "{rows:?}");
    let is_file = |module: &&str| {
        module.starts_with("load::") && !["load::car", "load::block_log", "load::sink"].contains(module)
    };
    let modules = Modules::of_library();
    let arrows = modules.arrows(|module| Some(module).filter(is_file));
    let upwards = arrows.iter().filter(|(user, used)| row(&rows, user) > row(&rows, used));
    let upwards: Vec<_> = upwards.map(|(user, used)| format!("{user} -> {used}")).collect();
    assert_eq!(upwards, NONE);
}
