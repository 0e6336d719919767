//! What is compared: presets, times every combination of the values that vary.

use crate::error::{Error, Result};
use crate::preset::{self, Overrides, Preset, Resolved};
use crate::rocks::option_map::Group;
use crate::text::size;

/// The most variants that are compared; more is a mistake.
const MAX_VARIANTS: usize = 256;

/// What may be set without a dot in its name: the import's own arguments.
pub const ARGUMENTS: [&str; 7] = ["memory", "threads", "plan", "key", "verify", "column-family", "max-block-size"];

/// RocksDB's own block cache, in bytes, for presets that name none.
const DEFAULT_BLOCK_CACHE: u64 = 32 << 20;

/// One of the things compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Its name: the preset, and what sets it apart from its siblings.
    pub name: String,
    /// The preset as it was named.
    pub preset: String,
    /// What is set on top of it, as `stage.scope.option=value`.
    pub set: Vec<String>,
    /// What the import is given besides, as `name=value`.
    pub arguments: Vec<String>,
}

/// A list of values for one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    /// `stage.scope.option`, or an argument of the import.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
}

impl Vary {
    /// Reads `load.cf.write_buffer_size=32M,64M,256M`.
    ///
    /// # Errors
    /// [`Error::Usage`]: there is no name, or no value.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::Usage {
            reason: format!("`--vary {text}` names no option or no values"),
            hint: "write it as --vary load.cf.write_buffer_size=32M,64M,256M".into(),
        };
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

/// Every preset with every combination of the values that vary; `set` holds for all.
///
/// # Errors
/// [`Error::Usage`]: nothing to compare, too much of it, the same twice, or an argument the import does not have.
pub fn variants(presets: &[String], set: &[String], vary: &[Vary]) -> Result<Vec<Variant>> {
    let mut all: Vec<Variant> = presets
        .iter()
        .map(|preset| Variant { name: preset.clone(), preset: preset.clone(), set: Vec::new(), arguments: Vec::new() })
        .collect();
    for variant in &mut all {
        for assignment in set {
            variant.add(assignment)?;
        }
    }
    for Vary { key, values } in vary {
        let short = key.rsplit('.').next().unwrap_or(key);
        let mut more = Vec::new();
        for (variant, value) in all.iter().flat_map(|variant| values.iter().map(move |value| (variant, value))) {
            let mut variant = variant.clone();
            variant.name = format!("{} {short}={value}", variant.name);
            variant.add(&format!("{key}={value}"))?;
            more.push(variant);
        }
        all = more;
        if all.len() > MAX_VARIANTS {
            return Err(Error::Usage {
                reason: format!("these are {} variants or more", all.len()),
                hint: format!("compare up to {MAX_VARIANTS} at once: name fewer --presets or --vary fewer values"),
            });
        }
    }
    for (index, variant) in all.iter().enumerate() {
        if all.iter().take(index).any(|other| other.name == variant.name) {
            return Err(Error::Usage {
                reason: format!("`{}` is there twice", variant.name),
                hint: "name each preset and each value once".into(),
            });
        }
    }
    if all.is_empty() {
        return Err(Error::Usage {
            reason: "there is nothing to compare".into(),
            hint: "name presets: --presets ingest,memtable (`bedload presets list` has all)".into(),
        });
    }
    Ok(all)
}

impl Variant {
    fn add(&mut self, assignment: &str) -> Result<()> {
        let name = assignment.split('=').next().unwrap_or_default().trim();
        if name.contains('.') {
            self.set.push(assignment.to_owned());
            return Ok(());
        }
        if ARGUMENTS.contains(&name) && assignment.contains('=') {
            self.arguments.push(assignment.to_owned());
            return Ok(());
        }
        Err(Error::Usage {
            reason: format!(
                "`{assignment}` is neither an option (stage.scope.option=value) nor an argument of the import"
            ),
            hint: format!("without dots there are: {}", ARGUMENTS.join(", ")),
        })
    }

    /// The preset with what is set, checked against RocksDB.
    ///
    /// # Errors
    /// [`Error::Preset`], [`Error::Usage`] or [`Error::Io`]: there is no such preset, or RocksDB does not take a value.
    pub fn resolve(&self) -> Result<Resolved> {
        let overrides = Overrides { set: self.set.clone(), ..Overrides::default() };
        preset::resolve(&Preset::find(&self.preset)?, &overrides)
    }

    /// The words behind `bedload import`.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--preset".to_owned(), self.preset.clone()];
        words.extend(self.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        for argument in &self.arguments {
            if let Some((name, value)) = argument.split_once('=') {
                words.extend([format!("--{}", name.trim()), value.trim().to_owned()]);
            }
        }
        words
    }
}

/// The block cache that a node with these options has, in bytes.
pub(super) fn block_cache(resolved: &Resolved) -> u64 {
    let map = resolved.node();
    let named = map.get(Group::Table, "block_cache").and_then(|value| size::parse(value).ok());
    named.unwrap_or(DEFAULT_BLOCK_CACHE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|&it| it.to_owned()).collect()
    }

    #[test]
    fn values_that_vary_multiply_the_list() {
        let vary =
            [Vary::parse("node.table.block_size=4K,16K").expect("good"), Vary::parse("memory=1G,2G").expect("good")];
        let all =
            variants(&strings(&["ingest", "memtable"]), &strings(&["node.cf.num_levels=7"]), &vary).expect("good");
        let names: Vec<&str> = all.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(
            &names[..3],
            ["ingest block_size=4K memory=1G", "ingest block_size=4K memory=2G", "ingest block_size=16K memory=1G"]
        );
        assert_eq!(
            all[7].words().join(" "),
            "--preset memtable --set node.cf.num_levels=7 --set node.table.block_size=16K --memory 2G"
        );
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let refused = |presets: &[&str], set: &[&str], vary: &[&str]| {
            let vary: Result<Vec<Vary>> = vary.iter().map(|text| Vary::parse(text)).collect();
            vary.and_then(|vary| variants(&strings(presets), &strings(set), &vary)).expect_err("refused").to_string()
        };
        assert_eq!(refused(&[], &[], &[]), "there is nothing to compare");
        assert_eq!(refused(&["ingest", "ingest"], &[], &[]), "`ingest` is there twice");
        assert_eq!(refused(&["ingest"], &[], &["memory=1G,1G"]), "`ingest memory=1G` is there twice");
        assert_eq!(refused(&["ingest"], &[], &["memory"]), "`--vary memory` names no option or no values");
        assert_eq!(refused(&["ingest"], &[], &["memory=1G,"]), "`--vary memory=1G,` names no option or no values");
        assert_eq!(
            refused(&["ingest"], &["colour=red"], &[]),
            "`colour=red` is neither an option (stage.scope.option=value) nor an argument of the import"
        );
        let many = (0..300).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(refused(&["ingest"], &[], &[&format!("threads={many}")]), "these are 300 variants or more");
    }

    #[test]
    fn the_block_cache_is_the_presets() {
        let cache = |preset: &str| {
            let all = variants(&strings(&[preset]), &[], &[]).expect("one");
            block_cache(&all[0].resolve().expect("built in"))
        };
        assert_eq!(cache("ingest"), 32 << 20);
        assert_eq!(cache("forest-point-lookup-256"), 256 << 20);
    }
}
