//! The public API of the library, as text: it cannot change unnoticed.
//!
//! Taken from the source: public items along public paths, with signatures, public fields, variants, public methods and
//! traits. Hidden modules are left out. `INSTA_UPDATE=always cargo test --release --test all public_api` writes it anew; a
//! line that goes or changes breaks those who use it and needs a new version.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;

use crate::project::{module_of, resolved, sources, use_paths};

/// The items of the modules of the library.
struct Crate(BTreeMap<String, Vec<syn::Item>>);

type Lines = BTreeSet<String>;

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
    /// The item that the module `at` names by `path`, and the module that defines it.
    fn find(&self, at: &str, path: &[String]) -> Option<(&str, &syn::Item)> {
        let (name, above) = path.split_last()?;
        let (there, items) = self.0.get_key_value(&resolved(at, above))?;
        if let Some(item) = items.iter().find(|item| named(item).is_some_and(|(own, _)| own == name)) {
            return Some((there, item));
        }
        let uses = items.iter().filter_map(|item| if let syn::Item::Use(item) = item { Some(item) } else { None });
        let (path, _) = uses.flat_map(|item| use_paths(&item.tree)).find(|(_, known)| known == name)?;
        if path.len() > 1 { self.find(there, &path) } else { None }
    }

    fn print_module(&self, shown: &str, at: &str, lines: &mut Lines) {
        for item in &self.0[at] {
            match item {
                syn::Item::Mod(module) if is_public(&module.vis) && !has(&module.attrs, "doc", "hidden") => {
                    let shown = format!("{shown}::{}", module.ident);
                    lines.insert(format!("mod {shown}"));
                    self.print_module(&shown, &resolved(at, &[module.ident.to_string()]), lines);
                }
                syn::Item::Use(item) if is_public(&item.vis) && !has(&item.attrs, "doc", "hidden") => {
                    for (path, name) in use_paths(&item.tree) {
                        match self.find(at, &path) {
                            Some((there, item)) => self.print_item(&format!("{shown}::{name}"), there, item, lines),
                            None => drop(lines.insert(format!("use {shown}::{name} = {}", path.join("::")))),
                        }
                    }
                }
                _ => {
                    if let Some((name, _)) = named(item) {
                        self.print_item(&format!("{shown}::{name}"), at, item, lines);
                    }
                }
            }
        }
    }

    /// Prints `item` of the module `at` under its public `path`.
    fn print_item(&self, path: &str, at: &str, item: &syn::Item, lines: &mut Lines) {
        if named(item).is_none_or(|(_, visibility)| !is_public(visibility)) {
            return;
        }
        let mut line = |line: String| {
            lines.insert(line);
        };
        match item {
            syn::Item::Fn(item) => line(format!("fn {path}: {}", text(&item.sig))),
            syn::Item::Const(item) => line(format!("const {path}: {}", text(&item.ty))),
            syn::Item::Type(item) => line(format!("type {path} = {}", text(&item.ty))),
            syn::Item::Trait(item) => {
                line(format!("trait {path}: {}", text(&item.supertraits)));
                for item in &item.items {
                    if let syn::TraitItem::Fn(item) = item {
                        let provided = if item.default.is_some() { " { .. }" } else { "" };
                        line(format!("trait {path}: {}{provided}", text(&item.sig)));
                    }
                }
            }
            syn::Item::Struct(item) => {
                line(format!("struct {path}{}{}", text(&item.generics), open(&item.attrs)));
                for (name, field) in item.fields.members().zip(&item.fields).filter(|(_, field)| is_public(&field.vis))
                {
                    line(format!("struct {path}.{}: {}", text(name), text(&field.ty)));
                }
                self.print_impls(path, at, &item.ident, &item.attrs, lines);
            }
            syn::Item::Enum(item) => {
                line(format!("enum {path}{}{}", text(&item.generics), open(&item.attrs)));
                for variant in &item.variants {
                    let value = variant.discriminant.as_ref().map(|(_, value)| format!(" = {}", text(value)));
                    let mut fields = variant.fields.clone();
                    if let syn::Fields::Named(named) = &mut fields {
                        let shown = named.named.iter().filter(|field| !has(&field.attrs, "doc", "hidden")).cloned();
                        named.named = shown.collect();
                    }
                    fields.iter_mut().for_each(|field| field.attrs.clear());
                    line(format!("enum {path}::{} {}{}", variant.ident, text(fields), value.unwrap_or_default()));
                }
                self.print_impls(path, at, &item.ident, &item.attrs, lines);
            }
            _ => {}
        }
    }

    fn print_impls(
        &self,
        path: &str,
        defined: &str,
        name: &syn::Ident,
        attributes: &[syn::Attribute],
        lines: &mut Lines,
    ) {
        let derived = derived(attributes).into_iter().filter(|derived| derived != SETTERS);
        lines.extend(derived.map(|derived| format!("impl {path}: {derived}")));
        for (at, item) in self.0.iter().flat_map(|(at, items)| items.iter().map(move |item| (at, item))) {
            let syn::Item::Impl(item) = item else { continue };
            let syn::Type::Path(own) = &*item.self_ty else { continue };
            let own = &own.path.segments.last().expect("a name").ident;
            if own != name || self.find(at, &[own.to_string()]).is_none_or(|(there, _)| there != defined) {
                continue;
            }
            if let Some((_, of, _)) = &item.trait_ {
                lines.insert(format!("impl {path}: {}", text(of)));
                continue;
            }
            lines.extend(item.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(item) if is_public(&item.vis) => Some(format!("fn {path}: {}", text(&item.sig))),
                syn::ImplItem::Const(item) if is_public(&item.vis) => {
                    Some(format!("const {path}::{}: {}", item.ident, text(&item.ty)))
                }
                _ => None,
            }));
        }
    }
}

/// A derive that adds a method for each field instead of a trait.
const SETTERS: &str = "Setters";

pub fn derived(attributes: &[syn::Attribute]) -> Vec<String> {
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

/// The name and the visibility of an item that can be a part of the API.
fn named(item: &syn::Item) -> Option<(&syn::Ident, &syn::Visibility)> {
    match item {
        syn::Item::Fn(item) => Some((&item.sig.ident, &item.vis)),
        syn::Item::Const(item) => Some((&item.ident, &item.vis)),
        syn::Item::Type(item) => Some((&item.ident, &item.vis)),
        syn::Item::Trait(item) => Some((&item.ident, &item.vis)),
        syn::Item::Struct(item) => Some((&item.ident, &item.vis)),
        syn::Item::Enum(item) => Some((&item.ident, &item.vis)),
        _ => None,
    }
}

#[test]
fn public_api_matches_the_snapshot() {
    // The command line is no part of the library.
    let library = sources().into_iter().filter(|(file, _)| file != "main.rs" && !file.starts_with("cli/"));
    let items = |text: &str| syn::parse_file(text).expect("it compiles").items;
    let modules = library.map(|(file, text)| (module_of(&file), items(&text))).collect();
    let mut lines = Lines::new();
    Crate(modules).print_module("bedload", "", &mut lines);
    let text = Vec::from_iter(lines).join("\n");
    // The listing must contain these items.
    for known in [
        "fn bedload::import: fn import(options: &ImportOptions, observer: &dyn Observer) -> Result<ImportReport>",
        "struct bedload::report::ExportReport.missing: u64",
        "enum bedload::InputKind::Truncated ",
        "impl bedload::RawCid: FromStr",
        "enum bedload::ExportFormat::ForestCarZst ",
    ] {
        assert!(text.lines().any(|line| line == known), "{known} is not seen\n{text}");
    }
    assert!(!text.contains("testing"));
    insta::assert_snapshot!(text);
    assert!(text.lines().count() <= 999, "the library promises more than its callers need");
}
