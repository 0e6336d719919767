//! The public API of the library, as text: it cannot change unnoticed.
//!
//! Taken from the source: public items along public paths, with signatures, public fields, variants, public methods and
//! traits. Hidden modules are left out. `INSTA_UPDATE=always cargo test --release --test project public_api` writes it anew; a
//! line that goes or changes breaks those who use it and needs a new version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quote::ToTokens;

use crate::{read, root};

/// A path of modules, from the root on.
type At = Vec<String>;

#[derive(Default)]
struct Crate {
    modules: BTreeMap<At, Vec<syn::Item>>,
    lines: BTreeSet<String>,
    /// Printed items, each with its path.
    done: BTreeSet<(At, String)>,
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn has(attributes: &[syn::Attribute], name: &str, word: &str) -> bool {
    let found = attributes.iter().filter(|attribute| attribute.path().is_ident(name));
    found.into_iter().any(|attribute| attribute.meta.to_token_stream().to_string().contains(word))
}

/// Tokens as people write them.
fn text(tokens: impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for mark in " :: | ::| < | <|< | >| ,| (|( | )| :|& | ;|' |[ | ]".split('|') {
        text = text.replace(mark, mark.trim());
    }
    text.replace("->", "-> ").replace("->  ", "-> ").replace(",)", ")")
}

impl Crate {
    fn load(&mut self, at: At, items: Vec<syn::Item>, dir: &Path) {
        for item in &items {
            let syn::Item::Mod(module) = item else { continue };
            if has(&module.attrs, "cfg", "test") || module.ident == "cli" {
                continue;
            }
            let name = module.ident.to_string();
            let below = [at.clone(), vec![name.clone()]].concat();
            match &module.content {
                Some((_, items)) => self.load(below, items.clone(), &dir.join(&name)),
                None => {
                    let file = [dir.join(format!("{name}.rs")), dir.join(&name).join("mod.rs")];
                    let file = file.iter().find(|file| file.is_file()).unwrap_or_else(|| panic!("no file of {name}"));
                    self.load(below, parse(file), &dir.join(&name));
                }
            }
        }
        self.modules.insert(at, items);
    }

    /// Resolves a path used in the module `at`, and returns its target and last name.
    fn resolve(&self, at: &At, path: &[String]) -> Option<(At, String)> {
        let (name, path) = path.split_last()?;
        let mut here = at.clone();
        for (number, segment) in path.iter().enumerate() {
            match segment.as_str() {
                "crate" if number == 0 => here.clear(),
                "self" if number == 0 => {}
                "super" => drop(here.pop()),
                _ => here.push(segment.clone()),
            }
        }
        self.modules.contains_key(&here).then(|| (here, name.clone()))
    }

    /// The module that defines `name` as used in `at`.
    fn origin(&self, at: &At, name: &str, depth: usize) -> Option<At> {
        let items = self.modules.get(at)?;
        if items.iter().any(|item| name_of(item).is_some_and(|it| it == name)) {
            return Some(at.clone());
        }
        let uses = items.iter().filter_map(|item| if let syn::Item::Use(item) = item { Some(item) } else { None });
        let mut paths = uses.flat_map(|item| paths(&item.tree)).filter(|(_, known)| known == name);
        let (path, _) = paths.next()?;
        let (there, name) = self.resolve(at, &path)?;
        if depth == 0 { None } else { self.origin(&there, &name, depth - 1) }
    }

    fn print_module(&mut self, shown: &str, at: &At) {
        for item in self.modules.get(at).cloned().unwrap_or_default() {
            match &item {
                syn::Item::Mod(module) if is_public(&module.vis) && !has(&module.attrs, "doc", "hidden") => {
                    let below = [at.clone(), vec![module.ident.to_string()]].concat();
                    self.lines.insert(format!("mod {shown}::{}", module.ident));
                    self.print_module(&format!("{shown}::{}", module.ident), &below);
                }
                syn::Item::Use(item) if is_public(&item.vis) && !has(&item.attrs, "doc", "hidden") => {
                    for (path, name) in paths(&item.tree) {
                        let found = self.resolve(at, &path).and_then(|(there, own)| {
                            let there = self.origin(&there, &own, 8)?;
                            let mut items = self.modules[&there].iter();
                            let item = items.find(|item| name_of(item).as_deref() == Some(&*own))?.clone();
                            Some((there, item))
                        });
                        match found {
                            Some((there, item)) => self.print_item(&format!("{shown}::{name}"), &there, &item),
                            None => drop(self.lines.insert(format!("use {shown}::{name} = {}", path.join("::")))),
                        }
                    }
                }
                _ => {
                    if let Some(name) = name_of(&item) {
                        self.print_item(&format!("{shown}::{name}"), at, &item);
                    }
                }
            }
        }
    }

    /// Prints `item` of the module `at` under its public `path`.
    fn print_item(&mut self, path: &str, at: &At, item: &syn::Item) {
        let Some(name) = name_of(item) else { return };
        if !self.done.insert((at.clone(), path.to_owned())) {
            return;
        }
        let mut line = |line: String| {
            self.lines.insert(line);
        };
        match item {
            syn::Item::Fn(item) if is_public(&item.vis) => line(format!("fn {path}: {}", text(&item.sig))),
            syn::Item::Const(item) if is_public(&item.vis) => line(format!("const {path}: {}", text(&item.ty))),
            syn::Item::Type(item) if is_public(&item.vis) => line(format!("type {path} = {}", text(&item.ty))),
            syn::Item::Trait(item) if is_public(&item.vis) => {
                line(format!("trait {path}: {}", text(&item.supertraits)));
                for item in &item.items {
                    if let syn::TraitItem::Fn(item) = item {
                        let provided = if item.default.is_some() { " { .. }" } else { "" };
                        line(format!("trait {path}: {}{provided}", text(&item.sig)));
                    }
                }
            }
            syn::Item::Struct(item) if is_public(&item.vis) => {
                line(format!("struct {path}{}{}", text(&item.generics), open(&item.attrs)));
                for (number, field) in item.fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis)) {
                    let name = field.ident.as_ref().map_or(number.to_string(), ToString::to_string);
                    line(format!("struct {path}.{name}: {}", text(&field.ty)));
                }
                self.print_impls(path, at, &name, &item.attrs);
            }
            syn::Item::Enum(item) if is_public(&item.vis) => {
                line(format!("enum {path}{}{}", text(&item.generics), open(&item.attrs)));
                for variant in &item.variants {
                    let value = variant.discriminant.as_ref().map(|(_, value)| format!(" = {}", text(value)));
                    let mut fields = variant.fields.clone();
                    fields.iter_mut().for_each(|field| field.attrs.clear());
                    line(format!("enum {path}::{} {}{}", variant.ident, text(fields), value.unwrap_or_default()));
                }
                self.print_impls(path, at, &name, &item.attrs);
            }
            _ => {}
        }
    }

    fn print_impls(&mut self, path: &str, defined: &At, name: &str, attributes: &[syn::Attribute]) {
        for derived in derived(attributes).into_iter().filter(|derived| derived != SETTERS) {
            self.lines.insert(format!("impl {path}: {derived}"));
        }
        let mut found = Vec::new();
        for (at, items) in &self.modules {
            for item in items {
                let syn::Item::Impl(item) = item else { continue };
                let syn::Type::Path(own) = &*item.self_ty else { continue };
                let own = own.path.segments.last().expect("a name").ident.to_string();
                if own != name || self.origin(at, &own, 8).as_ref() != Some(defined) {
                    continue;
                }
                if let Some((_, of, _)) = &item.trait_ {
                    found.push(format!("impl {path}: {}", text(of)));
                    continue;
                }
                for item in &item.items {
                    match item {
                        syn::ImplItem::Fn(item) if is_public(&item.vis) => {
                            found.push(format!("fn {path}: {}", text(&item.sig)));
                        }
                        syn::ImplItem::Const(item) if is_public(&item.vis) => {
                            found.push(format!("const {path}::{}: {}", item.ident, text(&item.ty)));
                        }
                        _ => {}
                    }
                }
            }
        }
        self.lines.extend(found);
    }
}

/// A derive that adds a method for each field instead of a trait.
const SETTERS: &str = "Setters";

fn derived(attributes: &[syn::Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let lists = lists.map(|attribute| attribute.meta.require_list().expect("a list").tokens.to_string());
    let names = lists.flat_map(|list| list.split(',').map(|name| name.replace(' ', "")).collect::<Vec<_>>());
    names.filter(|name| !name.is_empty()).collect()
}

fn open(attributes: &[syn::Attribute]) -> &'static str {
    match attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive")) {
        true if derived(attributes).iter().any(|name| name == SETTERS) => " (more may come; each field has a setter)",
        true => " (more may come)",
        false => "",
    }
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Const(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The paths of a `use`, and the name of each here.
fn paths(tree: &syn::UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        syn::UseTree::Path(path) => {
            let below = paths(&path.tree).into_iter();
            below.map(|(rest, name)| ([vec![path.ident.to_string()], rest].concat(), name)).collect()
        }
        syn::UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        syn::UseTree::Rename(name) => vec![(vec![name.ident.to_string()], name.rename.to_string())],
        syn::UseTree::Glob(_) => vec![(vec!["*".into()], "*".into())],
        syn::UseTree::Group(group) => group.items.iter().flat_map(paths).collect(),
    }
}

fn parse(file: &Path) -> Vec<syn::Item> {
    syn::parse_file(&read(file)).expect("it compiles").items
}

#[test]
fn public_api_matches_the_snapshot() {
    let src = root().join("src");
    let mut all = Crate::default();
    all.load(Vec::new(), parse(&src.join("lib.rs")), &src);
    all.print_module("bedload", &Vec::new());
    let text = all.lines.iter().cloned().collect::<Vec<_>>().join("\n");
    // The listing must contain these items.
    for known in [
        "fn bedload::import: fn import(options: &ImportOptions, observer: &dyn Observer) -> Result<Outcome>",
        "struct bedload::report::WalkReport.missing: u64",
        "fn bedload::Error: fn hint(&self) -> String",
        "enum bedload::Exit::BadInput  = 3",
        "impl bedload::RawCid: FromStr",
        "enum bedload::ExportFormat::ForestCarZst ",
    ] {
        assert!(text.lines().any(|line| line == known), "{known} is not seen\n{text}");
    }
    assert!(!text.contains("testing"));
    insta::assert_snapshot!(text);
    assert!(text.lines().count() <= 1040, "the library promises more than its callers need");
}
