//! `docs/json.md` describes every document that `--json` prints: its tables are made from the source, and what the
//! program really prints has no field that they lack.
//!
//! `BEDLOAD_WRITE_DOCS=1 cargo test --release --test all documented_json` writes the tables anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::database::{bedload, generate, import};
use proc_macro2::TokenTree;
use serde_json::Value;
use syn::visit::Visit;

use crate::project::public_api::derived;
use crate::project::{read, root, sources};

/// Marks around the text that is generated from the source.
const BEGIN: &str = "<!-- made from the source -->";
const END: &str = "<!-- to here -->";

/// Documents that are structs: heading, schema, struct.
const DOCUMENTS: [(&str, &str, &str); 15] = [
    ("`import`, `seed`, `BEDLOAD.json`, `import --report`", "bedload-import-6", "ImportReport"),
    ("`import --dry-run`", "bedload-plan-2", "Plan"),
    ("`inspect`", "bedload-inspect-3", "InspectReport"),
    ("`verify`", "bedload-verify-4", "VerifyReport"),
    ("`walk`", "bedload-walk-1", "WalkReport"),
    ("`stat`", "bedload-stat-1", "StatReport"),
    ("`export`", "bedload-export-2", "ExportReport"),
    ("`bundle`", "bedload-bundled-1", "BundleReport"),
    ("`bundle.json`", "bedload-bundle-1", "Bundle"),
    ("`generate`", "bedload-generate-1", "Summary"),
    ("`clean`", "bedload-clean-1", "CleanReport"),
    ("`doctor`", "bedload-doctor-4", "DoctorReport"),
    ("`presets explain`", "bedload-preset-explanation-2", "Explanation"),
    ("`--progress json`: samples", "bedload-progress-2", "Sample"),
    ("`--progress json`: events", "bedload-progress-2", "Event"),
];

#[derive(Default)]
struct Types {
    structs: BTreeMap<String, syn::ItemStruct>,
    enums: BTreeMap<String, syn::ItemEnum>,
    /// The values of each enum that `named_enum!` defines.
    named_enums: BTreeMap<String, Vec<String>>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if serializes(&item.attrs) {
            let before = self.structs.insert(item.ident.to_string(), item.clone());
            assert!(before.is_none() || before.as_ref() == Some(item), "two structs are called {}", item.ident);
        }
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if serializes(&item.attrs) {
            self.enums.insert(item.ident.to_string(), item.clone());
        }
    }
    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let tokens: Vec<TokenTree> = item.mac.tokens.clone().into_iter().collect();
        if item.mac.path.is_ident("named_enum")
            && let [.., TokenTree::Ident(name), TokenTree::Group(variants)] = tokens.as_slice()
        {
            let values = variants.stream().into_iter().filter(|token| matches!(token, TokenTree::Literal(_)));
            let values = values.map(|value| value.to_string().replace('"', "`")).collect();
            self.named_enums.insert(name.to_string(), values);
        }
    }
}

fn serializes(attributes: &[syn::Attribute]) -> bool {
    derived(attributes).iter().any(|name| name.ends_with("Serialize"))
}

/// The first paragraph of an item's documentation, without links.
fn doc(attributes: &[syn::Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(value) if value.path.is_ident("doc") => match &value.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let first: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    first.join(" ").replace('|', "\\|")
}

/// The words of `#[serde(..)]`.
fn serde(attributes: &[syn::Attribute]) -> String {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    lists.filter_map(|attribute| Some(attribute.meta.require_list().ok()?.tokens.to_string())).collect()
}

impl Types {
    /// A type in words; structs that it names are added to `parts`.
    fn words(&self, kind: &syn::Type, parts: &mut Vec<String>) -> String {
        let syn::Type::Path(path) = kind else { return "text".into() };
        let segment = path.path.segments.last().expect("a name");
        let mut arguments = Vec::new();
        if let syn::PathArguments::AngleBracketed(list) = &segment.arguments {
            for argument in &list.args {
                if let syn::GenericArgument::Type(kind) = argument {
                    arguments.push(self.words(kind, parts));
                }
            }
        }
        let name = segment.ident.to_string();
        match (name.as_str(), arguments.as_slice()) {
            ("Option", [inner]) => format!("{inner} or null"),
            ("Box", [inner]) => inner.clone(),
            ("Vec", [inner]) => format!("list of {inner}"),
            ("BTreeMap", [key, value]) => format!("object: {value} for each {key}"),
            ("u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64", _) => "integer".into(),
            ("f64", _) => "number".into(),
            ("bool", _) => "boolean".into(),
            ("String" | "Key" | "Origin" | "Release", _) => "text".into(),
            ("Cid", _) => "CID".into(),
            ("ContentDigest", _) => "32 hex digits".into(),
            ("Value", _) => "any".into(),
            ("Map", _) => "object".into(),
            ("ImportReport", _) => "object, as of `import`".into(),
            _ if self.enums.contains_key(&name) => self.choices(&name),
            _ if self.named_enums.contains_key(&name) => self.named_enums[&name].join(", "),
            _ => {
                assert!(self.structs.contains_key(&name), "{name} is not known here");
                if !parts.contains(&name) {
                    parts.push(name.clone());
                }
                format!("{name}, below")
            }
        }
    }

    fn choices(&self, name: &str) -> String {
        let item = &self.enums[name];
        let renamed = serde(&item.attrs);
        let name = |variant: &syn::Variant| {
            let own = serde(&variant.attrs);
            let own = own.split('"').nth(1).map(str::to_owned);
            own.unwrap_or_else(|| cased(&variant.ident.to_string(), &renamed))
        };
        item.variants.iter().map(|variant| format!("`{}`", name(variant))).collect::<Vec<_>>().join(", ")
    }

    fn table(&self, name: &str, parts: &mut Vec<String>) -> String {
        let mut text = "| field | type | meaning |\n|---|---|---|\n".to_owned();
        if self.enums.contains_key(name) {
            return text + &self.variants(name, parts);
        }
        for field in &self.structs[name].fields {
            let how = serde(&field.attrs);
            if how.contains("flatten")
                && let syn::Type::Path(path) = &field.ty
                && let Some(name) = path.path.get_ident().map(ToString::to_string)
            {
                match self.enums.contains_key(&name) {
                    true => text += &self.variants(&name, parts),
                    false => text += self.table(&name, parts).split_once("|---|---|---|\n").expect("a table").1,
                }
                continue;
            }
            let mut kind =
                if how.contains("serialize_with") { "list of text".into() } else { self.words(&field.ty, parts) };
            if how.contains("skip_serializing_if") {
                kind = format!("{}; left out when there is none", kind.trim_end_matches(" or null"));
            }
            let name = field.ident.as_ref().expect("a name");
            let meaning = doc(&field.attrs);
            let meaning = if name == "schema" { "Name and version of this document.".into() } else { meaning };
            text += &format!("| `{name}` | {kind} | {meaning} |\n");
        }
        text
    }

    /// The variants of an enum whose tag is a field, and what each has beside it.
    fn variants(&self, name: &str, parts: &mut Vec<String>) -> String {
        let item = &self.enums[name];
        let how = serde(&item.attrs);
        let tag = how.split_once("tag = \"").and_then(|(_, rest)| rest.split('"').next()).expect("a tag");
        let mut text = String::new();
        for variant in &item.variants {
            let fields: Vec<String> = variant
                .fields
                .iter()
                .map(|field| format!("`{}` ({})", field.ident.as_ref().expect("a name"), self.words(&field.ty, parts)))
                .collect();
            let with = if fields.is_empty() { "text".into() } else { format!("with {}", fields.join(", ")) };
            let value = cased(&variant.ident.to_string(), &how);
            text += &format!("| `{tag}`: `{value}` | {with} | {} |\n", doc(&variant.attrs));
        }
        text
    }

    fn document(&self) -> String {
        let mut text = String::new();
        for (heading, schema, name) in DOCUMENTS {
            let mut parts = Vec::new();
            let table = self.table(name, &mut parts);
            // Fields that are printed in addition to those of the struct.
            let mut around = String::new();
            if !table.contains("| `schema` |") {
                around.push_str("| `schema` | text | Name and version of this document. |\n");
            }
            if schema == "bedload-progress-2" {
                around.push_str(&format!("| `type` | text | `{}`. |\n", name.to_lowercase()));
            }
            let table = table.replacen("|---|---|---|\n", &format!("|---|---|---|\n{around}"), 1);
            text += &format!("\n## {heading}\n\n`schema`: `{schema}`\n\n{table}");
            let mut at = 0;
            while let Some(part) = parts.get(at).cloned() {
                text +=
                    &format!("\n**{part}**: {}\n\n{}", doc(&self.structs[&part].attrs), self.table(&part, &mut parts));
                at += 1;
            }
        }
        let link = text.lines().find(|line| line.contains("[`"));
        assert_eq!(link, None, "a link to an item of the source leads nowhere here");
        text
    }
}

fn cased(name: &str, how: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at > 0 && letter.is_uppercase() && !how.contains("\"lowercase\"") {
            text.push(if how.contains("kebab") { '-' } else { '_' });
        }
        text.extend(letter.to_lowercase());
    }
    text
}

const PAGE: &str = "docs/json.md";

#[test]
fn json_tables_match_the_source() {
    let text = read(PAGE);
    let (before, rest) = text.split_once(BEGIN).expect("where the tables begin");
    let (tables, after) = rest.split_once(END).expect("where they end");
    let mut types = Types::default();
    sources().iter().for_each(|(_, text)| types.visit_file(&syn::parse_file(text).expect("it compiles")));
    let made = format!("\n{}\n", types.document());
    if std::env::var_os("BEDLOAD_WRITE_DOCS").is_some() {
        std::fs::write(root().join(PAGE), format!("{before}{BEGIN}{made}{END}{after}")).expect("write docs/json.md");
        return;
    }
    assert!(tables == made, "docs/json.md is not what the source says: BEDLOAD_WRITE_DOCS=1 writes it anew");
}

/// Names of fields in the section of a schema.
fn documented(text: &str, schema: &str) -> BTreeSet<String> {
    let sections = text.split("\n## ").filter(|section| section.contains(&format!("`{schema}`")));
    let rows = sections.flat_map(|section| section.lines().filter_map(|line| line.strip_prefix("| `")));
    let names = rows.flat_map(|row| {
        // Fields of an event stand in its second column.
        let own = row.split('`').next().map(str::to_owned);
        let with = row.split(" | ").nth(1).filter(|column| column.starts_with("with ")).unwrap_or_default();
        own.into_iter().chain(with.split('`').skip(1).step_by(2).map(str::to_owned)).collect::<Vec<_>>()
    });
    names.collect()
}

/// Fields whose content is another's.
const FREE: [&str; 9] = ["event", "sample", "record", "seconds", "difference", "kinds", "block", "import", "dag-json"];

fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                if !FREE.contains(&name.as_str()) {
                    fields(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, found)),
        _ => {}
    }
}

#[test]
fn printed_json_has_only_documented_fields() {
    let text = read(PAGE);
    let dir = tempfile::tempdir().expect("a directory");
    let car = generate(dir.path(), "2MiB");
    let db = import(dir.path(), &car, &[]);
    let (car, db) = (car.to_str().expect("text"), db.to_str().expect("text"));
    let other = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (db2, db3, out, made) = (other("db2"), other("db3"), other("out.car"), other("made.car"));
    let (here, bundles, db5) = (other(""), other("bundles"), other("db5"));
    let absent = "bafkreifw7plhl6mofk6sfvhnfh64qmkq73oeqwl6sloru6rehaoujituke";
    let mut seen = BTreeSet::new();
    let mut check = |schema: &str, document: &Value| {
        assert_eq!(document["schema"], schema, "{document}");
        let known = documented(&text, schema);
        let mut found = BTreeSet::new();
        fields(document, &mut found);
        let unknown: Vec<_> = found.difference(&known).collect();
        assert!(unknown.is_empty(), "docs/json.md does not know these fields of {schema}: {unknown:?}");
        seen.insert(schema.to_owned());
    };
    for (schema, code, args) in [
        ("bedload-import-6", 0, &["import", car, "--db", &db2][..]),
        ("bedload-import-6", 0, &["import", car, "--db", &db3, "--preset", "memtable", "--key", "digest"]),
        ("bedload-plan-2", 0, &["import", car, "--db", "nowhere", "--dry-run", "--preset", "memtable"]),
        ("bedload-inspect-3", 0, &["inspect", "--full", car]),
        ("bedload-verify-4", 0, &["verify", "--db", db, "--against", car]),
        ("bedload-walk-1", 3, &["walk", "--db", db, "--root", absent]),
        ("bedload-get-1", 1, &["get", "--db", db, absent]),
        ("bedload-stat-1", 0, &["stat", "--digest", "--db", db]),
        ("bedload-export-2", 0, &["export", "--db", db, &out]),
        ("bedload-bundled-1", 0, &["bundle", db, "--to", &bundles]),
        ("bedload-import-6", 0, &["seed", &bundles, "--db", &db5]),
        ("bedload-generate-1", 0, &["generate", "--size", "1MiB", &made]),
        ("bedload-doctor-4", 0, &["doctor", "--dir", &here, car]),
        ("bedload-clean-1", 0, &["clean", &here]),
        ("bedload-presets-2", 0, &["presets", "list"]),
        ("bedload-preset-1", 0, &["presets", "show", "ingest"]),
        ("bedload-preset-explanation-2", 0, &["presets", "explain", "ingest", "--set", "node.table.block_size=32K"]),
        ("bedload-preset-diff-1", 0, &["presets", "diff", "ingest", "memtable"]),
        ("bedload-error-1", 4, &["stat", "--db", "/nowhere"]),
    ] {
        let output = bedload().args(args).arg("--json").output().expect("run");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        let of_a_line = usize::from(text.starts_with("{\"schema\":"));
        assert_eq!(text.matches("\n  \"schema\": ").count() + of_a_line, 1, "{args:?}: {text}");
        check(schema, &serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}")));
    }
    let id = std::fs::read_to_string(Path::new(&bundles).join("latest")).expect("a pointer");
    let described = std::fs::read(Path::new(&bundles).join(id.trim()).join("bundle.json")).expect("a bundle");
    check("bedload-bundle-1", &serde_json::from_slice(&described).expect("JSON"));
    let output = bedload().args(["inspect", "--list", car]).output().expect("run");
    for line in String::from_utf8(output.stdout).expect("text").lines().take(5) {
        check("bedload-list-1", &serde_json::from_str(line).expect("JSON"));
    }
    // An explicit --progress goes before --quiet.
    for (schema, args) in [
        ("bedload-progress-2", &["import", car, "--quiet", "--progress", "json", "--db", &other("db4")][..]),
        ("bedload-progress-2", &["verify", "--progress", "json", "--db", db]),
        ("bedload-log-1", &["verify", "--log-format", "json", "--db", db]),
    ] {
        let output = crate::common::run::program().args(args).output().expect("run");
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(!text.is_empty(), "{args:?}");
        text.lines().for_each(|line| check(schema, &serde_json::from_str(line).expect("JSON")));
    }
    // Every schema that the page names has been seen.
    let is_schema = |word: &&str| {
        word.strip_prefix("bedload-").and_then(|it| it.rsplit('-').next()).is_some_and(|it| it.parse::<u32>().is_ok())
    };
    assert_eq!(text.split('`').filter(is_schema).map(str::to_owned).collect::<BTreeSet<_>>(), seen);
}
