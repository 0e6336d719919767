//! `docs/errors.md` lists every error there is, and none that is not: the messages are taken from the source.
//!
//! Each row is the message of a variant of an error enum, or the reason of an error that has its own text (`State`,
//! `Usage`). Variable parts are written as `…`.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::visit::{self, Visit};

use crate::project::{read, sources};

/// Variants whose message is words that are made where they arise.
const OWN_WORDS: [&str; 2] = ["State", "Usage"];

/// Functions that make such a variant, and the place of the reason among their arguments.
const CONSTRUCTORS: [(&str, usize); 4] =
    [("Error :: usage", 0), ("Error :: state", 2), ("Error :: limit", 1), ("StatedProblem :: new", 1)];

/// Functions of some files that pass a reason on.
const MAKERS: [(&str, &str, usize); 6] = [
    ("load/record_streams.rs", "damaged", 0),
    ("load/validate.rs", "refuse", 0),
    ("source/records/", "damaged", 0),
    ("source/records/", "fault", 1),
    ("source/records/", "text_fault", 1),
    ("source/records/", "wrong", 0),
];

/// Messages by where they are made.
#[derive(Default)]
struct Messages {
    found: BTreeMap<String, BTreeSet<String>>,
    /// The current position of the visitor.
    file: String,
    /// True inside of one of the [`MAKERS`].
    is_maker: bool,
    /// Bodies of the functions around.
    bodies: Vec<syn::Block>,
    kinds: BTreeSet<String>,
}

impl Messages {
    fn add(&mut self, text: &str) {
        self.found.entry(shown(text)).or_default().insert(self.file.clone());
    }

    /// Adds the words of a reason, or those that the function around gives to it.
    fn add_reason(&mut self, reason: &syn::Expr, made: &str) {
        let mut found = words(reason);
        if found.is_empty() {
            found = self.bodies.last().map(words_of_reason).unwrap_or_default();
            assert!(!found.is_empty(), "{}: this scan cannot tell what this {made} says", self.file);
        }
        found.iter().for_each(|text| self.add(text));
    }
}

/// A format string with `…` for what it fills in.
fn shown(format: &str) -> String {
    let mut text = String::new();
    let mut chars = format.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '{' if chars.peek() == Some(&'{') => text.extend(chars.next()),
            '{' => {
                chars.by_ref().find(|&it| it == '}');
                if !text.ends_with('…') {
                    text.push('…');
                }
            }
            '}' => text.extend(chars.next()),
            _ => text.push(next),
        }
    }
    text.replace('|', "\\|")
}

/// The text that the tokens begin with.
fn first_literal(tokens: &proc_macro2::TokenStream) -> Option<String> {
    Some(syn::parse2::<syn::LitStr>(tokens.clone().into_iter().next()?.into()).ok()?.value())
}

/// The words in an expression: its literals, and those of format macros.
fn words(expression: &syn::Expr) -> Vec<String> {
    struct Words(Vec<String>);
    impl<'ast> Visit<'ast> for Words {
        fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
            self.0.push(literal.value());
        }
        fn visit_macro(&mut self, called: &'ast syn::Macro) {
            self.0.extend(first_literal(&called.tokens));
        }
        fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
            // A format string that joins parts is no message.
            if call.method != "join" {
                visit::visit_expr_method_call(self, call);
            }
        }
    }
    let mut words = Words(Vec::new());
    words.visit_expr(expression);
    words.0
}

/// The values that a function gives to a variable `reason`, and the first arguments of closures and functions that take
/// one.
fn words_of_reason(body: &syn::Block) -> Vec<String> {
    struct Reasons {
        words: Vec<String>,
        makers: BTreeSet<String>,
    }
    impl<'ast> Visit<'ast> for Reasons {
        fn visit_local(&mut self, local: &'ast syn::Local) {
            let name = match &local.pat {
                syn::Pat::Ident(name) => name.ident.to_string(),
                _ => String::new(),
            };
            if let Some(init) = &local.init {
                if name == "reason" {
                    self.words.extend(words(&init.expr));
                }
                if matches!(&*init.expr, syn::Expr::Closure(_)) {
                    self.makers.insert(name);
                }
            }
            visit::visit_local(self, local);
        }
        fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
            if let syn::Expr::Path(path) = &*call.func
                && path.path.get_ident().is_some_and(|name| self.makers.contains(&name.to_string()))
                && let Some(first) = call.args.first()
            {
                self.words.extend(words(first));
            }
            visit::visit_expr_call(self, call);
        }
    }
    let mut reasons = Reasons { words: Vec::new(), makers: BTreeSet::new() };
    reasons.visit_block(body);
    reasons.words
}

impl<'ast> Visit<'ast> for Messages {
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for variant in item.variants.iter().filter(|variant| !OWN_WORDS.contains(&variant.ident.to_string().as_str())) {
            for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("error")) {
                let syn::Meta::List(list) = &attribute.meta else { continue };
                first_literal(&list.tokens).iter().for_each(|text| self.add(text));
            }
            if item.ident == "ProblemKind" {
                self.kinds.insert(variant.ident.to_string().to_lowercase());
            }
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let is_it = |(file, name, _): &(&str, &str, usize)| self.file.starts_with(file) && item.sig.ident == name;
        self.is_maker = MAKERS.iter().any(is_it);
        self.bodies.push((*item.block).clone());
        visit::visit_item_fn(self, item);
        self.bodies.pop();
        self.is_maker = false;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        // The constructors themselves have no words.
        if self.file.ends_with("error.rs") && ["usage", "state", "limit"].iter().any(|name| item.sig.ident == name) {
            return;
        }
        self.bodies.push(item.block.clone());
        visit::visit_impl_item_fn(self, item);
        self.bodies.pop();
    }

    fn visit_expr_struct(&mut self, made: &'ast syn::ExprStruct) {
        let variant = made.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if OWN_WORDS.contains(&variant.as_str()) {
            for field in
                made.fields.iter().filter(|field| matches!(&field.member, syn::Member::Named(name) if name == "reason"))
            {
                self.add_reason(&field.expr, &variant);
            }
        }
        visit::visit_expr_struct(self, made);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let called = call.func.to_token_stream().to_string();
        let place = CONSTRUCTORS.iter().find(|(name, _)| *name == called).map(|(_, place)| *place);
        let is_here = |file: &str| self.file.starts_with(file) && !self.is_maker;
        let maker = MAKERS.iter().find(|(file, name, _)| is_here(file) && *name == called);
        let place = place.filter(|_| !self.is_maker).or_else(|| maker.map(|(.., place)| *place));
        if let Some(reason) = place.and_then(|place| call.args.get(place)) {
            self.add_reason(reason, &called);
        }
        visit::visit_expr_call(self, call);
    }
}

/// The rows of all tables: the message, its cause, its remedy.
fn rows() -> Vec<[String; 3]> {
    let text = read("docs/errors.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let parts = |row: &str| {
        // A message with backticks is written between double backticks.
        let (row, end) = row.strip_prefix('`').map_or((row, "` | "), |row| (row, "`` | "));
        let (message, rest) = row.split_once(end).unwrap_or_else(|| panic!("no message: {row}"));
        let (cause, remedy) = rest.split_once(" | ").unwrap_or_else(|| panic!("no remedy: {row}"));
        [message, cause, remedy].map(|part| part.trim().to_owned())
    };
    rows.map(parts).collect()
}

#[test]
fn every_error_has_cause_and_remedy() {
    let mut messages = Messages::default();
    for (name, text) in sources() {
        messages.file = name;
        messages.visit_file(&syn::parse_file(&text).expect("it compiles"));
    }
    // The scan sees anything.
    for known in ["cannot read …", "the snapshot ends inside …", "the output already exists", "…: … found"] {
        let found = messages.found.keys().any(|message| message.contains(known) || known.contains(message.as_str()));
        assert!(found, "{known} was not seen");
    }
    assert!(messages.found.len() > 60 && messages.kinds.contains("checksum"), "{} messages", messages.found.len());
    assert_eq!(shown("a {b:?} {{c}} {d}{e}"), "a … {c} …");

    let rows = rows();
    let listed: BTreeSet<&String> = rows.iter().map(|[message, ..]| message).collect();
    let known: BTreeSet<&String> = messages.found.keys().chain(&messages.kinds).collect();
    let missing: Vec<String> =
        known.difference(&listed).map(|message| format!("{message}    ({:?})", messages.found.get(*message))).collect();
    assert!(missing.is_empty(), "docs/errors.md lacks these errors:\n{}", missing.join("\n"));
    let outdated: Vec<_> = listed.difference(&known).collect();
    assert!(outdated.is_empty(), "docs/errors.md lists what no source says: {outdated:#?}");
    assert_eq!(listed.len(), rows.len(), "docs/errors.md lists an error twice");
    for [message, cause, remedy] in &rows {
        assert!(cause.len() > 10 && remedy.len() > 5, "{message} has no cause or no remedy");
    }
}
